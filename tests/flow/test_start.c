/* The start: stages work while others are still opening. If one cannot open, nothing may be delivered, everything must
 * end, and every frame must be accounted for. Runs on the cpu and on a simulated accelerator, on workers and with seeds
 * for the deterministic executor. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "millrace/millrace.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/opening_stages.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = FLOW_SEEDS(10), FRAMES = 60 };

/* ---- running --------------------------------------------------------------------------------------------------- */

static mr_pipeline *open_text(const char *text, uint64_t seed, int workers) {
    return flow_open_with(opening_stage_types(), text, seed, workers);
}

typedef void run_function(const char *text, uint64_t seed, int workers);

static void run_given(const char *text, uint64_t seed, int workers, void *context) {
    (*(run_function **)context)(text, seed, workers);
}

static void run_everywhere(const char *format, run_function *run) {
    flow_everywhere(format, SEEDS, run_given, &run);
}

static void expect_balance(mr_pipeline *pipeline) {
    ENDED_BY(mr_summary_destroy) mr_summary *sums = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    assert_int_equal(sums->delivered, atomic_load(&opening_seen.taken));
    assert_int_equal(sums->in_flight, 0);
    assert_int_equal(sums->in, sums->delivered + sums->dropped);
    assert_true(sums->balanced);
    for (size_t i = 0; i < sums->line_count; i++)
        assert_string_equal(sums->lines[i].reason, "stopped");
}

static void expect_order(void) {
    assert_int_equal(opening_seen.unopened, 0);
    assert_int_equal(opening_seen.early, 0);
    assert_int_equal(opening_seen.closes, opening_seen.tried);
}

/* ---- what opens ------------------------------------------------------------------------------------------------ */

static void expect_all(const char *text, uint64_t seed, int workers) {
    int all = atomic_load(&opening_seen.all);
    opening_forget(all);
    mr_pipeline *pipeline = open_text(text, seed, workers);
    if (mr_pipeline_start(pipeline))
        fail_msg("%s", mr_message());
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
    assert_int_equal(opening_seen.taken, FRAMES);
    expect_balance(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(opening_seen.opens, all);
    expect_order();
}

/* A test that opens `all` instances everywhere. */
#define OPENS(name, all, text)                                                                                        \
    TEST(name) {                                                                                                      \
        opening_forget(all);                                                                                          \
        run_everywhere(text, expect_all);                                                                             \
    }

/* Queues with one frame, and slow openings: a single lost wake would stop the run. */
OPENS(no_wake_is_lost_while_stages_open, 5,
      FLOW "sources: {a: {type: read, blocking: true}}\n"
           "stages:\n"
           "  one: {type: work, input: a, queue: 1, takes_ns: 500000, device: \"%1$s\"}\n"
           "  two: {type: work, input: one, queue: 1, blocking: true, takes_ns: 1000000}\n"
           "  three: {type: work, input: two, queue: 1, takes_ns: 500000, device: \"%1$s\"}\n"
           "  end: {type: take, input: three, queue: 1, takes_ns: 200000}\n")

/* `two` finishes opening only when `one` has worked on a frame. */
OPENS(stages_work_while_those_behind_are_opened, 4,
      FLOW "sources: {a: {type: read}}\n"
           "stages:\n"
           "  one: {type: work, input: a, device: \"%1$s\"}\n"
           "  two: {type: work, input: one, await_calls: 1}\n"
           "  end: {type: take, input: two, await_calls: 2}\n")

/* Without threads nothing blocks, and `a` is always first. */
TEST(what_blocks_is_opened_beside_the_others) {
    const char *text = FLOW "sources: {a: {type: read, blocking: true, takes_ns: 20000000}}\n"
                            "stages:\n"
                            "  one: {type: work, input: a, blocking: true, takes_ns: 10000000}\n"
                            "  two: {type: work, input: one, await_calls: 1}\n"
                            "  end: {type: take, input: two, blocking: true}\n";
    opening_forget(4);
    EACH_WORKER_COUNT(workers)
        expect_all(text, 0, workers);
}

/* One is paced; a queue would drop the other's frames. */
TEST(sources_that_cannot_wait_begin_last) {
    opening_forget(3);
    run_everywhere(FLOW "sources: {a: {type: read, paced: true, last: true, blocking: true}}\n"
                        "stages:\n"
                        "  one: {type: work, input: a, takes_ns: 1000000, device: \"%1$s\"}\n"
                        "  end: {type: take, input: one, takes_ns: 1000000}\n",
                   expect_all);
    run_everywhere(FLOW "sources: {a: {type: read, last: true}}\n"
                        "stages:\n"
                        "  one: {type: work, input: a, takes_ns: 1000000, device: \"%1$s\"}\n"
                        "  end: {type: take, input: one, queue: {size: 60, when_full: drop-oldest}}\n",
                   expect_all);
}

/* What reaches an end of the graph is delivered, whether that is a sink or not. */
OPENS(nothing_is_delivered_before_all_is_open, 4,
      FLOW "sources: {a: {type: read}}\n"
           "stages:\n"
           "  end: {type: last, input: a}\n"
           "  one: {type: work, input: a, takes_ns: 1000000, device: \"%1$s\"}\n"
           "  two: {type: work, input: one, takes_ns: 1000000}\n")

/* ---- what does not --------------------------------------------------------------------------------------------- */

static const char *failing; /* the stage that cannot open; NULL: any */

static void expect_failure(const char *text, uint64_t seed, int workers) {
    opening_forget(1000);
    mr_pipeline *pipeline = open_text(text, seed, workers);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(round ? mr_pipeline_wait(pipeline, -1) : mr_pipeline_start(pipeline), MR_ERROR_DATA);
        assert_non_null(strstr(mr_message(), "this one cannot be opened"));
        assert_non_null(strstr(mr_message(), "p.yaml:"));
        if (failing)
            assert_non_null(strstr(mr_message(), failing));
    }
    assert_int_equal(opening_seen.taken, 0);
    if (failing && strstr(failing, "end") == NULL)
        assert_int_equal(opening_seen.sinks_tried, 0);
    expect_balance(pipeline);
    mr_pipeline_destroy(&pipeline);
    expect_order();
}

/* A chain of five: stage `fails` cannot open, and those in the set `blocking` block. */
static void fail_at(int fails, unsigned blocking) {
    static const char *const ids[] = {": a: ", ": one: ", ": two: ", ": three: ", ": end: "};
    char how[5][80], text[2048];
    for (int i = 0; i < 5; i++)
        snprintf(how[i], sizeof how[i], "blocking: %s, fail: %s, await_calls: %d",
                 blocking >> i & 1 ? "true" : "false",
                 i == fails ? "true" : "false", i == fails && i >= 2);
    snprintf(text, sizeof text,
             FLOW "sources: {a: {type: read, frames: 100000000, %s}}\n"
                  "stages:\n"
                  "  one: {type: work, input: a, device: \"%%1$s\", %s}\n"
                  "  two: {type: work, input: one, %s}\n"
                  "  three: {type: work, input: two, queue: 1, device: \"%%1$s\", %s}\n"
                  "  end: {type: take, input: three, %s}\n",
             how[0], how[1], how[2], how[3], how[4]);
    failing = ids[fails];
    run_everywhere(text, expect_failure);
}

TEST(whatever_cannot_be_opened_ends_all) {
    static const unsigned sets[] = {0, 1, 3, 0x14, 0x1f};
    for (int fails = 0; fails < 5; fails++)
        for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
            fail_at(fails, sets[i]);
}

TEST(of_two_failures_one_is_told) {
    failing = NULL;
    run_everywhere(FLOW "sources: {a: {type: read, blocking: true, fail: true, takes_ns: 100000}, b: {type: read}}\n"
                        "stages:\n"
                        "  one: {type: work, input: [a, b], device: \"%1$s\"}\n"
                        "  two: {type: work, input: one, fail: true, takes_ns: 100000}\n"
                        "  end: {type: take, input: two}\n",
                   expect_failure);
}

/* `a` would open for ever if `two` did not fail; the message must be two's. */
TEST(a_failure_interrupts_what_is_being_opened) {
    failing = ": two: ";
    EACH_WORKER_COUNT(workers)
        expect_failure(FLOW "sources: {a: {type: read, blocking: true, stuck: true}, b: {type: read}}\n"
                            "stages:\n"
                            "  one: {type: work, input: [a, b]}\n"
                            "  two: {type: work, input: one, fail: true, await_calls: 1}\n"
                            "  end: {type: take, input: two}\n",
                       0, workers);
}

/* ---- the program beside it ------------------------------------------------------------------------------------- */

static void count_release(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
}

static int push(mr_pipeline *pipeline, atomic_int *released) {
    static const int64_t number = 5;
    mr_push given = {.format = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1}),
                     .data = {&number},
                     .release = count_release,
                     .context = released};
    return mr_pipeline_push(pipeline, "p", &given, 0);
}

#define PUSHED FLOW "sources: {p: {type: push, format: i64 1}}\nstages:\n"

static void what_was_pushed_before_the_start_is_processed(const char *text, uint64_t seed, int workers) {
    atomic_int released = 0;
    opening_forget(2);
    mr_pipeline *pipeline = open_text(text, seed, workers);
    assert_int_equal(push(pipeline, &released), MR_OK);
    assert_int_equal(push(pipeline, &released), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_end(pipeline, "p"), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
    assert_int_equal(opening_seen.taken, 2);
    expect_balance(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(released, 2);
    expect_order();
}

static void what_was_pushed_before_a_failure_is_released(const char *text, uint64_t seed, int workers) {
    atomic_int released = 0;
    opening_forget(0);
    mr_pipeline *pipeline = open_text(text, seed, workers);
    assert_int_equal(push(pipeline, &released), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_ERROR_DATA);
    assert_int_equal(push(pipeline, &released), MR_ERROR_CANCELLED);
    expect_balance(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(released, 1);
    assert_int_equal(opening_seen.taken, 0);
    expect_order();
}

TEST(pushing_needs_no_start) {
    run_everywhere(PUSHED "  one: {type: work, input: p, takes_ns: 100000, device: \"%1$s\"}\n"
                          "  end: {type: take, input: one}\n", what_was_pushed_before_the_start_is_processed);
    run_everywhere(PUSHED "  one: {type: work, input: p, device: \"%1$s\"}\n"
                          "  end: {type: take, input: one, fail: true}\n",
                          what_was_pushed_before_a_failure_is_released);
    atomic_int released = 0;
    mr_pipeline *pipeline = open_text(PUSHED "  end: {type: take, input: p}\n", 0, 2);
    assert_int_equal(push(pipeline, &released), MR_OK);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(released, 1);
}

typedef struct stopper {
    mr_pipeline *pipeline;
    int64_t after_ns;
    bool at_once;
} stopper;

static void *stop(void *context) {
    const stopper *how = context;
    opening_rest(how->after_ns);
    mr_pipeline_stop(how->pipeline, how->at_once);
    return NULL;
}

TEST(stopping_during_the_start_ends_the_run) {
    for (int i = 0; i < 40; i++) {
        opening_forget(4);
        mr_pipeline *pipeline = open_text(FLOW "sources: {a: {type: read, frames: 100000000, blocking: true}}\n"
                                               "stages:\n"
                                               "  one: {type: work, input: a, takes_ns: 300000}\n"
                                               "  two: {type: work, input: one, blocking: true, takes_ns: 500000}\n"
                                               "  end: {type: take, input: two, takes_ns: 200000}\n", 0, 2);
        stopper how = {.pipeline = pipeline, .after_ns = (int64_t)(i / 2) * 50000, .at_once = i % 2};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop, &how), 0);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
        pthread_join(thread, NULL);
        expect_balance(pipeline);
        mr_pipeline_destroy(&pipeline);
        expect_order();
    }
}

/* Failures that these tests cause would fill the screen. */
/* ---- a refused checkpoint ---------------------------------------------------------------------------------------- */

/* The run is then over: a program that waits for the end must not wait for ever. */
TEST_WITH(a_refused_checkpoint_ends_the_run, make_temporary, remove_temporary) {
    static const struct {
        const char *sources;
        int status;
    } cases[] = {{"{a: {type: count, frames: 3}}", MR_ERROR_CONFIG}, {"{max: 2, like: {type: count}}", MR_ERROR_USAGE}};
    char text[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, FLOW "sources: %s\nstages: {out: {type: collect, input: sources.*}}\n",
                 cases[i].sources);
        const mr_pipeline_params params = {.types = flow_stage_types(), .path = "test.yaml", .text = text, .workers = 2,
                                           .resume = temporary_path};
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(&params);
        assert_int_equal(mr_pipeline_start(pipeline), cases[i].status);
        assert_int_equal(mr_pipeline_wait(pipeline, 10 * INT64_C(1000000000)), cases[i].status);
    }
}

RUN_TESTS(be_quiet, NULL)

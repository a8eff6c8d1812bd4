/* The running graph: every pipeline here runs on the cpu and on a simulated accelerator, with many seeds for the
 * deterministic executor and once on real workers. All runs must give the same. */
#include <stdio.h>
#include <string.h>

#include "millrace/log.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = UNDER_TSAN(8, 25) };

typedef struct run {
    int status;        /* from wait */
    mr_summary *sums;
} run;

static run finish(mr_pipeline **pipeline) {
    run result;
    result.status = mr_pipeline_wait(*pipeline, -1);
    assert_int_equal(mr_pipeline_summarize(*pipeline, &result.sums), MR_OK);
    return result;
}

/* The ledger balances in any case. */
static void close_run(mr_pipeline **pipeline, run *result) {
    const mr_summary *sums = result->sums;
    assert_int_equal(sums->in, sums->delivered + sums->dropped + sums->absorbed + sums->in_flight);
    assert_int_equal(sums->in_flight, 0);
    mr_summary_destroy(&result->sums);
    mr_pipeline_destroy(pipeline);
}

typedef void check_function(const run *result);

static void run_once(const char *text, uint64_t seed, int workers, check_function *check) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    run result = finish(&pipeline);
    check(&result);
    close_run(&pipeline, &result);
}

static void run_and_check(const char *text, uint64_t seed, int workers, void *context) {
    run_once(text, seed, workers, *(check_function **)context);
}

static void run_everywhere(const char *format, check_function *check) {
    flow_everywhere(format, SEEDS, run_and_check, &check);
}

static const mr_source_summary *source_of(const run *result, const char *id) {
    for (size_t i = 0; i < result->sums->source_count; i++)
        if (strcmp(result->sums->sources[i].id, id) == 0)
            return &result->sums->sources[i];
    fail_msg("no source %s", id);
    return NULL;
}

/* Every source's frames are in order, none twice. */
static void expect_order(void) {
    for (size_t i = 0; i < collection_count; i++)
        for (size_t j = i + 1; j < collection_count && j < i + 200; j++)
            if (collection[i].identity.source == collection[j].identity.source &&
                collection[i].first == collection[j].first)
                assert_true(mr_identity_compare(&collection[i].identity, &collection[j].identity) < 0);
}

/* ---- a chain ---- */
static void check_chain(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(result->sums->delivered, 200);
    assert_int_equal(collection_count, 200);
    expect_order();
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].value, collection[i].identity.seq + 2);
}

TEST(chain_computes_in_order) {
    run_everywhere("version: 1\npipeline: chain\n"
                   "sources: {a: {type: count, frames: 200}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  two: {type: scale, input: one, device: \"%1$s\"}\n"
                   "  three: {type: scale, input: two, device: \"%1$s\", queue: 1}\n"
                   "  out: {type: collect, input: three}\n",
                   check_chain);
}

/* ---- results whose memory outlives the frame that they came with ---- */
static void check_results(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(collection_count, 100);
    expect_order();
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].noted, collection[i].identity.seq + 1000);
    assert_int_equal(largest_batch, 24);
}

/* The batch needs more frames than the earlier stages have room for. */
TEST(a_batch_of_results_fills) {
    run_everywhere("version: 1\npipeline: results\n"
                   "sources: {a: {type: count, frames: 100}}\n"
                   "stages:\n"
                   "  note: {input: a, device: \"%1$s\", queue: 1}\n"
                   "  scale: {input: note, device: \"%1$s\", queue: 1}\n"
                   "  wide: {type: batcher, input: scale, batch: 24, queue: 24}\n"
                   "  out: {type: collect, input: wide}\n",
                   check_results);
}

/* ---- many sources, a batch across them ---- */
static void check_batch(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(collection_count, 57 + 40 + 3);
    assert_int_equal(source_of(result, "a")->delivered, 57);
    assert_int_equal(source_of(result, "b")->delivered, 40);
    assert_int_equal(source_of(result, "c")->delivered, 3);
    expect_order();
    assert_true(largest_batch <= 8);
    assert_true(smallest_batch >= 1);
}

TEST(batches_across_sources_keep_order) {
    run_everywhere("version: 1\npipeline: batches\n"
                   "sources:\n"
                   "  a: {type: count, frames: 57}\n"
                   "  b: {type: count, frames: 40}\n"
                   "  c: {type: count, frames: 3}\n"
                   "stages:\n"
                   "  one: {type: scale, input: sources.*, device: \"%1$s\"}\n"
                   "  many: {type: batcher, input: one, batch: {size: 8, timeout: 5ms}}\n"
                   "  out: {type: collect, input: many}\n",
                   check_batch);
}

/* ---- fan-out and join ---- */
static void check_join(const run *result) {
    assert_int_equal(result->status, MR_OK);
    /* 0, 3, 6, ... pass the gate; the others find no partner. All reach `first` on the other path. */
    size_t joined = 0, direct = 0;
    for (size_t i = 0; i < collection_count; i++) {
        direct += collection[i].first;
        if (!collection[i].first) {
            joined++;
            assert_int_equal(collection[i].identity.seq % 3, 0);
        }
    }
    assert_int_equal(joined, 34);
    assert_int_equal(direct, 100);
    assert_int_equal(result->sums->delivered, 100);
    expect_order();
}

TEST(joins_match_by_identity) {
    run_everywhere("version: 1\npipeline: join\n"
                   "sources: {a: {type: count, frames: 100}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  some: {type: gate, input: one, every: 3}\n"
                   "  late: {type: slow, input: one, period: 100us}\n"
                   "  both: {type: meet, join: {left: some, right: late}}\n"
                   "  out: {type: collect, input: both}\n"
                   "  first: {type: collect, input: one}\n",
                   check_join);
}

static void check_absorbed(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(result->sums->delivered, 25);
    assert_int_equal(result->sums->absorbed, 75);
    assert_int_equal(result->sums->line_count, 1);
    assert_string_equal(result->sums->lines[0].stage, "some");
    assert_string_equal(result->sums->lines[0].reason, "gate");
    assert_int_equal(result->sums->lines[0].frames, 75);
}

TEST(what_a_gate_holds_back_is_absorbed) {
    run_everywhere("version: 1\npipeline: gate\n"
                   "sources: {a: {type: count, frames: 100}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  some: {type: gate, input: one, every: 4}\n"
                   "  out: {type: collect, input: some}\n",
                   check_absorbed);
}

/* ---- merge, and frames derived from one ---- */
static void check_merge(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(collection_count, 50 * 2 + 50);
    assert_int_equal(result->sums->in, 50);
    assert_int_equal(result->sums->delivered, 50); /* a source frame counts once, however many frames derive from it */
}

TEST(merged_ways_end_together) {
    run_everywhere("version: 1\npipeline: merge\n"
                   "sources: {a: {type: count, frames: 50}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  double: {type: twice, input: one}\n"
                   "  plain: {type: pass, input: one}\n"
                   "  out: {type: collect, input: [double, plain]}\n",
                   check_merge);
}

/* ---- failures ---- */
static void check_broken(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(collection_count, 39);
    assert_int_equal(result->sums->dropped, 1);
    assert_string_equal(result->sums->lines[0].stage, "odd");
    assert_string_equal(result->sums->lines[0].reason, "error");
}

TEST(a_frame_that_fails_is_dropped_and_the_run_goes_on) {
    run_everywhere("version: 1\npipeline: broken\n"
                   "sources: {a: {type: count, frames: 40}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  odd: {type: broken, input: one, fail_at: 7}\n"
                   "  out: {type: collect, input: odd}\n",
                   check_broken);
}

static void check_failing(const run *result) {
    assert_int_equal(result->status, MR_ERROR_DATA);
    assert_true(result->sums->dropped >= 1);
    assert_true(result->sums->in < 100000);
    assert_string_equal(result->sums->lines[0].stage, "odd");
}

TEST(on_error_fail_ends_the_run) {
    run_everywhere("version: 1\npipeline: failing\n"
                   "sources: {a: {type: count, frames: 100000}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  odd: {type: broken, input: one, fail_at: 7, on_error: fail}\n"
                   "  out: {type: collect, input: odd}\n",
                   check_failing);
}

static void check_failed_source(const run *result) {
    assert_int_equal(result->status, MR_ERROR_DATA);
    assert_int_equal(source_of(result, "bad")->status, MR_ERROR_DATA);
    assert_int_equal(source_of(result, "bad")->delivered, 5);
    assert_string_equal(source_of(result, "bad")->message, "frame 5 cannot be read");
    assert_int_equal(source_of(result, "good")->status, MR_OK);
    assert_int_equal(source_of(result, "good")->delivered, 60);
}

TEST(a_failed_source_does_not_stop_the_others) {
    run_everywhere("version: 1\npipeline: sources\n"
                   "sources:\n"
                   "  good: {type: count, frames: 60}\n"
                   "  bad: {type: count, frames: 60, fail_at: 5}\n"
                   "stages:\n"
                   "  one: {type: scale, input: sources.*, device: \"%1$s\"}\n"
                   "  out: {type: collect, input: one}\n",
                   check_failed_source);
}

static _Atomic int logged;

static void count_lines(void *context, mr_log_level level, const char *line) {
    (void)context, (void)level;
    logged += strstr(line, "frame 5 cannot be read") != NULL;
}

TEST(a_failed_source_is_logged_unless_that_is_not_wanted) {
    static const char text[] = "version: 1\npipeline: sources\n"
                               "sources: {bad: {type: count, frames: 60, fail_at: 5}}\n"
                               "stages: {out: {type: collect, input: bad}}\n";
    for (int quiet = 0; quiet < 2; quiet++) {
        flow_stages_reset();
        logged = 0;
        mr_log_to(count_lines, NULL);
        mr_pipeline *pipeline = opened(&(mr_pipeline_params){
            .types = flow_stage_types(), .path = "p.yaml", .text = text, .workers = 1, .quiet_sources = quiet});
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        run result = finish(&pipeline);
        assert_string_equal(source_of(&result, "bad")->message, "frame 5 cannot be read");
        assert_int_equal(result.status, MR_ERROR_DATA);
        close_run(&pipeline, &result);
        be_quiet(state);
        assert_int_equal(logged, !quiet);
    }
}

static void check_failed_sink(const run *result) {
    assert_int_equal(result->status, MR_ERROR_IO);
    assert_int_equal(collection_count, 10);
    assert_int_equal(result->sums->delivered, 10);
    assert_true(result->sums->dropped >= 1);
    assert_string_equal(result->sums->lines[0].stage, "out");
}

TEST(a_sink_that_cannot_write_ends_the_run_in_order) {
    run_everywhere("version: 1\npipeline: sink\n"
                   "sources: {a: {type: count, frames: 100000}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  out: {type: collect, input: one, fail_at: 10}\n",
                   check_failed_sink);
}

static void check_forgetful(const run *result) {
    assert_int_equal(result->status, MR_ERROR_INTERNAL);
    assert_false(result->sums->balanced);
    assert_int_equal(result->sums->sources[0].unaccounted, 10);
    assert_int_equal(result->sums->sources[0].unsettled_count, 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(result->sums->sources[0].unsettled[i].seq, i);
}

TEST(a_lost_frame_unbalances_the_ledger) {
    const char *text = "version: 1\npipeline: lost\n"
                       "sources: {a: {type: count, frames: 10}}\n"
                       "stages:\n"
                       "  lost: {type: forgetful, input: a}\n"
                       "  out: {type: collect, input: lost}\n";
    mr_pipeline *pipeline = flow_open(text, 3, 1);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    run result = finish(&pipeline);
    check_forgetful(&result);
    mr_summary_destroy(&result.sums);
    mr_pipeline_destroy(&pipeline);
}

static void check_device_failures(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_true(result->sums->dropped > 0);
    assert_int_equal(result->sums->delivered + result->sums->dropped, 100);
    assert_int_equal(collection_count, result->sums->delivered);
    assert_string_equal(result->sums->lines[0].reason, "device error");
    expect_order();
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].value, collection[i].identity.seq + 1);
}

TEST(device_failures_drop_their_frames_only) {
    const char *text = "version: 1\npipeline: failing\n"
                       "sources: {a: {type: count, frames: 100}}\n"
                       "stages:\n"
                       "  one: {type: scale, input: a, device: \"sim:0?fail_every=9\"}\n"
                       "  two: {type: scale, input: one, device: \"sim:0?fail_every=9\"}\n"
                       "  out: {type: collect, input: two}\n";
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_once(text, seed, 1, check_device_failures);
    run_once(text, 0, 2, check_device_failures);
}

/* ---- back-pressure and dropping ---- */
static void check_live(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_true(result->sums->dropped > 0);
    assert_int_equal(result->sums->delivered + result->sums->dropped, 300);
    assert_int_equal(collection_count, result->sums->delivered);
    assert_string_equal(result->sums->lines[0].stage, "late");
    assert_string_equal(result->sums->lines[0].reason, "queue full");
    expect_order();
}

TEST(a_live_queue_drops_and_counts) {
    run_everywhere("version: 1\npipeline: live\n"
                   "sources: {a: {type: count, frames: 300, period: 20us}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  late: {type: slow, input: one, period: 1ms, queue: {size: 2, when_full: drop-oldest}}\n"
                   "  out: {type: collect, input: late}\n",
                   check_live);
}

/* A frame dropped at one input has no partner at the other; the rest is in order. */
static void check_live_join(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(result->sums->delivered + result->sums->dropped + result->sums->absorbed, 3000);
    assert_int_equal(result->sums->delivered, collection_count);
    assert_true(collection_count > 0);
    expect_order();
}

/* A producer drops frames from the queues that the join looks at. */
TEST(a_live_join_drops_and_counts) {
    run_everywhere("version: 1\npipeline: live-join\n"
                   "sources: {a: {type: count, frames: 3000}}\n"
                   "stages:\n"
                   "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                   "  two: {type: note, input: a, device: \"%1$s\"}\n"
                   "  both: {type: meet, join: {left: one, right: two}, queue: {size: 2, when_full: drop-oldest}}\n"
                   "  out: {type: collect, input: both}\n",
                   check_live_join);
}

/* ---- stopping ---- */
static int64_t draining_ns(mr_pipeline *pipeline) {
    mr_summary *sums = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    int64_t ns = sums->draining_ns;
    mr_summary_destroy(&sums);
    return ns;
}

static void stop_midway(bool at_once, uint64_t seed, int64_t after_ns) {
    const char *text = "version: 1\npipeline: stop\n"
                       "sources: {a: {type: count, frames: 100000000}, b: {type: count, frames: 9, period: 1s}}\n"
                       "stages:\n"
                       "  one: {type: scale, input: sources.*, device: \"sim:0\"}\n"
                       "  late: {type: slow, input: one, period: 50us}\n"
                       "  out: {type: collect, input: late}\n";
    mr_pipeline *pipeline = flow_open(text, seed, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, after_ns), MR_ERROR_AGAIN);
    assert_true(draining_ns(pipeline) == 0);
    mr_pipeline_stop(pipeline, at_once);
    /* With a seed nothing can move between two waits. */
    if (seed)
        assert_true(at_once ? draining_ns(pipeline) == 0 : draining_ns(pipeline) > 0);
    run result = finish(&pipeline);
    assert_int_equal(result.status, MR_OK);
    assert_true(result.sums->draining_ns == 0);
    if (!at_once)
        assert_int_equal(result.sums->delivered, result.sums->in);
    close_run(&pipeline, &result);
}

TEST(stopping_drains_or_drops_and_always_balances) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        stop_midway(false, seed, (int64_t)seed * 100000);
        stop_midway(true, seed, (int64_t)seed * 100000);
    }
    stop_midway(false, 0, 20000000);
    stop_midway(true, 0, 20000000);
}

TEST(destroying_a_running_pipeline_leaks_nothing) {
    const char *text = "version: 1\npipeline: destroy\n"
                       "sources: {a: {type: count, frames: 100000000}}\n"
                       "stages:\n"
                       "  one: {type: scale, input: a, device: \"sim:0\"}\n"
                       "  out: {type: collect, input: one}\n";
    mr_pipeline *pipeline = flow_open(text, 0, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, 5000000), MR_ERROR_AGAIN);
    mr_pipeline_destroy(&pipeline);
    assert_null(pipeline);
}

/* ---- workers that overtake each other ---- */

/* Nobody takes laggard's outputs, so laggard's calls hold all buffers. Later calls must leave one for the first, or no
 * call could ever end. */
TEST(a_call_that_others_overtake_gets_its_buffer) {
    mr_pipeline *pipeline = flow_open("version: 1\npipeline: overtaking\n"
                                      "sources: {a: {type: count, frames: 50}}\n"
                                      "stages: {laggard: {input: a}}\n", 0, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    run result = {.status = mr_pipeline_wait(pipeline, 120000000000)};
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, &result.sums), MR_OK);
    assert_int_equal(result.sums->absorbed, 50);
    close_run(&pipeline, &result);
}

static void expect_recounted(const run *result) {
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(result->sums->absorbed, 2 * 100);
    assert_int_equal(result->sums->dropped, 2);
    assert_int_equal(collection_count, 2 * 199);
    uint64_t next[2] = {0};
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].identity.seq, next[collection[i].identity.source]++);
}

TEST(calls_that_overlap_take_turns) {
    const char *text = "version: 1\npipeline: turns\n"
                       "sources: {a: {type: count, frames: 300}, b: {type: count, frames: 300}}\n"
                       "stages:\n"
                       "  recount: {input: [a, b], every: 3, fail_at: 100}\n"
                       "  out: {type: collect, input: recount}\n";
    run_once(text, 3, 1, expect_recounted);
    EACH_WORKER_COUNT(workers)
        run_once(text, 0, workers, expect_recounted);
}

/* ---- steady state ---- */
TEST(nothing_is_allocated_per_frame) {
    uint64_t allocations[2];
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "version: 1\npipeline: steady\n"
                 "sources: {a: {type: count, frames: %d}}\n"
                 "stages:\n"
                 "  one: {type: scale, input: a}\n"
                 "  some: {type: gate, input: one, every: 2}\n"
                 "  both: {type: meet, join: {left: some, right: one}}\n"
                 "  out: {type: collect, input: both}\n",
                 i ? 40000 : 4000);
            mr_pipeline *pipeline = flow_open(text, 11, 1);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        run result = finish(&pipeline);
        allocations[i] = result.sums->allocations;
        close_run(&pipeline, &result);
    }
    /* Ten times the frames need the same number of blocks; what varies with the order stays far below one per frame. */
    assert_in_range(allocations[1], 0, allocations[0] + 50);
}

RUN_TESTS(be_quiet, expect_no_misuse)

/* Sources whose driver or library does not return from a call: others see it, and see it end. */
#include <pthread.h>
#include <stdio.h>

#include "millrace/audit.h"
#include "millrace/log.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/worker_counts.h"

/* ---- sources ----------------------------------------------------------------------------------------------------- */

enum { WITHIN_MS = 40 };
static atomic_bool released; /* calls that hang return */
static atomic_bool seen_live = true, seen_back = true; /* until then they do not hang, or do not return */
static atomic_int calls;

static void report_live(const mr_stage *self, int64_t within_ns) {
    mr_stage_report(self, &(mr_source_report){.phase = MR_LINK_LIVE, .connections = 1, .within_ns = within_ns});
}

/* Nothing wakes it, as in a driver. */
static int hang(mr_io *io) {
    atomic_fetch_add(&calls, 1);
    while (!atomic_load(&released))
        sleep_ms(1);
    mr_io_wake_at(io, INT64_MAX);
    return MR_WAIT;
}

static int hung_process(mr_stage *self, mr_io *io) {
    report_live(self, 0);
    while (!atomic_load(&seen_live))
        sleep_ms(1);
    report_live(self, WITHIN_MS * INT64_C(1000000));
    return hang(io);
}

/* Reports nothing, like a file on a server that does not answer. */
static int deaf_process(mr_stage *self, mr_io *io) {
    return hang(io);
}

/* It reports again in the call that hung, like a camera that connects again. */
static int returning_process(mr_stage *self, mr_io *io) {
    hung_process(self, io);
    report_live(self, 0);
    while (!atomic_load(&seen_back))
        sleep_ms(1);
    atomic_fetch_add(&calls, 1);
    mr_io_wake_at(io, INT64_MAX);
    return MR_WAIT;
}

/* Each call returns at about the time when it would be late. */
static int slow_process(mr_stage *self, mr_io *io) {
    report_live(self, 1000000);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_fetch_add(&calls, 1);
    mr_io_wake_at(io, 0);
    return MR_WAIT;
}

/* Waits between two calls for longer than a call may take. */
static int idle_process(mr_stage *self, mr_io *io) {
    report_live(self, 1000000);
    atomic_fetch_add(&calls, 1);
    mr_io_wake_at(io, INT64_MAX);
    return MR_WAIT;
}

static atomic_int closes, stops;

static int closing_process(mr_stage *self, mr_io *io) {
    atomic_fetch_add(&calls, 1);
    mr_io_wake_at(io, INT64_MAX);
    return MR_WAIT;
}

/* A driver that hangs when its device is closed. */
static void hang_in_close(mr_stage *self) {
    atomic_fetch_add(&closes, 1);
    while (!atomic_load(&released))
        sleep_ms(1);
}

static void count_stop(mr_stage *self) {
    atomic_fetch_add(&stops, 1);
}

static const mr_format_set results_only[] = {{.payload = MR_PAYLOAD_RESULTS}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port results_port[] = {{.name = "out", .help = "frames", .accepts = results_only}, {0}};
#define SOURCE(kind)                                                                                                  \
    static const mr_stage_type kind##_type = {.name = #kind, .summary = "a source of this suite",                     \
                                              .outputs = results_port, .entry = MR_ENTRY_SHARED, .blocking = true,    \
                                              .process = kind##_process}
SOURCE(hung);
SOURCE(deaf);
SOURCE(returning);
SOURCE(slow);
SOURCE(idle);
static const mr_stage_type closing_type = {.name = "closing", .summary = "a source of this suite",
                                           .outputs = results_port, .entry = MR_ENTRY_SHARED, .blocking = true,
                                           .process = closing_process, .close = hang_in_close, .stop = count_stop};
static const mr_stage_type *const own_types[] = {&hung_type, &deaf_type, &returning_type, &slow_type,
                                                 &idle_type, &closing_type, NULL};

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static atomic_int stalled_lines, back_lines;

static void hear(void *context, mr_log_level level, const char *line) {
    atomic_fetch_add(&stalled_lines, strstr(line, "cam: stalled: a call into its driver or library has not returned")
                                         != NULL);
    atomic_fetch_add(&back_lines, strstr(line, "cam: answers again after ") != NULL);
}

static _Atomic(mr_pipeline *) looked_at;

/* A program's log may show the state with each line. */
static void hear_and_look(void *context, mr_log_level level, const char *line) {
    mr_summary *seen = NULL;
    mr_pipeline *pipeline = atomic_load(&looked_at);
    hear(context, level, line);
    if (pipeline && !mr_pipeline_snapshot(pipeline, 0, &seen))
        mr_summary_destroy(&seen);
}

/* Some pipeline's source `cam`, of this type. */
static mr_pipeline *begin(const char *type, int workers, int64_t grace_ns) {
    static mr_type_list types;
    char text[512];
    if (!types.item) {
        assert_int_equal(mr_type_list_add(&types, own_types, false), MR_OK);
        assert_int_equal(mr_type_list_add(&types, flow_stage_types(), false), MR_OK);
    }
    atomic_store(&released, false);
    atomic_store(&calls, 0);
    atomic_store(&stalled_lines, 0);
    atomic_store(&back_lines, 0);
    mr_log_to(hear, NULL);
    snprintf(text, sizeof text, FLOW "sources: {max: 2, like: {type: count}, cam: {type: %s}}\n"
                                     "stages: {out: {type: collect, input: sources.*}}\n", type);
    mr_pipeline *pipeline = opened(&(mr_pipeline_params){.types = types.item, .path = "p.yaml", .text = text,
                                                         .workers = workers, .grace_ns = grace_ns});
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return pipeline;
}

static mr_source_summary row_of(mr_pipeline *pipeline) {
    ENDED_BY(mr_summary_destroy) mr_summary *summary;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    return *flow_source(summary, "cam");
}

#define AWAIT(pipeline, is_so)                                                                                        \
    do {                                                                                                              \
        mr_source_summary row = row_of(pipeline);                                                                     \
        for (int turn = 0; turn < 60000 && !(is_so); turn++, row = row_of(pipeline))                                  \
            sleep_ms(1);                                                                                              \
        assert_true(is_so);                                                                                           \
    } while (0)

static void finish(mr_pipeline **pipeline) {
    mr_pipeline_stop(*pipeline, false);
    mr_summary *summary = flow_end(*pipeline);
    assert_false(flow_source(summary, "cam")->hangs);
    flow_close(pipeline, &summary);
    mr_log_to(NULL, NULL);
}

/* ---- seen -------------------------------------------------------------------------------------------------------- */

/* It stayed "live" without a word. */
TEST_WITH(a_call_that_hangs_is_seen_and_its_return_too, make_temporary, remove_temporary) {
    assert_int_equal(mr_audit_open(temporary_path), MR_OK);
    atomic_store(&seen_live, false);
    mr_pipeline *pipeline = begin("hung", 2, 0);
    AWAIT(pipeline, row.report.phase == MR_LINK_LIVE);
    atomic_store(&seen_live, true);
    AWAIT(pipeline, row.hangs);
    const mr_source_summary first = row_of(pipeline);
    assert_int_equal(first.report.phase, MR_LINK_STALLED);
    assert_int_equal(first.report.connections, 1);
    assert_int_equal(first.report.next_ns, 0);
    assert_string_equal(first.report.why, "a call into its driver or library has not returned");
    sleep_ms(100);
    assert_true(first.report.since_ns > 0);
    assert_int_equal(row_of(pipeline).report.since_ns, first.report.since_ns);
    assert_int_equal(atomic_load(&stalled_lines), 1);
    assert_int_equal(atomic_load(&back_lines), 0);
    atomic_store(&released, true);
    AWAIT(pipeline, row.report.phase == MR_LINK_LIVE && !row.hangs);
    finish(&pipeline);
    assert_int_equal(atomic_load(&stalled_lines), 1);
    assert_int_equal(atomic_load(&back_lines), 1);
    mr_audit_close();
    FREED char *audit = whole_file(temporary_path);
    const char *stalled = strstr(audit, "\"state\":\"stalled\"");
    assert_non_null(stalled);
    assert_non_null(strstr(stalled, "\"state\":\"live\""));
    assert_null(strstr(stalled + 1, "\"state\":\"stalled\""));
}

/* A snapshot that is half a second old must not hide either. */
TEST(a_snapshot_shows_the_return_at_once) {
    ENDED_BY(mr_summary_destroy) mr_summary *seen = NULL;
    mr_pipeline *pipeline = begin("returning", 2, 0);
    AWAIT(pipeline, row.hangs);
    assert_int_equal(mr_pipeline_snapshot(pipeline, 60000000000, &seen), MR_OK);
    assert_true(flow_source(seen, "cam")->hangs);
    atomic_store(&seen_back, false);
    atomic_store(&released, true);
    for (int i = 0; i < 60000 && !atomic_load(&back_lines); i++)
        sleep_ms(1);
    assert_int_equal(atomic_load(&calls), 1); /* still in the same call, which has reported */
    mr_summary_destroy(&seen);
    assert_int_equal(mr_pipeline_snapshot(pipeline, 60000000000, &seen), MR_OK);
    assert_int_equal(flow_source(seen, "cam")->report.phase, MR_LINK_LIVE);
    atomic_store(&seen_back, true);
    await_count(&calls, 2);
    mr_summary_destroy(&seen);
    finish(&pipeline);
    assert_int_equal(atomic_load(&stalled_lines), 1);
    assert_int_equal(atomic_load(&back_lines), 1);
}

TEST(the_log_may_look_at_the_run) {
    ENDED_BY(mr_summary_destroy) mr_summary *seen = NULL;
    mr_pipeline *pipeline = begin("hung", 2, 0);
    await_count(&calls, 1);
    sleep_ms(2 * WITHIN_MS);
    mr_log_to(hear_and_look, NULL);
    atomic_store(&looked_at, pipeline);
    assert_int_equal(mr_pipeline_snapshot(pipeline, 0, &seen), MR_OK);
    assert_true(flow_source(seen, "cam")->hangs);
    assert_int_equal(atomic_load(&stalled_lines), 1);
    atomic_store(&looked_at, NULL);
    atomic_store(&released, true);
    mr_summary_destroy(&seen);
    finish(&pipeline);
}

TEST(a_source_that_is_not_called_does_not_hang) {
    mr_pipeline *pipeline = begin("idle", 2, 0);
    await_count(&calls, 1);
    sleep_ms(50);
    assert_int_equal(row_of(pipeline).report.phase, MR_LINK_LIVE);
    finish(&pipeline);
    assert_int_equal(atomic_load(&stalled_lines), 0);
}

/* ---- asked to end ------------------------------------------------------------------------------------------------ */

static void expect_asked(mr_pipeline *pipeline) {
    AWAIT(pipeline, row.hangs);
    const mr_source_summary row = row_of(pipeline);
    assert_int_equal(row.report.phase, MR_LINK_STALLED);
    assert_string_equal(row.report.why, "a call into its driver or library has not returned since it was asked to end");
    assert_int_equal(atomic_load(&stalled_lines), 1);
}

TEST(one_that_is_removed_and_does_not_return_is_seen) {
    mr_pipeline *pipeline = begin("deaf", 2, 200000000);
    await_count(&calls, 1);
    sleep_ms(150);
    assert_int_equal(row_of(pipeline).report.phase, MR_LINK_UNREPORTED);
    assert_int_equal(mr_pipeline_remove_source(pipeline, "cam", 0), MR_ERROR_AGAIN);
    expect_asked(pipeline);
    atomic_store(&released, true);
    AWAIT(pipeline, row.stay.removed);
    assert_int_equal(atomic_load(&back_lines), 1);
    finish(&pipeline);
}

TEST(one_that_does_not_end_with_the_run_is_seen) {
    mr_pipeline *pipeline = begin("deaf", 2, 200000000);
    await_count(&calls, 1);
    mr_pipeline_stop(pipeline, false);
    expect_asked(pipeline);
    atomic_store(&released, true);
    finish(&pipeline);
}

static atomic_int stopped;

static void *stop_again(void *pipeline) {
    mr_pipeline_stop(pipeline, true);
    atomic_fetch_add(&stopped, 1);
    return NULL;
}

/* The second stop waited for the close, and with it the thread that counts the grace time. */
TEST(a_run_can_be_stopped_again_while_a_source_hangs_in_close) {
    pthread_t thread;
    atomic_store(&closes, 0);
    atomic_store(&stopped, 0);
    mr_pipeline *pipeline = begin("closing", 2, 200000000);
    await_count(&calls, 1);
    mr_pipeline_stop(pipeline, false);
    await_count(&closes, 1);
    const int stops_before = atomic_load(&stops);
    assert_int_equal(pthread_create(&thread, NULL, stop_again, pipeline), 0);
    await_count(&stopped, 1);
    assert_false(row_of(pipeline).hangs); /* nor does the summary wait */
    assert_int_equal(atomic_load(&stops), stops_before);
    atomic_store(&released, true);
    pthread_join(thread, NULL);
    finish(&pipeline);
}

/* ---- from several threads ---------------------------------------------------------------------------------------- */

static atomic_bool looked_enough;

static void *look_again_and_again(void *context) {
    while (!atomic_load(&looked_enough)) {
        const mr_source_summary row = row_of(context);
        assert_true(!row.hangs || row.report.phase == MR_LINK_STALLED);
    }
    return NULL;
}

/* Calls end at the moment when somebody finds them late. */
TEST(calls_end_while_others_look) {
    EACH_WORKER_COUNT(workers) {
        pthread_t thread[3];
        atomic_store(&looked_enough, false);
        mr_pipeline *pipeline = begin("slow", workers, 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, look_again_and_again, pipeline), 0);
        while (atomic_load(&calls) < 200)
            sleep_ms(1);
        atomic_store(&looked_enough, true);
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        mr_pipeline_stop(pipeline, false);
        mr_summary *summary = flow_end(pipeline);
        assert_int_equal(flow_source(summary, "cam")->report.phase, MR_LINK_ENDED);
        flow_close(&pipeline, &summary);
    }
    mr_log_to(NULL, NULL);
}

RUN_TESTS_AT_ONCE(be_quiet, NULL)

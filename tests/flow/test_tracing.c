/* What a running graph writes to the trace: exactly in simulated time, and on threads as the summary says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "millrace/log.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/worker_counts.h"

/* ---- running and reading ---- */

static mr_pipeline *start_text(const char *text, uint64_t seed, int workers) {
    const mr_pipeline_params params = {.types = flow_stage_types(), .path = "test.yaml", .text = text, .seed = seed,
                                       .workers = workers, .trace = temporary_path};
    flow_stages_reset();
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return pipeline;
}

/* Runs to the end; the file is complete when wait returns. */
static mr_pipeline *run_text(const char *text, uint64_t seed, int workers, mr_summary **sums) {
    mr_pipeline *pipeline = start_text(text, seed, workers);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, sums), MR_OK);
    return pipeline;
}

typedef struct events {
    yajl_val root;
    size_t count;
    yajl_val *event;
} events;

static events parse_file(void) {
    char wrong[256], *text = whole_file(temporary_path);
    events got = {.root = yajl_tree_parse(text, wrong, sizeof wrong)};
    if (!got.root)
        fail_msg("not JSON: %s", wrong);
    free(text);
    yajl_val list = yajl_tree_get(got.root, (const char *[]){"traceEvents", NULL}, yajl_t_array);
    assert_non_null(list);
    got.count = list->u.array.len;
    got.event = list->u.array.values;
    return got;
}

static const char *text_of(yajl_val event, const char *key) {
    yajl_val value = yajl_tree_get(event, (const char *[]){key, NULL}, yajl_t_string);
    return value ? value->u.string : "";
}

static double number_of(yajl_val event, const char *key) {
    yajl_val value = yajl_tree_get(event, (const char *[]){key, NULL}, yajl_t_number);
    return value ? strtod(value->u.number.r, NULL) : -1;
}

static const char *argument_of(yajl_val event, const char *key) {
    yajl_val value = yajl_tree_get(event, (const char *[]){"args", key, NULL}, yajl_t_string);
    return value ? value->u.string : "";
}

/* The group's number; -1 if nothing happened in it. */
static double group_named(const events *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(text_of(all->event[i], "name"), "process_name") == 0 &&
            strcmp(argument_of(all->event[i], "name"), name) == 0)
            return number_of(all->event[i], "pid");
    return -1;
}

/* The number of a group's row; -1 if nothing happened in it. */
static double row_named(const events *all, double group, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(text_of(all->event[i], "name"), "thread_name") == 0 && number_of(all->event[i], "pid") == group &&
            strcmp(argument_of(all->event[i], "name"), name) == 0)
            return number_of(all->event[i], "tid");
    return -1;
}

/* ---- exactly ---- */

/* Copying eight bytes takes 1 us, work 5 us. */
#define DEVICE "sim:0?copy=8MB/s&call=5us"

static const char one_after_the_other[] =
    "version: 1\npipeline: exact\n"
    "sources: {a: {type: count, frames: 1}}\n"
    "stages:\n"
    "  first: {type: scale, input: a}\n"
    "  on: {type: scale, input: first, device: \"" DEVICE "\"}\n"
    "  out: {type: collect, input: on}\n";

static const char expected[] =
    "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"exact\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"mr-worker-0\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":1,\"args\":{\"sort_index\":1}},\n"
    "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"s\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"cat\":\"frame\",\"id\":0},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"queues\"}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of first\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":1}},\n"
    "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":0.000,\"dur\":0.000,\"args\":{}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of first\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":0}},\n"
    "{\"ph\":\"X\",\"name\":\"first\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"t\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"cat\":\"frame\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"C\",\"name\":\"queue of first->" DEVICE "\",\"pid\":3,"
    "\"ts\":0.000,\"args\":{\"frames\":1}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of first->" DEVICE "\",\"pid\":3,"
    "\"ts\":0.000,\"args\":{\"frames\":0}},\n"
    "{\"ph\":\"X\",\"name\":\"first->" DEVICE "\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"t\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"cat\":\"frame\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"C\",\"name\":\"queue of on\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":1}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of on\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":0}},\n"
    "{\"ph\":\"X\",\"name\":\"on\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"t\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"cat\":\"frame\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"C\",\"name\":\"queue of on->host\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":1}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of on->host\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":0}},\n"
    "{\"ph\":\"X\",\"name\":\"on->host\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"t\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":0.000,\"cat\":\"frame\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"C\",\"name\":\"queue of out\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":1}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of out\",\"pid\":3,\"ts\":0.000,\"args\":{\"frames\":0}},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4,\"args\":{\"name\":\"sim:0\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4,\"tid\":14,\"args\":{\"name\":\"upload\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":4,\"tid\":14,\"args\":{\"sort_index\":14}},\n"
    "{\"ph\":\"X\",\"name\":\"first->" DEVICE "\",\"pid\":4,\"tid\":14,"
    "\"ts\":0.000,\"dur\":1.000,\"args\":{\"source\":\"a\",\"seq\":0,\"bytes\":8}},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"waiting\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":6,\"args\":{\"name\":\"first->" DEVICE "\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":2,\"tid\":6,\"args\":{\"sort_index\":6}},\n"
    "{\"ph\":\"X\",\"name\":\"sim:0\",\"pid\":2,\"tid\":6,\"ts\":0.000,\"dur\":1.000,\"args\":{}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4,\"tid\":15,\"args\":{\"name\":\"compute\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":4,\"tid\":15,\"args\":{\"sort_index\":15}},\n"
    "{\"ph\":\"X\",\"name\":\"on\",\"pid\":4,\"tid\":15,"
    "\"ts\":1.000,\"dur\":5.000,\"args\":{\"source\":\"a\",\"seq\":0}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":8,\"args\":{\"name\":\"on\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":2,\"tid\":8,\"args\":{\"sort_index\":8}},\n"
    "{\"ph\":\"X\",\"name\":\"sim:0\",\"pid\":2,\"tid\":8,\"ts\":0.000,\"dur\":6.000,\"args\":{}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4,\"tid\":16,\"args\":{\"name\":\"download\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":4,\"tid\":16,\"args\":{\"sort_index\":16}},\n"
    "{\"ph\":\"X\",\"name\":\"on->host\",\"pid\":4,\"tid\":16,"
    "\"ts\":6.000,\"dur\":1.000,\"args\":{\"source\":\"a\",\"seq\":0,\"bytes\":8}},\n"
    "{\"ph\":\"X\",\"name\":\"out\",\"pid\":1,\"tid\":1,"
    "\"ts\":7.000,\"dur\":0.000,\"args\":{\"source\":\"a\",\"seq\":0,\"frames\":1}},\n"
    "{\"ph\":\"f\",\"name\":\"frame\",\"pid\":1,\"tid\":1,"
    "\"ts\":7.000,\"cat\":\"frame\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":10,\"args\":{\"name\":\"on->host\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":2,\"tid\":10,\"args\":{\"sort_index\":10}},\n"
    "{\"ph\":\"X\",\"name\":\"sim:0\",\"pid\":2,\"tid\":10,\"ts\":0.000,\"dur\":7.000,\"args\":{}}\n"
    "],\"otherData\":{\"events_lost\":0}}\n";

TEST_WITH(simulated_time_is_written_exactly, make_temporary, remove_temporary) {
    mr_summary *sums = NULL;
    mr_pipeline *pipeline = run_text(one_after_the_other, 1, 1, &sums);
    flow_close(&pipeline, &sums);
    FREED char *text = whole_file(temporary_path);
    assert_string_equal(text, expected);
}

/* ---- as the summary says ---- */

/* So few frames that one thread's ring can hold everything about them, however late the writer is. */
static const char many_stages[] =
    "version: 1\npipeline: many\n"
    "sources:\n  a: {type: count, frames: 150}\n  b: {type: count, frames: 50}\n"
    "stages:\n"
    "  one: {type: scale, input: sources.*}\n"
    "  two: {type: scale, input: one, device: \"sim:0\"}\n"
    "  many: {type: batcher, input: two, batch: {size: 4, timeout: 1ms}}\n"
    "  gate: {type: gate, input: many, queue: {size: 2, when_full: drop-oldest}}\n"
    "  slow: {type: slow, input: gate, period: 50us, queue: {size: 1, when_full: drop-newest}}\n"
    "  out: {type: collect, input: slow}\n";

/* Checks a stage's calls in the workers' rows, and the total time. */
static void expect_calls(const events *all, double group, const mr_stage_summary *stage) {
    uint64_t calls = 0;
    double busy_us = 0;
    for (size_t i = 0; i < all->count; i++) {
        yajl_val event = all->event[i];
        if (strcmp(text_of(event, "ph"), "X") || number_of(event, "pid") != group ||
            strcmp(text_of(event, "name"), stage->id))
            continue;
        calls++;
        busy_us += number_of(event, "dur");
    }
    assert_int_equal(calls, stage->calls);
    assert_true(fabs(busy_us * 1e3 - (double)stage->busy_ns) < 1);
}

static void expect_drops(const events *all, double group, const mr_summary *sums) {
    double row = row_named(all, group, "drops");
    uint64_t dropped = 0;
    for (size_t i = 0; i < sums->line_count; i++) {
        const mr_ledger_line *line = &sums->lines[i];
        uint64_t told = 0;
        for (size_t e = 0; line->outcome == MR_OUTCOME_DROPPED && e < all->count; e++)
            told += strcmp(text_of(all->event[e], "ph"), "i") == 0 && number_of(all->event[e], "tid") == row &&
                    strcmp(text_of(all->event[e], "name"), line->reason) == 0 &&
                    strcmp(argument_of(all->event[e], "stage"), line->stage) == 0;
        if (line->outcome == MR_OUTCOME_DROPPED)
            assert_int_equal(told, line->frames);
        dropped += told;
    }
    assert_int_equal(dropped, sums->dropped);
}

static void expect_summary(uint64_t seed, int workers) {
    mr_summary *sums = NULL;
    mr_pipeline *pipeline = run_text(many_stages, seed, workers, &sums);
    events all = parse_file();
    yajl_val lost = yajl_tree_get(all.root, (const char *[]){"otherData", "events_lost", NULL}, yajl_t_number);
    assert_string_equal(YAJL_GET_NUMBER(lost), "0");
    double group = group_named(&all, "many");
    assert_true(sums->dropped > 0);
    expect_drops(&all, group, sums);
    for (size_t i = 0; i < sums->stage_count; i++)
        expect_calls(&all, group, &sums->stages[i]);
    yajl_tree_free(all.root);
    flow_close(&pipeline, &sums);
}

TEST_WITH(calls_and_drops_are_those_of_the_summary, make_temporary, remove_temporary) {
    for (uint64_t seed = 1; seed <= 10; seed++)
        expect_summary(seed, 1);
    EACH_WORKER_COUNT(workers)
        expect_summary(0, workers);
}

/* ---- overlap ---- */

typedef struct span {
    double begin, end;
} span;

/* Adds the spans from one sim:0 engine. */
static size_t add_spans(const events *all, const char *engine, span *to, size_t count) {
    double row = row_named(all, group_named(all, "sim:0"), engine);
    for (size_t i = 0; i < all->count; i++) {
        yajl_val event = all->event[i];
        if (strcmp(text_of(event, "ph"), "X") || number_of(event, "tid") != row)
            continue;
        double begin = number_of(event, "ts");
        to[count++] = (span){begin, begin + number_of(event, "dur")};
    }
    return count;
}

static int by_begin(const void *a, const void *b) {
    const span *first = a, *second = b;
    return (first->begin > second->begin) - (first->begin < second->begin);
}

/* Merges spans that overlap or touch; returns how many are left, and the total time. */
static size_t join_spans(span *spans, size_t count, double *sum) {
    size_t joined = 0;
    qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 0; i < count; i++)
        if (joined && spans[i].begin <= spans[joined - 1].end)
            spans[joined - 1].end = fmax(spans[joined - 1].end, spans[i].end);
        else
            spans[joined++] = spans[i];
    *sum = 0;
    for (size_t i = 0; i < joined; i++)
        *sum += spans[i].end - spans[i].begin;
    return joined;
}

static double overlap(const span *a, size_t a_count, const span *b, size_t b_count) {
    double sum = 0;
    for (size_t i = 0; i < a_count; i++)
        for (size_t j = 0; j < b_count; j++)
            sum += fmax(0, fmin(a[i].end, b[j].end) - fmax(a[i].begin, b[j].begin));
    return sum;
}

enum { FRAMES = 200 };

/* Copies in either direction and computing overlap by a given part of the shorter one. */
static void expect_hidden(const events *all) {
    span copies[2 * FRAMES], work[FRAMES];
    double copying, computing;
    size_t copy_count = add_spans(all, "download", copies, add_spans(all, "upload", copies, 0));
    size_t work_count = add_spans(all, "compute", work, 0);
    assert_int_equal(copy_count, 2 * FRAMES);
    assert_int_equal(work_count, FRAMES);
    copy_count = join_spans(copies, copy_count, &copying);
    work_count = join_spans(work, work_count, &computing);
    assert_true(overlap(copies, copy_count, work, work_count) >= 0.9 * fmin(copying, computing));
}

/* Copies that take about as long as the work, less, and more. */
TEST_WITH(copies_hide_behind_work, make_temporary, remove_temporary) {
    static const char *const rates[] = {
        "upload=800kB/s&download=1MB/s&call=9us",
        "upload=4MB/s&download=2MB/s&call=20us",
        "upload=200kB/s&download=400kB/s&call=5us",
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        char text[512];
        mr_summary *sums = NULL;
        snprintf(text, sizeof text,
                 "version: 1\npipeline: overlap\nsources: {a: {type: count, frames: %d}}\nstages:\n"
                 "  first: {type: scale, input: a}\n  on: {type: scale, input: first, device: \"sim:0?%s\"}\n"
                 "  out: {type: collect, input: on}\n", FRAMES, rates[i]);
        mr_pipeline *pipeline = run_text(text, 1, 1, &sums);
        events all = parse_file();
        expect_hidden(&all);
        yajl_tree_free(all.root);
        flow_close(&pipeline, &sums);
    }
}

/* ---- waits ---- */

/* Everything before a slow stage fills up: the stage before it waits for room nearly all the time, and for nothing
 * else. */
TEST_WITH(who_is_stuck_says_on_what, make_temporary, remove_temporary) {
    mr_summary *sums = NULL;
    mr_pipeline *pipeline = run_text("version: 1\npipeline: stuck\nsources: {a: {type: count, frames: 50}}\nstages:\n"
                                     "  quick: {type: pass, input: a, queue: 2}\n"
                                     "  slow: {type: slow, input: quick, period: 1ms, queue: 2}\n"
                                     "  out: {type: collect, input: slow}\n", 1, 1, &sums);
    events all = parse_file();
    double waiting = group_named(&all, "waiting"), row = row_named(&all, waiting, "quick"), stuck_us = 0;
    for (size_t i = 0; i < all.count; i++) {
        yajl_val event = all.event[i];
        if (strcmp(text_of(event, "ph"), "X") || number_of(event, "tid") != row)
            continue;
        assert_string_equal(text_of(event, "name"), "room in slow");
        stuck_us += number_of(event, "dur");
    }
    assert_true(stuck_us > 40e3 && stuck_us < 50e3);
    yajl_tree_free(all.root);
    flow_close(&pipeline, &sums);
}

/* ---- failures ---- */

static int open_with(const char *trace, mr_pipeline **pipeline) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.types = flow_stage_types(), .path = "test.yaml", .text = one_after_the_other,
                                 .trace = trace, .seed = 1};
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    mr_diagnostics_fini(&wrong);
    return status;
}

TEST_WITH(a_trace_that_cannot_be_written_fails_the_run, make_temporary, remove_temporary) {
    mr_pipeline *pipeline = NULL;
    assert_int_equal(open_with("/nowhere/trace.json", &pipeline), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_ERROR_IO);
    assert_string_equal(mr_message(), "cannot write to /nowhere/trace.json: there is no folder /nowhere");
    mr_pipeline_destroy(&pipeline);
    be_quiet(NULL);
    flow_stages_reset();
    assert_int_equal(open_with("/dev/full", &pipeline), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_ERROR_IO);
    assert_string_equal(mr_message(), "cannot write to /dev/full: No space left on device");
    assert_int_equal(collection_count, 1);
    mr_pipeline_destroy(&pipeline);
    mr_log_to(NULL, NULL);
}

RUN_TESTS(NULL, NULL)

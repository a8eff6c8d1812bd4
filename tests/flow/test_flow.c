/* The running graph: every pipeline here runs on the cpu and on a simulated accelerator, with many seeds for the
 * deterministic executor and on real workers. All runs must give the same. */
#include <stdio.h>
#include <string.h>

#include "millrace/log.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = FLOW_SEEDS(25) };

/* A test that runs the pipeline everywhere; the other arguments are fields of flow_outcome. */
#define RUNS(name, text, ...)                                                                                         \
    TEST(name) {                                                                                                      \
        flow_check_everywhere(text, SEEDS, &(flow_outcome){__VA_ARGS__});                                             \
    }

/* ---- chains and batches ---- */

RUNS(chain_computes_in_order,
     FLOW_A(200) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                 "  two: {type: scale, input: one, device: \"%1$s\"}\n"
                 "  three: {type: scale, input: two, device: \"%1$s\", queue: 1}\n"
                 "  out: {type: collect, input: three}\n",
     .delivered = 200, .adds = 2)

/* A result's memory can outlive the frame that it came with. */
static void check_results(const mr_summary *sums) {
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].noted, collection[i].identity.seq + 1000);
    assert_int_equal(largest_batch, 24);
}

/* The batch needs more frames than the earlier stages have room for. */
RUNS(a_batch_of_results_fills,
     FLOW_A(100) "  note: {input: a, device: \"%1$s\", queue: 1}\n"
                 "  scale: {input: note, device: \"%1$s\", queue: 1}\n"
                 "  wide: {type: batcher, input: scale, batch: 24, queue: 24}\n"
                 "  out: {type: collect, input: wide}\n",
     .delivered = 100, .check = check_results)

static void check_batch(const mr_summary *sums) {
    assert_int_equal(flow_source(sums, "a")->delivered, 57);
    assert_int_equal(flow_source(sums, "b")->delivered, 40);
    assert_int_equal(flow_source(sums, "c")->delivered, 3);
    assert_true(largest_batch <= 8);
    assert_true(smallest_batch >= 1);
}

RUNS(batches_across_sources_keep_order,
     FLOW "sources:\n"
          "  a: {type: count, frames: 57}\n"
          "  b: {type: count, frames: 40}\n"
          "  c: {type: count, frames: 3}\n"
          "stages:\n"
          "  one: {type: scale, input: sources.*, device: \"%1$s\"}\n"
          "  many: {type: batcher, input: one, batch: {size: 8, timeout: 5ms}}\n"
          "  out: {type: collect, input: many}\n",
     .delivered = 57 + 40 + 3, .check = check_batch)

/* ---- fan-out, joins and merges ---- */

/* 0, 3, 6, ... pass the gate; the others find no partner. All reach `first` on the other path. */
static void check_join(const mr_summary *sums) {
    size_t direct = 0;
    for (size_t i = 0; i < collection_count; i++) {
        direct += collection[i].first;
        if (!collection[i].first)
            assert_int_equal(collection[i].identity.seq % 3, 0);
    }
    assert_int_equal(direct, 100);
}

RUNS(joins_match_by_identity,
     FLOW_A(100) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                 "  some: {type: gate, input: one, every: 3}\n"
                 "  late: {type: slow, input: one, period: 100us}\n"
                 "  both: {type: meet, join: {left: some, right: late}}\n"
                 "  out: {type: collect, input: both}\n"
                 "  first: {type: collect, input: one}\n",
     .delivered = 100, .collected = 100 + 34, .check = check_join)

static void check_absorbed(const mr_summary *sums) {
    assert_int_equal(sums->line_count, 1);
    assert_int_equal(sums->lines[0].frames, 75);
}

RUNS(what_a_gate_holds_back_is_absorbed,
     FLOW_A(100) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                 "  some: {type: gate, input: one, every: 4}\n"
                 "  out: {type: collect, input: some}\n",
     .delivered = 25, .absorbed = 75, .stage = "some", .reason = "gate", .check = check_absorbed)

/* A source's frame counts once, however many frames derive from it. */
RUNS(merged_ways_end_together,
     FLOW_A(50) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                "  double: {type: twice, input: one}\n"
                "  plain: {type: pass, input: one}\n"
                "  out: {type: collect, input: [double, plain]}\n",
     .delivered = 50, .collected = 50 * 2 + 50, .unordered = true)

/* Only batches without a timeout must fill: while the others gather, the join's queue may be shorter. */
RUNS(a_timeout_lets_frames_on_to_a_join_with_a_short_queue,
     FLOW_A(100) "  plain: {type: pass, input: a}\n"
                 "  fills: {type: batcher, input: a, batch: 4}\n"
                 "  waits: {type: batcher, input: fills, batch: {size: 24, timeout: 100us}}\n"
                 "  waits-first: {type: batcher, input: a, batch: {size: 24, timeout: 100us}}\n"
                 "  fills-last: {type: batcher, input: waits-first, batch: 4}\n"
                 "  both: {type: meet, join: {left: plain, right: waits}, queue: 4}\n"
                 "  other: {type: meet, join: {left: plain, right: fills-last}, queue: 4}\n"
                 "  out: {type: collect, input: [both, other]}\n",
     .delivered = 100, .collected = 200, .unordered = true)

/* ---- failures ---- */

RUNS(a_frame_that_fails_is_dropped_and_the_run_goes_on,
     FLOW_A(40) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                "  odd: {type: broken, input: one, fail_at: 7}\n"
                "  out: {type: collect, input: odd}\n",
     .delivered = 39, .dropped = 1, .stage = "odd", .reason = "error")

static void check_early_end(const mr_summary *sums) {
    assert_true(sums->in < 100000);
}

RUNS(on_error_fail_ends_the_run,
     FLOW_A(100000) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                    "  odd: {type: broken, input: one, fail_at: 7, on_error: fail}\n"
                    "  out: {type: collect, input: odd}\n",
     .status = MR_ERROR_DATA, .delivered = FLOW_ANY, .dropped = FLOW_SOME, .stage = "odd", .check = check_early_end)

RUNS(a_sink_that_cannot_write_ends_the_run_in_order,
     FLOW_A(100000) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                    "  out: {type: collect, input: one, fail_at: 10}\n",
     .status = MR_ERROR_IO, .delivered = 10, .dropped = FLOW_SOME, .stage = "out")

static void check_failed_source(const mr_summary *sums) {
    const mr_source_summary *bad = flow_source(sums, "bad"), *good = flow_source(sums, "good");
    assert_int_equal(bad->status, MR_ERROR_DATA);
    assert_int_equal(bad->delivered, 5);
    assert_string_equal(bad->message, "frame 5 cannot be read");
    assert_int_equal(good->status, MR_OK);
    assert_int_equal(good->delivered, 60);
}

RUNS(a_failed_source_does_not_stop_the_others,
     FLOW "sources:\n"
          "  good: {type: count, frames: 60}\n"
          "  bad: {type: count, frames: 60, fail_at: 5}\n"
          "stages:\n"
          "  one: {type: scale, input: sources.*, device: \"%1$s\"}\n"
          "  out: {type: collect, input: one}\n",
     .status = MR_ERROR_DATA, .delivered = 65, .check = check_failed_source)

static _Atomic int logged;

static void count_lines(void *context, mr_log_level level, const char *line) {
    logged += strstr(line, "frame 5 cannot be read") != NULL;
}

TEST(a_failed_source_is_logged_unless_that_is_not_wanted) {
    for (int quiet = 0; quiet < 2; quiet++) {
        mr_summary *sums;
        logged = 0;
        mr_log_to(count_lines, NULL);
        mr_pipeline *pipeline = opened(&(mr_pipeline_params){
            .types = flow_stage_types(), .path = "p.yaml", .workers = 1, .quiet_sources = quiet,
            .text = FLOW "sources: {bad: {type: count, frames: 60, fail_at: 5}}\n"
                         "stages: {out: {type: collect, input: bad}}\n"});
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        assert_int_equal(ended(pipeline), MR_ERROR_DATA);
        assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
        assert_string_equal(flow_source(sums, "bad")->message, "frame 5 cannot be read");
        flow_close(&pipeline, &sums);
        be_quiet(state);
        assert_int_equal(logged, !quiet);
    }
}

TEST(a_lost_frame_unbalances_the_ledger) {
    mr_summary *sums;
    mr_pipeline *pipeline = flow_open(FLOW_A(10) "  lost: {type: forgetful, input: a}\n"
                                                 "  out: {type: collect, input: lost}\n", 3, 1);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(ended(pipeline), MR_ERROR_INTERNAL);
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    assert_false(sums->balanced);
    assert_int_equal(sums->sources[0].unaccounted, 10);
    assert_int_equal(sums->sources[0].unsettled_count, 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(sums->sources[0].unsettled[i].seq, i);
    flow_close(&pipeline, &sums);
}

TEST(device_failures_drop_their_frames_only) {
    flow_check_all(FLOW_A(100) "  one: {type: scale, input: a, device: \"sim:0?fail_every=9\"}\n"
                               "  two: {type: scale, input: one, device: \"sim:0?fail_every=9\"}\n"
                               "  out: {type: collect, input: two}\n", SEEDS,
                   &(flow_outcome){.delivered = FLOW_SOME, .dropped = FLOW_SOME, .adds = 1, .reason = "device error",
                                   .in = 100});
}

/* ---- queues that drop ---- */

RUNS(a_live_queue_drops_and_counts,
     FLOW "sources: {a: {type: count, frames: 300, period: 20us}}\n"
          "stages:\n"
          "  one: {type: scale, input: a, device: \"%1$s\"}\n"
          "  late: {type: slow, input: one, period: 1ms, queue: {size: 2, when_full: drop-oldest}}\n"
          "  out: {type: collect, input: late}\n",
     .delivered = FLOW_ANY, .dropped = FLOW_SOME, .stage = "late", .reason = "queue full", .in = 300)

/* A producer drops frames from the queues that the join looks at. A frame dropped at one input has no partner at the
 * other; the rest is in order. */
RUNS(a_live_join_drops_and_counts,
     FLOW_A(3000) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                  "  two: {type: note, input: a, device: \"%1$s\"}\n"
                  "  both: {type: meet, join: {left: one, right: two}, queue: {size: 2, when_full: drop-oldest}}\n"
                  "  out: {type: collect, input: both}\n",
     .delivered = FLOW_SOME, .dropped = FLOW_ANY, .absorbed = FLOW_ANY, .in = 3000)

/* ---- stopping ---- */

static int64_t draining_ns(mr_pipeline *pipeline) {
    mr_summary *sums = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    int64_t ns = sums->draining_ns;
    mr_summary_destroy(&sums);
    return ns;
}

static void stop_midway(bool at_once, uint64_t seed, int64_t after_ns) {
    mr_pipeline *pipeline = flow_open(
        FLOW "sources: {a: {type: count, frames: 100000000}, b: {type: count, frames: 9, period: 1s}}\n"
             "stages:\n"
             "  one: {type: scale, input: sources.*, device: \"sim:0\"}\n"
             "  late: {type: slow, input: one, period: 50us}\n"
             "  out: {type: collect, input: late}\n", seed, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, after_ns), MR_ERROR_AGAIN);
    assert_true(draining_ns(pipeline) == 0);
    mr_pipeline_stop(pipeline, at_once);
    /* With a seed nothing can move between two waits. */
    if (seed)
        assert_true(at_once ? draining_ns(pipeline) == 0 : draining_ns(pipeline) > 0);
    mr_summary *sums = flow_end(pipeline);
    assert_true(sums->draining_ns == 0);
    if (!at_once)
        assert_int_equal(sums->delivered, sums->in);
    flow_close(&pipeline, &sums);
}

TEST(stopping_drains_or_drops_and_always_balances) {
    for (uint64_t seed = 0; seed <= SEEDS; seed++)
        for (int at_once = 0; at_once < 2; at_once++)
            stop_midway(at_once, seed, seed ? (int64_t)seed * 100000 : 20000000);
}

TEST(destroying_a_running_pipeline_leaks_nothing) {
    mr_pipeline *pipeline = flow_open(FLOW_A(100000000) "  one: {type: scale, input: a, device: \"sim:0\"}\n"
                                                        "  out: {type: collect, input: one}\n", 0, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, 5000000), MR_ERROR_AGAIN);
    mr_pipeline_destroy(&pipeline);
    assert_null(pipeline);
}

/* ---- workers that overtake each other ---- */

/* Nobody takes laggard's outputs, so laggard's calls hold all buffers. Later calls must leave one for the first, or no
 * call could ever end. */
TEST(a_call_that_others_overtake_gets_its_buffer) {
    flow_check(FLOW_A(50) "  laggard: {input: a}\n", 0, 2,
               &(flow_outcome){.absorbed = 50, .in = 50});
}

static void check_recounted(const mr_summary *sums) {
    uint64_t next[2] = {0};
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].identity.seq, next[collection[i].identity.source]++);
}

TEST(calls_that_overlap_take_turns) {
    flow_check_all(FLOW "sources: {a: {type: count, frames: 300}, b: {type: count, frames: 300}}\n"
                        "stages:\n"
                        "  recount: {input: [a, b], every: 3, fail_at: 100}\n"
                        "  out: {type: collect, input: recount}\n", 1,
                   &(flow_outcome){.delivered = 2 * 199, .absorbed = 2 * 100, .dropped = 2, .check = check_recounted});
}

/* ---- steady state ---- */

/* Ten times the frames need the same number of blocks; what varies with the order stays far below one per frame. */
TEST(nothing_is_allocated_per_frame) {
    uint64_t allocations[2];
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", i ? FLOW_A(40000) : FLOW_A(4000),
                 "  one: {type: scale, input: a}\n"
                 "  some: {type: gate, input: one, every: 2}\n"
                 "  both: {type: meet, join: {left: some, right: one}}\n"
                 "  out: {type: collect, input: both}\n");
        mr_pipeline *pipeline = flow_open(text, 11, 1);
        mr_summary *sums = flow_run(pipeline);
        allocations[i] = sums->allocations;
        flow_close(&pipeline, &sums);
    }
    assert_in_range(allocations[1], 0, allocations[0] + 50);
}

RUN_TESTS(be_quiet, expect_no_misuse)

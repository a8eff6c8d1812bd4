/* Deadlines and batches in a running graph, mostly with a simulated clock. */
#include <stdio.h>
#include <string.h>

#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { SEEDS = FLOW_SEEDS(25) };

/* A test with a simulated clock; the other arguments are fields of flow_outcome. */
#define RUNS(name, text, ...)                                                                                         \
    TEST(name) {                                                                                                      \
        for (uint64_t seed = 1; seed <= SEEDS; seed++)                                                                \
            flow_check(text, seed, 1, &(flow_outcome){__VA_ARGS__});                                                  \
    }
/* The same, and on threads. */
#define RUNS_ANYHOW(name, text, ...)                                                                                  \
    TEST(name) {                                                                                                      \
        flow_check_all(text, SEEDS, &(flow_outcome){__VA_ARGS__});                                                    \
    }

/* ---- batches before a join ------------------------------------------------------------------------------------- */

/* The gate passes one frame in ten: while eight gather, eighty need not wait on the other path. */
RUNS_ANYHOW(a_gate_before_a_batch_does_not_stop_a_join,
            FLOW_A(1000) "  one: {type: scale, input: a}\n"
                         "  some: {type: gate, input: one, every: 10}\n"
                         "  many: {type: batcher, input: some, batch: 8}\n"
                         "  both: {type: meet, join: {left: many, right: one}}\n"
                         "  out: {type: collect, input: both}\n",
            .delivered = 100, .absorbed = 900)

static void check_full_batches(const mr_summary *sums) {
    assert_int_equal(largest_batch, 8);
    assert_int_equal(smallest_batch, 8);
}

/* Frames leave the queue as they come and gather in the call: a batch can be larger than the queue. */
RUNS_ANYHOW(a_batch_fills_from_a_short_queue,
            FLOW_A(64) "  one: {type: scale, input: a, in_flight: 1}\n"
                       "  many: {type: batcher, input: one, batch: 8, queue: 1}\n"
                       "  out: {type: collect, input: many}\n",
            .delivered = 64, .check = check_full_batches)

/* More stages wait for a lane at once than it has room for. */
RUNS_ANYHOW(many_ways_into_a_slow_sink_go_on,
            FLOW_A(200) "  p1: {type: pass, input: a, queue: 1}\n"
                        "  p2: {type: pass, input: a, queue: 1}\n"
                        "  p3: {type: pass, input: a, queue: 1}\n"
                        "  p4: {type: pass, input: a, queue: 1}\n"
                        "  p5: {type: pass, input: a, queue: 1}\n"
                        "  p6: {type: pass, input: a, queue: 1}\n"
                        "  p7: {type: pass, input: a, queue: 1}\n"
                        "  late: {type: slow, input: [p1, p2, p3, p4, p5, p6, p7], queue: 1, period: 10us}\n"
                        "  out: {type: collect, input: late}\n",
            .delivered = 200, .collected = 7 * 200, .unordered = true)

/* ---- deadlines ------------------------------------------------------------------------------------------------- */

static const int64_t MS = 1000000;

static uint64_t line_frames(const mr_summary *sums, const char *stage, const char *reason) {
    for (size_t i = 0; i < sums->line_count; i++)
        if (strcmp(sums->lines[i].stage, stage) == 0 && strcmp(sums->lines[i].reason, reason) == 0)
            return sums->lines[i].frames;
    return 0;
}

/* A stage that takes four frame intervals: three of four frames are dropped. Work begins in time, so it ends at most 4
 * ms after the deadline; the sink delivers that. */
static void check_shed(const mr_summary *sums) {
    assert_int_equal(line_frames(sums, "late", "late"), sums->dropped);
    assert_in_range(sums->delivered, 48, 54);
    bool behind = false;
    for (size_t i = 0; i < collection_count; i++) {
        assert_true(collection[i].late_ns <= 4 * MS);
        behind = behind || collection[i].late_ns > 0;
    }
    assert_true(behind);
    assert_true(collection[collection_count - 1].identity.seq >= 190);
}

RUNS(late_frames_are_shed_before_work,
     FLOW "sources: {a: {type: count, frames: 200, period: 1ms, deadline: 3ms}}\n"
          "stages:\n"
          "  one: {type: scale, input: a}\n"
          "  late: {type: slow, input: one, period: 4ms}\n"
          "  out: {type: collect, input: late}\n",
     .in = 200, .delivered = FLOW_SOME, .dropped = FLOW_SOME, .check = check_shed)

static void check_unhurried(const mr_summary *sums) {
    for (size_t i = 0; i < collection_count; i++)
        assert_true(collection[i].late_ns > 0);
}

/* Nothing follows the sink: the work is done, and must not be discarded. */
RUNS(a_sink_delivers_what_is_late,
     FLOW "sources: {a: {type: count, frames: 50, period: 10ms, deadline: 3ms}}\n"
          "stages:\n"
          "  late: {type: slow, input: a, period: 5ms}\n"
          "  out: {type: collect, input: late}\n",
     .delivered = 50, .check = check_unhurried)

static void check_shed_before_join(const mr_summary *sums) {
    assert_true(sums->delivered >= 40);
}

/* Frames dropped on one path do not stop the other path, the join after both, or a later join. */
RUNS(joins_do_not_wait_for_what_was_shed,
     FLOW "sources: {a: {type: count, frames: 200, period: 1ms, deadline: 6ms}}\n"
          "stages:\n"
          "  one: {type: scale, input: a}\n"
          "  late: {type: slow, input: one, period: 4ms, queue: 1}\n"
          "  both: {type: meet, join: {left: late, right: one}}\n"
          "  again: {type: meet, join: {left: both, right: one}}\n"
          "  out: {type: collect, input: again}\n",
     .in = 200, .delivered = FLOW_SOME, .dropped = FLOW_ANY, .check = check_shed_before_join)

static void check_late_in_batch(const mr_summary *sums) {
    assert_true(line_frames(sums, "many", "late") >= 37);
    assert_true(largest_batch < 4);
}

#define GATHERED(batch)                                                                                               \
    FLOW "sources: {a: {type: count, frames: 40, period: 2ms, deadline: 3ms}}\n"                                      \
         "stages:\n"                                                                                                  \
         "  many: {type: batcher, input: a, batch: " batch "}\n"                                                      \
         "  out: {type: collect, input: many}\n"

/* Four frames need six milliseconds to come; the first becomes late meanwhile. It is dropped, and the batch never
 * fills. */
RUNS(frames_become_late_while_their_batch_gathers, GATHERED("4"),
     .in = 40, .delivered = FLOW_ANY, .dropped = FLOW_SOME, .check = check_late_in_batch)
RUNS(a_batch_with_a_timeout_leaves_in_time, GATHERED("{size: 4, timeout: 1ms}"), .delivered = 40)

/* Every packet taken can be decoded: all packets since the last key frame that others need were taken. Disposable
 * packets go first. After an abandoned group the next one is taken again. */
static void check_packets(const mr_summary *sums) {
    uint64_t expected = 0, groups = 0;
    for (size_t i = 0; i < collection_count; i++) {
        uint64_t seq = collection[i].identity.seq;
        if (collection[i].flags & MR_FRAME_KEY) {
            groups++;
            expected = seq + 2;
        } else if (!(collection[i].flags & MR_FRAME_DISPOSABLE)) {
            assert_int_equal(seq, expected);
            expected = seq + 2;
        } else {
            assert_true(seq < expected);
        }
    }
    assert_in_range(groups, 20, 99);
    assert_true(line_frames(sums, "late", "late") > 0);
    assert_true(line_frames(sums, "late", "gop") > 0);
    assert_true(collection[collection_count - 1].identity.seq >= 900);
}

RUNS(packets_are_shed_so_that_the_rest_can_be_decoded,
     FLOW "sources: {a: {type: count, frames: 1000, period: 1ms, gop: 10, deadline: 3ms}}\n"
          "stages:\n"
          "  late: {type: slow, input: a, period: 3ms}\n"
          "  out: {type: collect, input: late}\n",
     .in = 1000, .delivered = FLOW_SOME, .dropped = FLOW_SOME, .check = check_packets)

RUN_TESTS(be_quiet, NULL)

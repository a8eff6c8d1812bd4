/* Stages that take several frames per call if those already wait. They must not wait for frames or hold any up, and a
 * batch that the author sets must hold. The deterministic executor has one worker, which is always busy. */
#include <stdio.h>

#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = FLOW_SEEDS(25), FRAMES = 200, MOST = 4 };

static uint64_t calls; /* `it` in the last run */

static bool samples; /* `it` passes frames, which are in the peak of batches */

static void run(const char *text, uint64_t seed, int workers, uint64_t frames) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, frames);
    assert_int_equal(collection_count, frames);
    uint64_t next[8] = {0};
    for (size_t i = 0; i < collection_count; i++) {
        const mr_identity *one = &collection[i].identity;
        assert_int_equal(one->seq, next[one->source]++);
        assert_true(collection[i].value == 0 || collection[i].value == one->seq);
    }
    const mr_stage_summary *it = flow_stage(summary, "it");
    calls = it->calls;
    assert_int_equal(it->in, frames);
    assert_true(samples ? (size_t)it->batch_peak >= largest_batch : (size_t)it->batch_peak == largest_batch);
    flow_close(&pipeline, &summary);
}

/* `before` and `it`: more options. */
#define WAITING(before, it)                                                                                           \
    FLOW "sources: {a: {type: count, frames: 200}, b: {type: count, frames: 200}}\n"                                  \
         "stages:\n"                                                                                                  \
         "  before: {type: scale, input: sources.*" before "}\n"                                                      \
         "  it: {type: gatherer, input: before" it "}\n"                                                              \
         "  out: {type: collect, input: it}\n"

TEST(frames_that_wait_go_together) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(WAITING("", ""), seed, 1, 2 * FRAMES);
        assert_in_range(largest_batch, 2, MOST);
        assert_true(calls < 2 * FRAMES);
    }
    EACH_WORKER_COUNT(workers) {
        run(WAITING("", ""), 0, workers, 2 * FRAMES);
        assert_in_range(largest_batch, 1, MOST);
    }
}

#define DEVICE ", device: 'sim:0?min_delay=10us&max_delay=300us'"
/* A frame that a device still works on does not hold up earlier ones. */
TEST(frames_of_a_device_go_when_they_are_ready) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run(WAITING(DEVICE, ""), seed, 1, 2 * FRAMES);
    EACH_WORKER_COUNT(workers)
        run(WAITING(DEVICE, ""), 0, workers, 2 * FRAMES);
}

/* In simulated time: nobody waits for more frames, so nothing may be late. */
TEST(a_frame_alone_leaves_at_once) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(FLOW "sources: {a: {type: count, frames: 50, period: 5ms, deadline: 1ms}}\n"
                 "stages:\n"
                 "  it: {type: gatherer, input: a}\n"
                 "  out: {type: collect, input: it}\n",
            seed, 1, 50);
        assert_int_equal(largest_batch, 1);
        for (size_t i = 0; i < collection_count; i++)
            assert_int_equal(collection[i].late_ns, -1000000);
    }
}

/* Two frames come at a time: they leave together, and at once. */
TEST(two_that_come_together_leave_together) {
    size_t together = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(FLOW "sources:\n"
                 "  a: {type: count, frames: 50, period: 5ms, deadline: 1ms}\n"
                 "  b: {type: count, frames: 50, period: 5ms, deadline: 1ms}\n"
                 "stages:\n"
                 "  it: {type: gatherer, input: sources.*}\n"
                 "  out: {type: collect, input: it}\n",
            seed, 1, 100);
        together += largest_batch == 2;
        assert_in_range(largest_batch, 1, 2);
        for (size_t i = 0; i < collection_count; i++)
            assert_int_equal(collection[i].late_ns, -1000000);
    }
    assert_true(together > 0);
}

/* Only a batch that the author wrote may form, even if it is one. */
TEST(a_batch_of_the_author_holds) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(WAITING("", ", batch: 8"), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 8);
        assert_int_equal(smallest_batch, 8);
        assert_int_equal(calls, 2 * FRAMES / 8);
        run(WAITING("", ", batch: 1"), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 1);
        assert_int_equal(calls, 2 * FRAMES);
    }
}

#define SAMPLED(sources, it)                                                                                          \
    FLOW "sources: {" sources "}\n"                                                                                   \
         "stages:\n"                                                                                                  \
         "  before: {type: scale, input: sources.*" DEVICE "}\n"                                                      \
         "  it: {type: sampler, input: before, every: 5" it "}\n"                                                     \
         "  out: {type: collect, input: it}\n"
#define TWO "a: {type: count, frames: 200}, b: {type: count, frames: 200}"

/* Batches are full of frames that count, in any phase of the sources: 40 of each. The others are in order. */
TEST(frames_that_pass_are_in_no_batch) {
    samples = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(SAMPLED(TWO, ", batch: 4"), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 4);
        assert_int_equal(smallest_batch, 4);
        run(SAMPLED(TWO, ""), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 1);
        assert_int_equal(calls, 2 * FRAMES);
        run(SAMPLED("a: {type: count, frames: 200}", ", batch: 40"), seed, 1, FRAMES);
        assert_int_equal(smallest_batch, 40);
    }
    EACH_WORKER_COUNT(workers) {
        run(SAMPLED(TWO, ", batch: 4"), 0, workers, 2 * FRAMES);
        assert_int_equal(largest_batch, 4);
        assert_int_equal(smallest_batch, 4);
    }
    samples = false;
}

/* The same before a join, where each source has room of its own. */
TEST(frames_that_pass_are_in_no_batch_before_a_join) {
    size_t batches = 0;
    samples = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(FLOW "sources: {" TWO "}\n"
                 "stages:\n"
                 "  before: {type: scale, input: sources.*" DEVICE "}\n"
                 "  it: {type: sampler, input: before, every: 5, batch: 4}\n"
                 "  after: {type: pass, input: it}\n"
                 "  both: {type: meet, join: {a: before, b: after}}\n"
                 "  out: {type: collect, input: both}\n",
            seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 4);
        batches += batch_count;
    }
    assert_int_equal(batches, SEEDS * 2 * FRAMES / 5 / 4);
    samples = false;
}

/* In simulated time: frame 0 waits for another that counts, and frame 1 for frame 0. Later ones wait for nothing. */
TEST(frames_that_pass_do_not_wait_for_later_ones) {
    samples = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(FLOW "sources: {a: {type: count, frames: 50, period: 5ms, deadline: 20ms}}\n"
                 "stages:\n"
                 "  it: {type: sampler, input: a, every: 50, batch: {size: 2, timeout: 7ms}}\n"
                 "  out: {type: collect, input: it}\n",
            seed, 1, 50);
        for (size_t i = 0; i < collection_count; i++)
            assert_int_equal(collection[i].late_ns, i == 0 ? -13000000 : i == 1 ? -18000000 : -20000000);
    }
    samples = false;
}

RUN_TESTS(be_quiet, NULL)

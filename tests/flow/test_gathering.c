/* Stages that take several frames per call if those already wait. They must not wait for frames or hold any up, and a
 * batch that the author sets must hold. The deterministic executor has one worker, which is always busy. */
#include <stdio.h>
#include <string.h>

#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = 25, FRAMES = 200, MOST = 4 };

static uint64_t calls; /* `it` in the last run */

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
    for (size_t i = 0; i < summary->stage_count; i++)
        if (strcmp(summary->stages[i].id, "it") == 0) {
            calls = summary->stages[i].calls;
            assert_int_equal(summary->stages[i].in, frames);
            assert_int_equal(summary->stages[i].batch_peak, largest_batch);
        }
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
}

static const char FRAMES_THAT_WAIT[] = "version: 1\npipeline: p\n"
                                       "sources: {a: {type: count, frames: 200}, b: {type: count, frames: 200}}\n"
                                       "stages:\n"
                                       "  before: {type: scale, input: sources.*%s}\n"
                                       "  it: {type: gatherer, input: before%s}\n"
                                       "  out: {type: collect, input: it}\n";

static const char *written(const char *before, const char *it) {
    static char text[1024];
    snprintf(text, sizeof text, FRAMES_THAT_WAIT, before, it);
    return text;
}

TEST(frames_that_wait_go_together) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(written("", ""), seed, 1, 2 * FRAMES);
        assert_in_range(largest_batch, 2, MOST);
        assert_true(calls < 2 * FRAMES);
    }
    EACH_WORKER_COUNT(workers) {
        run(written("", ""), 0, workers, 2 * FRAMES);
        assert_in_range(largest_batch, 1, MOST);
    }
}

/* A frame that a device still works on does not hold up earlier ones. */
TEST(frames_of_a_device_go_when_they_are_ready) {
    const char *device = ", device: 'sim:0?min_delay=10us&max_delay=300us'";
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run(written(device, ""), seed, 1, 2 * FRAMES);
    EACH_WORKER_COUNT(workers)
        run(written(device, ""), 0, workers, 2 * FRAMES);
}

/* In simulated time: nobody waits for more frames, so nothing may be late. */
TEST(a_frame_alone_leaves_at_once) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run("version: 1\npipeline: p\n"
            "sources: {a: {type: count, frames: 50, period: 5ms, deadline: 1ms}}\n"
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
        run("version: 1\npipeline: p\n"
            "sources:\n"
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
        run(written("", ", batch: 8"), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 8);
        assert_int_equal(smallest_batch, 8);
        assert_int_equal(calls, 2 * FRAMES / 8);
        run(written("", ", batch: 1"), seed, 1, 2 * FRAMES);
        assert_int_equal(largest_batch, 1);
        assert_int_equal(calls, 2 * FRAMES);
    }
}

RUN_TESTS(be_quiet, NULL)

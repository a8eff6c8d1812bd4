/* Paths that part and meet again in a join, with several sources. In whatever order stages take the sources' frames,
 * and however short the queues, no source holds up another, and all frames arrive. */
#include <stdio.h>

#include "tests/support/flow_run.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = UNDER_TSAN(40, 200), SOURCES = 6, FRAMES = 24, TEXT = 4096 };

/* `stages` come before the sink, which takes frames from "both". */
static const char *pipeline_of(const char *stages) {
    static char text[TEXT];
    int length = snprintf(text, sizeof text, "version: 1\npipeline: ways\nsources:\n");
    for (int i = 0; i < SOURCES; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "  s%d: {type: count, frames: %d}\n", i,
                           FRAMES);
    length += snprintf(text + length, sizeof text - (size_t)length, "stages:\n%s  out: {type: collect, input: both}\n",
                       stages);
    assert_in_range(length, 1, TEXT - 1);
    return text;
}

static void run(const char *text, uint64_t seed, int workers, uint64_t delivered) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, delivered);
    assert_int_equal(summary->dropped, 0);
    assert_int_equal(collection_count, delivered);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
}

static void run_everywhere(const char *stages, uint64_t delivered) {
    const char *text = pipeline_of(stages);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run(text, seed, 1, delivered);
    EACH_WORKER_COUNT(workers)
        run(text, 0, workers, delivered);
}

TEST(two_ways) {
    run_everywhere("  left: {type: pass, input: sources.*, queue: 1}\n"
                   "  right: {type: pass, input: sources.*, queue: 1}\n"
                   "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n",
                   SOURCES * FRAMES);
}

/* The first stage on a path cannot know that the last has no room. */
TEST(ways_of_several_stages) {
    run_everywhere("  left: {type: pass, input: sources.*, queue: 1}\n"
                   "  middle: {type: slow, input: left, period: 100us, queue: 1}\n"
                   "  last: {type: pass, input: middle, queue: 1}\n"
                   "  right: {type: slow, input: sources.*, period: 70us}\n"
                   "  both: {type: meet, join: {left: last, right: right}, queue: 1}\n",
                   SOURCES * FRAMES);
}

TEST(ways_on_devices) {
    run_everywhere("  left: {type: scale, input: sources.*, queue: 1, device: \"sim:0?max_delay=100us\"}\n"
                   "  right: {type: scale, input: sources.*, queue: 1, device: \"sim:1?max_delay=200us\"}\n"
                   "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n",
                   SOURCES * FRAMES);
}

/* A path that drops frames leaves gaps. */
TEST(ways_that_leave_frames_out) {
    run_everywhere("  left: {type: gate, input: sources.*, every: 3, queue: 1}\n"
                   "  right: {type: gate, input: sources.*, every: 2, queue: 1}\n"
                   "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n",
                   SOURCES * (FRAMES / 6));
}

/* Frames that would fill the batch have no room downstream: it leaves without them. */
TEST(a_batch_larger_than_the_room_behind_it) {
    run_everywhere("  left: {type: batcher, input: sources.*, batch: 16}\n"
                   "  last: {type: pass, input: left, queue: 1}\n"
                   "  right: {type: pass, input: sources.*, queue: 1}\n"
                   "  both: {type: meet, join: {left: last, right: right}}\n",
                   SOURCES * FRAMES);
}

/* A call's frames have room, however many waiting ones it takes. */
TEST(gathered_frames_on_both_ways) {
    run_everywhere("  left: {type: gatherer, input: sources.*, queue: 3}\n"
                   "  right: {type: slow, input: sources.*, period: 70us, queue: 2}\n"
                   "  last: {type: gatherer, input: right}\n"
                   "  both: {type: meet, join: {left: left, right: last}, queue: 1}\n",
                   SOURCES * FRAMES);
}

TEST(batches_on_both_ways) {
    run_everywhere("  left: {type: batcher, input: sources.*, batch: 5}\n"
                   "  right: {type: batcher, input: sources.*, batch: 7}\n"
                   "  both: {type: meet, join: {left: left, right: right}}\n",
                   SOURCES * FRAMES);
}

TEST(joins_behind_joins) {
    run_everywhere("  left: {type: pass, input: sources.*, queue: 1}\n"
                   "  right: {type: pass, input: sources.*, queue: 1}\n"
                   "  first: {type: meet, join: {left: left, right: right}, queue: 1}\n"
                   "  second: {type: meet, join: {left: right, right: left}, queue: 1}\n"
                   "  both: {type: meet, join: {left: first, right: second}, queue: 1}\n",
                   SOURCES * FRAMES);
}

RUN_TESTS(NULL, NULL)

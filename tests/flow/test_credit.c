/* Paths that part and meet again in a join, with several sources. In whatever order stages take the sources' frames,
 * and however short the queues, no source holds up another, and all frames arrive. */
#include <stdio.h>

#include "tests/support/flow_run.h"
#include "tests/support/suite.h"

enum { SEEDS = FLOW_SEEDS(200), SOURCES = 6, FRAMES = 24, TEXT = 4096 };

/* `stages` come before the sink, which takes frames from "both". */
static const char *pipeline_of(const char *stages) {
    static char text[TEXT];
    int length = snprintf(text, sizeof text, FLOW "sources:\n");
    for (int i = 0; i < SOURCES; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "  s%d: {type: count, frames: %d}\n", i,
                           FRAMES);
    length += snprintf(text + length, sizeof text - (size_t)length, "stages:\n%s  out: {type: collect, input: both}\n",
                       stages);
    assert_in_range(length, 1, TEXT - 1);
    return text;
}

/* A test whose `delivered` frames all arrive, in any order of sources. */
#define WAYS(name, delivered_frames, stages)                                                                          \
    TEST(name) {                                                                                                      \
        flow_check_all(pipeline_of(stages), SEEDS,                                                                    \
                       &(flow_outcome){.delivered = delivered_frames, .absorbed = FLOW_ANY});                         \
    }

WAYS(two_ways, SOURCES * FRAMES,
     "  left: {type: pass, input: sources.*, queue: 1}\n"
     "  right: {type: pass, input: sources.*, queue: 1}\n"
     "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n")

/* The first stage on a path cannot know that the last has no room. */
WAYS(ways_of_several_stages, SOURCES * FRAMES,
     "  left: {type: pass, input: sources.*, queue: 1}\n"
     "  middle: {type: slow, input: left, period: 100us, queue: 1}\n"
     "  last: {type: pass, input: middle, queue: 1}\n"
     "  right: {type: slow, input: sources.*, period: 70us}\n"
     "  both: {type: meet, join: {left: last, right: right}, queue: 1}\n")

WAYS(ways_on_devices, SOURCES * FRAMES,
     "  left: {type: scale, input: sources.*, queue: 1, device: \"sim:0?max_delay=100us\"}\n"
     "  right: {type: scale, input: sources.*, queue: 1, device: \"sim:1?max_delay=200us\"}\n"
     "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n")

/* A path that drops frames leaves gaps. */
WAYS(ways_that_leave_frames_out, SOURCES * (FRAMES / 6),
     "  left: {type: gate, input: sources.*, every: 3, queue: 1}\n"
     "  right: {type: gate, input: sources.*, every: 2, queue: 1}\n"
     "  both: {type: meet, join: {left: left, right: right}, queue: 1}\n")

/* Frames that would fill the batch have no room downstream: it leaves without them. */
WAYS(a_batch_larger_than_the_room_behind_it, SOURCES * FRAMES,
     "  left: {type: batcher, input: sources.*, batch: 16}\n"
     "  last: {type: pass, input: left, queue: 1}\n"
     "  right: {type: pass, input: sources.*, queue: 1}\n"
     "  both: {type: meet, join: {left: last, right: right}}\n")

/* A call's frames have room, however many waiting ones it takes. */
WAYS(gathered_frames_on_both_ways, SOURCES * FRAMES,
     "  left: {type: gatherer, input: sources.*, queue: 3}\n"
     "  right: {type: slow, input: sources.*, period: 70us, queue: 2}\n"
     "  last: {type: gatherer, input: right}\n"
     "  both: {type: meet, join: {left: left, right: last}, queue: 1}\n")

WAYS(batches_on_both_ways, SOURCES * FRAMES,
     "  left: {type: batcher, input: sources.*, batch: 5}\n"
     "  right: {type: batcher, input: sources.*, batch: 7}\n"
     "  both: {type: meet, join: {left: left, right: right}}\n")

WAYS(joins_behind_joins, SOURCES * FRAMES,
     "  left: {type: pass, input: sources.*, queue: 1}\n"
     "  right: {type: pass, input: sources.*, queue: 1}\n"
     "  first: {type: meet, join: {left: left, right: right}, queue: 1}\n"
     "  second: {type: meet, join: {left: right, right: left}, queue: 1}\n"
     "  both: {type: meet, join: {left: first, right: second}, queue: 1}\n")

RUN_TESTS(NULL, NULL)

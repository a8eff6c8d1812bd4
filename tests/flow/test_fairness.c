/* Sources that share a stage which cannot take all frames: each gets the same share, within one frame at any time,
 * whatever drops or waits. A source that offers less than a share gets everything through. */
#include <stdio.h>
#include <string.h>

#include "tests/support/flow_run.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { MOST_SOURCES = 8, TEXT = 4096, SEEDS = UNDER_TSAN(1, 2) };

static const char *const policies[] = {"block", "drop-oldest", "drop-newest"};

typedef struct shares {
    int count; /* sources */
    uint64_t of[MOST_SOURCES];
} shares;

static uint64_t most(const shares *it) {
    uint64_t found = 0;
    for (int i = 0; i < it->count; i++)
        found = it->of[i] > found ? it->of[i] : found;
    return found;
}

static uint64_t least(const shares *it) {
    uint64_t found = UINT64_MAX;
    for (int i = 0; i < it->count; i++)
        found = it->of[i] < found ? it->of[i] : found;
    return found;
}

static shares all_shares(int sources) {
    shares it = {.count = sources};
    for (size_t i = 0; i < collection_count; i++)
        it.of[collection[i].identity.source]++;
    return it;
}

/* Runs the stages, which must end in one called "it". Source i sends a frame every `periods[i]` microseconds. */
static void run(const int *periods, int sources, int frames, const char *stages, uint64_t seed, int workers) {
    char text[TEXT];
    int length = snprintf(text, sizeof text, FLOW "sources:\n");
    for (int i = 0; i < sources; i++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  s%d: {type: count, frames: %d, period: %dus}\n", i, frames * 100 / periods[i],
                           periods[i]);
    snprintf(text + length, sizeof text - (size_t)length, "stages:\n%s  out: {type: collect, input: it}\n", stages);
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    flow_close(&pipeline, &summary);
}

/* How far one source was ahead of another, at most, at any time between those deliveries. */
static uint64_t difference(int sources, size_t first, size_t last) {
    shares so_far = {.count = sources};
    uint64_t worst = 0;
    for (size_t i = first; i < last; i++) {
        so_far.of[collection[i].identity.source]++;
        const uint64_t now = most(&so_far) - least(&so_far);
        worst = now > worst ? now : worst;
    }
    return worst;
}

/* All queues are full from delivery `warm` on. Counted from the start of some round, no source may be more than `slack`
 * frames ahead of another. */
static void expect_turns(const char *what, int sources, size_t warm, size_t last, uint64_t slack) {
    uint64_t least_of_all = UINT64_MAX;
    assert_in_range(last, warm + 4 * (size_t)sources, collection_count);
    for (size_t first = warm; first < warm + (size_t)sources; first++) {
        const uint64_t found = difference(sources, first, last);
        least_of_all = found < least_of_all ? found : least_of_all;
    }
    if (least_of_all > slack)
        fail_msg("%s: one source gets %d frames more than another", what, (int)least_of_all);
}

static const int equal[MOST_SOURCES] = {100, 100, 100, 100, 100, 100, 100, 100};

/* `stages` must have the queue's size and policy as %1$d and %2$s. */
static void expect_equal(const char *stages, int sources, uint64_t slack) {
    char text[TEXT], what[64];
    for (size_t policy = 0; policy < sizeof policies / sizeof *policies; policy++)
        for (int size = 1; size <= UNDER_TSAN(1, 8); size += size < 3 ? 1 : 5)
            for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                snprintf(text, sizeof text, stages, size, policies[policy]);
                snprintf(what, sizeof what, "%s, size %d, seed %d", policies[policy], size, (int)seed);
                run(equal, sources, 600, text, seed, 1);
                size_t warm = (size_t)(sources * (size + 2)), held = (size_t)(sources * 2 * (size + 2));
                assert_true(collection_count > warm + held);
                expect_turns(what, sources, warm, collection_count - held, slack);
            }
}

TEST(a_slow_stage) {
    for (int sources = 2; sources <= MOST_SOURCES; sources += 3)
        expect_equal("  it: {type: slow, input: sources.*, period: 150us, queue: {size: %1$d, when_full: %2$s}}\n",
                     sources, 1);
}

/* A test with four sources that offer equally much. */
#define FAIR(name, slack, stages)                                                                                     \
    TEST(name) {                                                                                                      \
        expect_equal(stages, 4, slack);                                                                               \
    }

FAIR(a_device_with_one_call_in_flight, 1,
     "  make: {type: scale, input: sources.*}\n"
     "  it: {type: scale, input: make, device: 'sim:0?call=150us', in_flight: 1,\n"
     "       queue: {size: %1$d, when_full: %2$s}}\n")

FAIR(batches, 2,
     "  make: {type: scale, input: sources.*}\n"
     "  it: {type: block, input: make, batch: 3, device: 'sim:0?call=400us', in_flight: 1,\n"
     "       queue: {size: %1$d, when_full: %2$s}}\n")

/* An earlier stage drops frames: the gaps must not count as turns. */
FAIR(frames_left_out_before, 1,
     "  some: {type: gate, input: sources.*, every: 3}\n"
     "  it: {type: slow, input: some, period: 500us, queue: {size: %1$d, when_full: %2$s}}\n")

FAIR(both_ways_to_a_join, 1,
     "  left: {type: pass, input: sources.*}\n"
     "  right: {type: slow, input: sources.*, period: 150us, queue: {size: %1$d, when_full: %2$s}}\n"
     "  it: {type: meet, join: {left: left, right: right}}\n")

/* A frame whose pair was dropped on the other path does not count as offered. */
FAIR(a_slow_join, 3,
     "  left: {type: pass, input: sources.*, queue: {size: %1$d, when_full: %2$s}}\n"
     "  right: {type: pass, input: sources.*, queue: {size: %1$d, when_full: %2$s}}\n"
     "  met: {type: meet, join: {left: left, right: right}, queue: {size: %1$d, when_full: %2$s}}\n"
     "  it: {type: slow, input: met, period: 150us, queue: 1}\n")

/* They offer 800, 400, 200 and 100 frames, and the stage can take 800. The slow sources get everything through. The
 * others share the rest, 500 frames and what the queues hold at the end, although one offers twice as much. */
TEST(sources_of_other_rates) {
    static const int periods[] = {100, 200, 400, 800};
    char text[TEXT];
    for (size_t policy = 1; policy < sizeof policies / sizeof *policies; policy++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            snprintf(text, sizeof text,
                     "  make: {type: scale, input: sources.*}\n"
                     "  it: {type: scale, input: make, device: 'sim:0?call=100us', in_flight: 1,\n"
                     "       queue: {size: 2, when_full: %s}}\n",
                     policies[policy]);
            run(periods, 4, 800, text, seed, 1);
            const shares got = all_shares(4);
            assert_int_equal(got.of[2], 200);
            assert_int_equal(got.of[3], 100);
            assert_in_range(got.of[0], 250, 255);
            assert_in_range(got.of[1], 250, 255);
        }
}

/* On threads the clock is real, so sources may be late; none may starve. */
TEST(on_threads) {
    static const int periods[] = {1000, 1000, 1000, 1000};
    char text[TEXT];
    for (size_t policy = 0; policy < sizeof policies / sizeof *policies; policy++)
        EACH_WORKER_COUNT(workers) {
            snprintf(text, sizeof text,
                     "  it: {type: slow, input: sources.*, period: 1ms, queue: {size: 2, when_full: %s}}\n",
                     policies[policy]);
            run(periods, 4, policy ? 1000 : 300, text, 0, workers);
            const shares got = all_shares(4);
            assert_true(2 * least(&got) >= most(&got));
        }
}

RUN_TESTS(NULL, NULL)

/* A device fails in the middle of a call: copies and kernels may still run, so nothing they use may be reused. This
 * must hold whichever call fails, in whatever direction bytes go, and whatever the same workers do next. The device
 * itself checks it (mr_sim_misuses). */
#include <stdio.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance/instance.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

#define HEAD FLOW "sources: {a: {type: count, frames: 80}}\nstages:\n"
#define DELAYS "&min_delay=20us&max_delay=200us"
enum { FRAMES = 80, REFUSED = -1, MOST_CALLS = 160, STRIDE = UNDER_TSAN(19, UNDER_ASAN(13, 5)) };

/* %1$s: what fails, with the number. */
static const struct {
    const char *name, *text;
    uint64_t stages;
} paths[] = {
    {"up", HEAD "  make: {type: scale, input: a}\n"
                "  one: {type: scale, input: make, device: \"sim:0?%1$s" DELAYS "\", on_device_error: cpu}\n"
                "  out: {type: collect, input: one}\n", 1},
    {"up in batches", HEAD
     "  make: {type: scale, input: a}\n"
     "  one: {type: block, input: make, batch: 4, device: \"sim:0?%1$s" DELAYS "\", on_device_error: sim:1}\n"
     "  out: {type: collect, input: one}\n", 1},
    {"home", HEAD "  make: {type: scale, input: a, device: \"sim:0?%1$s" DELAYS "\"}\n"
                  "  one: {type: scale, input: make, device: \"sim:0?%1$s" DELAYS "\", on_device_error: cpu}\n"
                  "  out: {type: collect, input: one}\n", 1},
    {"home in batches", HEAD
     "  make: {type: scale, input: a, device: \"sim:0?%1$s" DELAYS "\"}\n"
     "  one: {type: block, input: make, batch: 4, device: \"sim:0?%1$s" DELAYS "\", on_device_error: cpu}\n"
     "  out: {type: collect, input: one}\n", 1},
    {"planned copies", HEAD "  make: {type: scale, input: a}\n"
                            "  one: {type: block, input: make, batch: 4, device: \"sim:0?%1$s" DELAYS "\"}\n"
                            "  out: {type: collect, input: one}\n", 1},
    {"one of several", HEAD
     "  make: {type: scale, input: a}\n"
     "  one: {type: scale, input: make, device: [\"sim:0?%1$s" DELAYS "\", sim:1], on_device_error: cpu}\n"
     "  out: {type: collect, input: one}\n", 1},
    {"from another device", HEAD
     "  make: {type: scale, input: a, device: sim:1}\n"
     "  one: {type: scale, input: make, device: \"sim:0?%1$s" DELAYS "\", on_device_error: sim:2}\n"
     "  two: {type: block, input: one, batch: 3, device: sim:1, on_device_error: cpu}\n"
     "  out: {type: collect, input: two}\n", 2},
};
enum { PATHS = sizeof paths / sizeof *paths };
static const char *const ways[] = {"fail_call", "lose_call", "lose_after"};

/* Kept memory is not later calls' memory, on the enabled device or elsewhere. Work on processors is done. */
static void expect_no_work(const mr_instance *instance, const mr_entry_task *entry) {
    for (size_t i = 0; i < mr_parts_count(&instance->parts); i++) {
        assert_true(mr_parts_are_on_host(&instance->parts, i) || !entry->streams[i]->unrecorded);
        assert_true(mr_parts_are_on_host(&instance->parts, i) || !entry->staging[i] || !entry->staging[i]->unrecorded);
    }
}

/* Checks what happened to each call's memory. */
static void expect_no_rest(const mr_graph *graph) {
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++) {
        const mr_instance *instance = mr_wiring_at(graph->wiring, i);
        assert_true(mr_abandonment_is_sound(&instance->abandoned));
        for (size_t e = 0; e < instance->entry_count; e++)
            expect_no_work(instance, &instance->entries[e]);
    }
}

/* Returns how many frames were dropped; REFUSED: the device failed before everything was open. */
static int run(size_t path, const char *way, int number, uint64_t seed, int workers) {
    char text[2048], fails[64];
    int dropped = REFUSED;
    snprintf(fails, sizeof fails, "%s=%d", way, number);
    snprintf(text, sizeof text, paths[path].text, fails);
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    if (!mr_pipeline_start(pipeline)) {
        mr_summary *sums = flow_end(pipeline);
        flow_expect(sums, FRAMES, paths[path].stages);
        dropped = (int)sums->dropped;
        mr_summary_destroy(&sums);
        expect_no_rest(pipeline->graph);
    }
    mr_pipeline_destroy(&pipeline);
    if (mr_sim_misuses())
        fail_msg("%s, %s, seed %d, %d workers", paths[path].name, fails, (int)seed, workers);
    return dropped;
}

/* With a seed, and on threads. */
static void try_path(size_t path, int number, int *started, int *hit) {
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (int threads = 0; threads < 2; threads++) {
            const int dropped = run(path, ways[way], number, threads ? 0 : (uint64_t)number, next_worker_count());
            *started += dropped != REFUSED;
            *hit += dropped != REFUSED && dropped > 0;
        }
}

TEST(nothing_is_used_again) {
    for (size_t path = 0; path < PATHS; path++) {
        int started = 0, hit = 0;
        for (int number = 1 + (int)path; number < MOST_CALLS; number += STRIDE)
            try_path(path, number, &started, &hit);
        print_message("    %s: %d runs, %d of them lost frames\n", paths[path].name, started, hit);
        assert_true(started > 0 && hit > 0);
    }
}

/* What the processors in reserve make is in the host's memory, and passes the copy to it: a batch after that copy holds
 * their buffers. */
TEST(a_batch_after_the_reserve_fills) {
    flow_check_all(FLOW_A(200)
                   "  make: {type: scale, input: a, device: \"sim:0?fail_after=30\", on_device_error: cpu}\n"
                   "  many: {type: batcher, input: make, batch: 40}\n"
                   "  out: {type: collect, input: many}\n",
                   3, &(flow_outcome){.in = 200, .delivered = FLOW_SOME, .dropped = FLOW_ANY});
}

/* The same on a device, from one with another in reserve, and from several. */
TEST(batches_on_a_device_fill_beside_others) {
    static const char *const devices[] = {"sim:1, on_device_error: cpu", "sim:0, on_device_error: sim:1",
                                          "[sim:0, sim:1]"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char text[512];
        snprintf(text, sizeof text, FLOW_A(200)
                 "  make: {type: scale, input: a, device: %s}\n"
                 "  many: {type: sampler, input: make, every: 4, batch: 20, device: sim:1}\n"
                 "  out: {type: collect, input: many}\n", devices[i]);
        flow_check_all(text, 3, &(flow_outcome){.in = 200, .delivered = 200});
    }
}

RUN_TESTS(be_quiet_but_for_misuse, NULL)

/* A reserve device takes over from a failed one: only the frames it had are dropped. All others must be as the
 * processors would make them, in order, and the plan must include what this needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/fakes.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum {
    FRAMES = 80,
    SEEDS = FLOW_SEEDS(12),
    MOST_LOST = 24,
    REFUSED = 1000,
    MOST_CALLS = 100 /* during a start that others overlap */
};

/* Runs it and checks that frames arrive in order after `stages` that each add one. Returns how many were dropped, or
 * REFUSED if it could not start. */
static uint64_t run(const char *text, uint64_t seed, int workers, uint64_t stages) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    if (mr_pipeline_start(pipeline)) {
        assert_non_null(strstr(mr_message(), "p.yaml:"));
        assert_non_null(strstr(mr_message(), ": sim:")); /* whichever is lost */
        mr_pipeline_destroy(&pipeline);
        return REFUSED;
    }
    mr_summary *sums = flow_end(pipeline);
    flow_expect(sums, FRAMES, stages);
    uint64_t dropped = sums->dropped;
    flow_close(&pipeline, &sums);
    assert_int_equal(mr_sim_misuses(), 0);
    return dropped;
}

/* Stages work as soon as they are open. The device may be lost before all are open, which refuses the start: then tries
 * again. */
static uint64_t run_started(const char *text, int workers, uint64_t stages) {
    uint64_t dropped = REFUSED;
    for (int turn = 0; dropped == REFUSED && turn < 50; turn++)
        dropped = run(text, 0, workers, stages);
    return dropped;
}

/* `format` contains the reserve up to twice. `shared`: the failing device's work depends on thread timing, and may end
 * before the failure. More workers have more in flight: twice their number in a stage that works frame by frame. The
 * chain's second stage has three calls of four frames at most, so its device has no more than that and MOST_LOST. */
static void run_each(const char *format, uint64_t stages, bool shared) {
    static const char *const reserves[] = {"cpu", "sim:2"};
    char text[2048];
    for (int r = 0; r < 2; r++) {
        snprintf(text, sizeof text, format, reserves[r], reserves[r]);
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            assert_in_range(run(text, seed, 1, stages), 1, MOST_LOST);
        EACH_WORKER_COUNT(workers)
            assert_in_range(run_started(text, workers, stages), !shared, MOST_LOST + 2 * workers);
    }
}

#define REPLACED(name, adds, shared, stages)                                                                          \
    TEST(name) {                                                                                                      \
        run_each(FLOW_A(80) stages "  out: {type: collect, input: last}\n", adds, shared);                            \
    }

REPLACED(work_goes_on_after_the_device_is_lost, 1, false,
         "  make: {type: scale, input: a}\n"
         "  last: {type: scale, input: make, device: \"sim:0?lose_after=31\", on_device_error: %s}\n")
REPLACED(one_asynchronous_error_is_enough, 1, false,
         "  make: {type: scale, input: a}\n"
         "  last: {type: scale, input: make, device: \"sim:0?fail_every=15\", on_device_error: %s}\n")
REPLACED(one_of_several_is_replaced, 1, true,
         "  make: {type: scale, input: a}\n"
         "  last: {type: scale, input: make, device: [sim:0, \"sim:1?lose_after=21\"], on_device_error: %s}\n")
REPLACED(a_chain_on_one_device_goes_on, 2, false,
         "  make: {type: scale, input: a}\n"
         "  one: {type: scale, input: make, device: \"sim:0?lose_after=40\", on_device_error: %s}\n"
         "  last: {type: block, input: one, batch: 4, in_flight: 3, device: \"sim:0?lose_after=40\", "
         "on_device_error: %s}\n")
REPLACED(what_comes_from_other_devices_comes_home, 2, false,
         "  make: {type: scale, input: a, device: sim:1}\n"
         "  one: {type: scale, input: make, device: \"sim:0?lose_after=31\", on_device_error: %s}\n"
         "  last: {type: scale, input: one, device: sim:1}\n")

/* Each device call fails in turn, alone and as the first on a lost device. */
TEST(whatever_call_fails_the_rest_arrives) {
    static const char *const how[] = {"fail_call", "lose_call"};
    char text[1024];
    for (int h = 0; h < 2; h++)
        for (int call = 1, started = 0; call < 200; call++) {
            snprintf(text, sizeof text,
                     FLOW_A(80) "  make: {type: scale, input: a}\n"
                                "  one: {type: scale, input: make, device: \"sim:0?%s=%d\", on_device_error: cpu}\n"
                                "  out: {type: collect, input: one}\n",
                     how[h], call);
            uint64_t dropped = run(text, (uint64_t)call % 3, 2, 1);
            if (dropped > MOST_LOST && (dropped != REFUSED || started >= MOST_CALLS))
                fail_msg("%s=%d: %d frames were dropped", how[h], call, (int)dropped);
            started += dropped != REFUSED;
        }
}

TEST(the_plan_says_what_is_in_reserve) {
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = flow_open(FLOW "devices: {spare: {device: sim:3}}\n"
                 "sources: {a: {type: count, frames: 80}}\n"
                 "stages:\n"
                 "  make: {type: scale, input: a}\n"
                 "  one: {type: scale, input: make, device: sim:0, on_device_error: spare}\n"
                 "  two: {type: scale, input: one, on_device_error: sim:0}\n"
                 "  three: {type: scale, input: two, device: sim:1, on_device_error: drop}\n"
                 "  out: {type: collect, input: three}\n",
            1, 2);
    const mr_plan_vertex *one = vertex(pipeline->plan, "one");
    assert_true(one->devices.has_reserve);
    assert_string_equal(pipeline->plan->devices[one->devices.reserve].name, "sim:3");
    assert_string_equal(one->devices.names, "sim:0, then sim:3");
    assert_true(pipeline->plan->devices[one->devices.reserve].used);
    assert_true(pipeline->plan->devices[one->devices.reserve].memory.bytes > 0);
    assert_int_equal(one->memory.staging.memory, MR_MEMORY_DEVICE);
    assert_true(one->memory.staging.count > 0);
    assert_null(find_vertex(pipeline->plan, "make->sim:0"));
    assert_non_null(vertex(pipeline->plan, "one->host"));
    assert_false(vertex(pipeline->plan, "two")->devices.has_reserve);
    assert_false(vertex(pipeline->plan, "three")->devices.has_reserve);
}

TEST(reserves_that_cannot_be_are_refused) {
    static const char *const cases[][2] = {
        {"gpu", "p.yaml:6:64: error: stages.one.on_device_error: \"gpu\" is neither a device nor a name under "
                "`devices`"},
        {"auto", "stages.one.on_device_error: auto is not a device"},
        {"sim:0", "stages.one.on_device_error: the stage computes on sim:0 itself"},
        {"off", "sim:9 is disabled"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        mr_diagnostics diagnostics = {0};
        mr_pipeline *pipeline;
        snprintf(text, sizeof text,
                 FLOW "devices: {off: {device: sim:9, enabled: false}}\n"
                      "sources: {a: {type: count, frames: 80}}\n"
                      "stages:\n"
                      "  one: {type: scale, input: a, device: sim:0, on_device_error: %s}\n"
                      "  out: {type: collect, input: one}\n",
                 cases[i][0]);
        const mr_pipeline_params params = {.types = flow_stage_types(), .path = "p.yaml", .text = text};
        assert_int_equal(mr_pipeline_open(&pipeline, &params, &diagnostics), MR_ERROR_CONFIG);
        expect_in_print(&diagnostics, cases[i][1]);
    }
}

RUN_TESTS(be_quiet_but_for_misuse, NULL)

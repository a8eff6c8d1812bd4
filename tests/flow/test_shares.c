/* Stages on several devices, in simulated time: each device must do as much as it can. The others must do what a slow,
 * lost or disabled device does not, and results must be the same whoever did the work. */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/flow_run.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 1600, SEEDS = UNDER_TSAN(1, 3) /* runs with one thread */ };
static const int64_t CALL_NS = 1000000;

typedef struct outcome {
    int64_t spent_ns; /* on the simulated clock */
    mr_pipeline *pipeline;
    mr_summary *sums; /* refers to the pipeline */
} outcome;

static outcome ended(mr_pipeline *pipeline, int64_t begin_ns, uint64_t frames, uint64_t stages) {
    outcome it = {.pipeline = pipeline, .sums = flow_end(pipeline)};
    it.spent_ns = mr_executor_now_ns(pipeline->graph->run.executor) - begin_ns;
    flow_expect(it.sums, frames, stages);
    assert_int_equal(mr_sim_misuses(), 0);
    return it;
}

static outcome run(const char *text, uint64_t seed, uint64_t stages) {
    mr_pipeline *pipeline = flow_open(text, seed, next_worker_count());
    int64_t begin = mr_executor_now_ns(pipeline->graph->run.executor);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return ended(pipeline, begin, FRAMES, stages);
}

static void forget(outcome *it) {
    flow_close(&it->pipeline, &it->sums);
}

/* Lists `devices` devices; the last needs `slow` times as long for each call. */
static void list_devices(char *text, size_t bytes, int devices, int slow) {
    *text = 0;
    for (int i = 0; i < devices; i++)
        snprintf(text + strlen(text), bytes - strlen(text), "%s\"sim:%d?copy=1MB/s&call=%dms\"", i ? ", " : "", i,
                 i == devices - 1 ? slow : 1);
}

/* How much was done, as a fraction of what all devices could do together. */
static double efficiency(const outcome *it, int devices, int slow, int stages) {
    double rate = (double)(devices - 1) + 1.0 / slow;
    return (double)FRAMES * (double)CALL_NS * stages / rate / (double)it->spent_ns;
}

TEST(one_at_a_quarter_of_the_speed_adds_a_quarter) {
    char list[512], text[1024];
    for (int devices = 2; devices <= 8; devices += devices)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            list_devices(list, sizeof list, devices, 4);
            snprintf(text, sizeof text,
                     FLOW_A(1600) "  make: {type: scale, input: a}\n"
                                  "  one: {type: scale, input: make, device: [%s]}\n"
                                  "  out: {type: collect, input: one}\n",
                     list);
            outcome it = run(text, seed, 1);
            double done = efficiency(&it, devices, 4, 1);
            print_message("%d devices: %.3f of what they can do\n", devices, done);
            assert_true(done >= 0.97);
            forget(&it);
        }
}

TEST(so_it_does_for_a_chain_and_for_batches) {
    char list[512], text[2048];
    for (int batch = 1; batch <= 4; batch += 3)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            list_devices(list, sizeof list, 4, 4);
            snprintf(text, sizeof text,
                     FLOW_A(1600) "  make: {type: scale, input: a}\n"
                                  "  one: {type: block, input: make, batch: %d, device: [%s]}\n"
                                  "  two: {type: block, input: one, batch: %d, device: [%s]}\n"
                                  "  out: {type: collect, input: two}\n",
                     batch, list, batch, list);
            outcome it = run(text, seed, 2);
            double done = efficiency(&it, 4, 4, 2);
            print_message("batches of %d: %.3f of what they can do\n", batch, done);
            assert_true(done >= 0.95);
            forget(&it);
        }
}

/* A device for which the others would have to wait may only get an occasional try. */
TEST(one_that_is_far_too_slow_is_left_out) {
    char list[512], text[1024];
    list_devices(list, sizeof list, 2, 40);
    snprintf(text, sizeof text,
             FLOW_A(1600) "  make: {type: scale, input: a}\n"
                          "  one: {type: scale, input: make, device: [%s]}\n"
                          "  out: {type: collect, input: one}\n",
             list);
    outcome it = run(text, 1, 1);
    const mr_stage_summary *one = flow_stage(it.sums, "one");
    assert_in_range(one->shares[1].frames, 1, 20);
    assert_true((double)FRAMES * (double)CALL_NS / (double)it.spent_ns >= 0.85);
    forget(&it);
}

TEST(one_that_becomes_slow_gets_less) {
    outcome it = run(FLOW_A(1600) "  make: {type: scale, input: a}\n"
                                  "  one: {type: scale, input: make,\n"
                                  "        device: [\"sim:0?copy=1MB/s&call=1ms\",\n"
                                  "                 \"sim:1?copy=1MB/s&call=1ms&slow_after=1200&slow=4\"]}\n"
                                  "  out: {type: collect, input: one}\n",
                     1, 1);
    const mr_stage_summary *one = flow_stage(it.sums, "one");
    /* A frame needs three pieces of work: upload, compute, download. So the device has done 400 when it becomes slow,
     * and so has the other. It should do one in five of the remaining 800. */
    assert_in_range(one->shares[1].frames, 400 + 140, 400 + 180);
    assert_int_equal(one->shares[0].frames + one->shares[1].frames, FRAMES);
    forget(&it);
}

/* Work that a lost device had begun is dropped; the others do the later frames. */
TEST(of_a_lost_device_only_what_was_under_way_is_lost) {
    for (uint64_t seed = 0; seed <= 2 * SEEDS; seed++) {
        outcome it = run(FLOW_A(1600) "  make: {type: scale, input: a}\n"
                                      "  one: {type: scale, input: make,\n"
                                      "        device: [\"sim:0?copy=1MB/s&call=100us\",\n"
                                      "                 \"sim:1?copy=1MB/s&call=100us&lose_after=900\",\n"
                                      "                 \"sim:2?copy=1MB/s&call=100us\"]}\n"
                                      "  out: {type: collect, input: one}\n",
                         seed, 1);
        const mr_stage_summary *one = flow_stage(it.sums, "one");
        assert_in_range(it.sums->dropped, 0, 32);
        assert_int_equal(one->shares[0].state, MR_DEVICE_WORKS);
        /* How threads share out the work is not determined. */
        if (seed) {
            assert_true(it.sums->dropped > 0);
            assert_int_equal(one->shares[1].state, MR_DEVICE_FAILED);
            assert_in_range(one->shares[1].frames, 250, 360);
        }
        forget(&it);
    }
}

/* ---- by hand --------------------------------------------------------------------------------------------------- */

static const char by_hand[] =
    FLOW "devices: {second: {device: \"sim:1?copy=1MB/s&call=1ms\"}}\n"
         "sources: {a: {type: count, frames: 1600, period: 1ms}}\n"
         "stages:\n"
         "  make: {type: scale, input: a}\n"
         "  one: {type: scale, input: make, device: [\"sim:0?copy=1MB/s&call=1ms\", second]}\n"
         "  two: {type: scale, input: one, device: second, on_device_error: cpu}\n"
         "  three: {type: scale, input: two, device: \"sim:2?call=10us\"}\n"
         "  out: {type: collect, input: three}\n";

static void go_on(mr_pipeline *pipeline, int64_t until_ns) {
    assert_int_equal(mr_pipeline_wait(pipeline, until_ns - mr_executor_now_ns(pipeline->graph->run.executor)),
                     MR_ERROR_AGAIN);
}

TEST(a_disabled_device_gets_nothing_until_it_is_enabled) {
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        mr_pipeline *pipeline = flow_open(by_hand, seed, 2);
        mr_summary *before, *after;
        int64_t begin = mr_executor_now_ns(pipeline->graph->run.executor);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        go_on(pipeline, begin + 400 * CALL_NS);
        assert_int_equal(mr_pipeline_enable_device(pipeline, "second", false), MR_OK);
        assert_int_equal(mr_pipeline_summarize(pipeline, &before), MR_OK);
        go_on(pipeline, begin + 800 * CALL_NS);
        assert_int_equal(mr_pipeline_summarize(pipeline, &after), MR_OK);
        assert_int_equal(flow_stage(after, "one")->shares[1].state, MR_DEVICE_DISABLED);
        assert_int_equal(flow_stage(after, "two")->shares[0].state, MR_DEVICE_DISABLED);
        assert_int_equal(flow_stage(after, "two")->shares[1].state, MR_DEVICE_RESERVED);
        assert_true(flow_stage(before, "one")->shares[1].frames > 0);
        assert_int_equal(flow_stage(after, "one")->shares[1].frames, flow_stage(before, "one")->shares[1].frames);
        assert_int_equal(flow_stage(after, "two")->shares[0].frames, flow_stage(before, "two")->shares[0].frames);
        assert_true(flow_stage(after, "two")->shares[1].frames > 300);
        mr_summary_destroy(&before);
        assert_int_equal(mr_pipeline_enable_device(pipeline, "sim:1?copy=1MB/s&call=1ms", true), MR_OK);
        outcome it = ended(pipeline, begin, FRAMES, 3);
        assert_int_equal(it.sums->dropped, 0);
        assert_true(flow_stage(it.sums, "one")->shares[1].frames > flow_stage(after, "one")->shares[1].frames + 100);
        assert_true(flow_stage(it.sums, "two")->shares[0].frames > flow_stage(after, "two")->shares[0].frames + 300);
        assert_int_equal(flow_stage(it.sums, "one")->shares[1].state, MR_DEVICE_WORKS);
        mr_summary_destroy(&after);
        forget(&it);
    }
}

TEST(no_stage_is_left_without_a_device) {
    mr_pipeline *pipeline = flow_open(by_hand, 1, 2);
    int64_t begin = mr_executor_now_ns(pipeline->graph->run.executor);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    go_on(pipeline, begin + 10 * CALL_NS);
    assert_int_equal(mr_pipeline_enable_device(pipeline, "sim:7", false), MR_ERROR_USAGE);
    assert_string_equal(mr_message(), "pipeline p does not use a device \"sim:7\"");
    assert_int_equal(mr_pipeline_enable_device(pipeline, "sim:2?call=10us", false), MR_ERROR_UNAVAILABLE);
    assert_string_equal(mr_message(), "sim:2 cannot be disabled: three (p.yaml:9:3) has no other device to work on");
    assert_int_equal(mr_pipeline_enable_device(pipeline, "second", false), MR_OK);
    assert_int_equal(mr_pipeline_enable_device(pipeline, "sim:0?copy=1MB/s&call=1ms", false), MR_ERROR_UNAVAILABLE);
    assert_int_equal(mr_pipeline_enable_device(pipeline, "second", true), MR_OK);
    assert_int_equal(mr_pipeline_enable_device(pipeline, "sim:0?copy=1MB/s&call=1ms", false), MR_OK);
    outcome it = ended(pipeline, begin, FRAMES, 3);
    assert_int_equal(it.sums->dropped, 0);
    forget(&it);
}

/* On threads, with devices that take random times: whatever comes and goes, nothing may be lost or out of order. */
TEST(devices_come_and_go_while_threads_run) {
    static const char *const names[] = {"sim:0", "sim:1", "sim:2"};
    mr_pipeline *pipeline = flow_open(FLOW_A(6000) "  make: {type: scale, input: a}\n"
                                                   "  one: {type: scale, input: make, device: [sim:0, sim:1, sim:2]}\n"
                                        "  two: {type: block, input: one, batch: 4, device: [sim:0, sim:1, sim:2]}\n"
                                                   "  out: {type: collect, input: two}\n",
                                      0, 2);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (unsigned turn = 0; mr_pipeline_wait(pipeline, 1000000) == MR_ERROR_AGAIN; turn++) {
        assert_int_equal(mr_pipeline_enable_device(pipeline, names[turn % 3], false), MR_OK);
        assert_int_equal(mr_pipeline_enable_device(pipeline, names[(turn + 1) % 3], false), MR_OK);
        assert_int_equal(mr_pipeline_enable_device(pipeline, names[(turn + 2) % 3], false), MR_ERROR_UNAVAILABLE);
        assert_int_equal(mr_pipeline_enable_device(pipeline, names[turn % 3], true), MR_OK);
        assert_int_equal(mr_pipeline_enable_device(pipeline, names[(turn + 1) % 3], true), MR_OK);
    }
    mr_summary *sums = flow_end(pipeline);
    flow_expect(sums, 6000, 2);
    assert_int_equal(sums->dropped, 0);
    assert_int_equal(mr_sim_misuses(), 0);
    flow_close(&pipeline, &sums);
}

RUN_TESTS(NULL, NULL)

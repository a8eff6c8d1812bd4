/* What devices do at the same time, in simulated time, from the device log: copies overlap with compute, and eight
 * devices give almost eight times one device's frames. */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { MOST_NOTES = 20000 };

typedef struct work_log {
    size_t count;
    mr_work_note note[MOST_NOTES];
} work_log;

static work_log logged;

static void keep_note(void *context, const mr_device *device, const mr_work_note *note) {
    work_log *kept = context;
    assert_true(kept->count < MOST_NOTES);
    kept->note[kept->count++] = *note;
}

/* Runs it and returns how long that took on the simulated clock. */
static int64_t run(const char *text) {
    logged.count = 0;
    mr_pipeline *pipeline = flow_open(text, 11, 0);
    pipeline->graph->trace = keep_note;
    pipeline->graph->trace_context = &logged;
    int64_t begin = mr_executor_now_ns(pipeline->graph->run.executor);
    mr_summary *sums = flow_run(pipeline);
    int64_t spent = mr_executor_now_ns(pipeline->graph->run.executor) - begin;
    assert_int_equal(sums->delivered, sums->in);
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].identity.seq, i);
    flow_close(&pipeline, &sums);
    return spent;
}

static int64_t busy(mr_engine engine) {
    int64_t sum = 0;
    for (size_t i = 0; i < logged.count; i++)
        sum += logged.note[i].engine == engine ? logged.note[i].end_ns - logged.note[i].begin_ns : 0;
    return sum;
}

/* Nanoseconds in which both engines work; each works on one thing at a time. */
static int64_t together(mr_engine a, mr_engine b) {
    int64_t sum = 0;
    for (size_t i = 0; i < logged.count; i++)
        for (size_t j = 0; j < logged.count && logged.note[i].engine == a; j++) {
            const mr_work_note *one = &logged.note[i], *other = &logged.note[j];
            int64_t from = one->begin_ns > other->begin_ns ? one->begin_ns : other->begin_ns;
            int64_t to = one->end_ns < other->end_ns ? one->end_ns : other->end_ns;
            sum += other->engine == b && to > from ? to - from : 0;
        }
    return sum;
}

static double hidden(mr_engine copies) {
    int64_t copy = busy(copies), compute = busy(MR_ENGINE_COMPUTE);
    assert_true(copy > 0 && compute > 0);
    double share = (double)together(copies, MR_ENGINE_COMPUTE) / (double)(copy < compute ? copy : compute);
    print_message("%s: %.3f of the shorter is hidden\n", mr_engine_name(copies), share);
    return share;
}

/* Frames are eight bytes: at 10 kB/s a copy takes 0.8 ms. `format` holds the device and how long a call takes. */
static void expect_overlap(const char *device, const char *call, int frames) {
    char text[1024];
    snprintf(text, sizeof text,
             FLOW "sources: {a: {type: count, frames: %d}}\n"
                  "stages:\n"
                  "  make: {type: scale, input: a}\n"
                  "  one: {type: scale, input: make, device: \"sim:0?copy=10kB/s&call=%s\"%s}\n"
                  "  out: {type: collect, input: one}\n",
             frames, call, device);
    int64_t spent = run(text);
    assert_int_equal(collection_count, frames);
    assert_true(hidden(MR_ENGINE_UPLOAD) >= 0.9);
    assert_true(hidden(MR_ENGINE_DOWNLOAD) >= 0.9);
    int64_t compute = busy(MR_ENGINE_COMPUTE), copy = busy(MR_ENGINE_UPLOAD);
    int64_t longest = compute > copy ? compute : copy;
    assert_true((double)longest / (double)spent >= 0.9);
}

TEST(copies_hide_behind_compute) {
    expect_overlap("", "1ms", 200);
    expect_overlap("", "800us", 200);
    expect_overlap("", "500us", 200);
}

/* A stage with a reserve device copies inputs itself. */
TEST(so_do_copies_that_a_stage_makes_itself) {
    expect_overlap(", on_device_error: cpu", "1ms", 200);
    expect_overlap(", on_device_error: cpu", "500us", 200);
}

static int64_t time_on(int devices, int frames) {
    char list[512] = "", text[1024];
    for (int i = 0; i < devices; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"sim:%d?copy=100kB/s&call=1ms\"", i ? ", " : "",
                 i);
    snprintf(text, sizeof text,
             FLOW "sources: {a: {type: count, frames: %d}}\n"
                  "stages:\n"
                  "  make: {type: scale, input: a}\n"
                  "  one: {type: scale, input: make, device: [%s]}\n"
                  "  out: {type: collect, input: one}\n",
             frames, list);
    int64_t spent = run(text);
    assert_int_equal(collection_count, frames);
    return spent;
}

TEST(eight_devices_do_eight_times_the_work) {
    enum { COUNT = 800 };
    double times = (double)time_on(1, COUNT) / (double)time_on(8, COUNT);
    print_message("eight devices: %.2f times the frames of one\n", times);
    assert_true(times >= 7.5);
}

RUN_TESTS(be_quiet, expect_no_misuse)

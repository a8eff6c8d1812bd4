/* Runs on several simulated devices give what one gives, in the memory that was planned, whatever the seed. */
#include <stdio.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

enum { SEEDS = UNDER_TSAN(5, 20) };

static mr_pipeline *open_text(const mr_stage_type *const *types, const char *text, uint64_t seed) {
    const mr_pipeline_params params = {.types = types, .path = "test.yaml", .text = text, .seed = seed, .workers = 3};
    return opened(&params);
}

/* A run used no more than was planned, and everything was known. */
static void expect_bounds(const mr_pipeline *pipeline, const mr_summary *sums) {
    const mr_plan *plan = pipeline->plan;
    assert_false(plan->host.unknown);
    assert_false(plan->pinned.unknown);
    assert_in_range(sums->host_bytes, 0, plan->host.bytes);
    assert_in_range(sums->pinned_bytes, 0, plan->pinned.bytes);
    for (size_t i = 0; i < sums->device_count; i++)
        for (size_t d = 0; d < plan->device_count; d++)
            if (strcmp(plan->devices[d].name, sums->devices[i].name) == 0) {
                assert_false(plan->devices[d].memory.unknown);
                assert_in_range(sums->devices[i].bytes, 1, plan->devices[d].memory.bytes);
            }
}

static void run_text(const mr_stage_type *const *types, const char *text, uint64_t seed, uint64_t frames) {
    flow_stages_reset();
    mr_pipeline *pipeline = open_text(types, text, seed);
    mr_summary *sums = flow_run(pipeline);
    assert_int_equal(sums->delivered, frames);
    expect_bounds(pipeline, sums);
    flow_close(&pipeline, &sums);
}

/* Every source's frames in order, with `more` stages' worth in each. */
static void expect_collection(size_t count, uint64_t more) {
    uint64_t next[8] = {0};
    assert_int_equal(collection_count, count);
    for (size_t i = 0; i < count; i++) {
        const collected *frame = &collection[i];
        assert_int_equal(frame->identity.seq, next[frame->identity.source]++);
        assert_int_equal(frame->value, frame->identity.seq + more);
    }
}

/* `format` holds two %s: the devices. */
static void run_on(const char *format, const char *first, const char *second, size_t count, uint64_t more) {
    char text[2048];
    assert_true(snprintf(text, sizeof text, format, first, second) < (int)sizeof text);
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        run_text(flow_stage_types(), text, seed, count);
        expect_collection(count, more);
    }
}

static const char *const lists[][2] = {{"cpu", "cpu"},
                                       {"sim:0", "sim:1"},
                                       {"[sim:0, sim:1]", "[sim:0, sim:1]"},
                                       {"[sim:0, sim:1, sim:2]", "[sim:2, sim:1]"},
                                       {"[sim:0, sim:1]", "sim:1"},
                                       {"sim:3", "[sim:0, sim:1, sim:2]"},
                                       {"cpu", "[sim:1, sim:0]"}};
enum { LISTS = sizeof lists / sizeof lists[0] };

TEST(several_devices_give_what_one_gives) {
    for (size_t i = 0; i < LISTS; i++)
        run_on(FLOW "sources: {a: {type: count, frames: 50}, b: {type: count, frames: 31}}\n"
                    "stages:\n"
                    "  one: {type: scale, input: sources.*, device: %s}\n"
                    "  two: {type: scale, input: one, device: %s}\n"
                    "  out: {type: collect, input: two}\n", lists[i][0], lists[i][1], 81, 1);
}

TEST(batches_stay_whole_on_several_devices) {
    for (size_t i = 0; i < LISTS; i++) {
        run_on(FLOW_A(40) "  one: {type: scale, input: a, device: %s}\n"
                          "  two: {type: block, input: one, batch: 4, device: %s}\n"
                          "  out: {type: collect, input: two}\n", lists[i][0], lists[i][1], 40, 1);
        assert_int_equal(largest_batch, 4);
    }
}

/* The host reads what one device added to the results, and also the payload. */
TEST(tensors_among_the_results_come_home) {
    for (size_t i = 0; i < LISTS; i++) {
        run_on(FLOW_A(40) "  one: {type: scale, input: a, device: %s}\n"
                          "  two: {type: note, input: one, device: %s}\n"
                          "  three: {type: pass, input: two}\n"
                          "  out: {type: collect, input: three}\n", lists[i][0], lists[i][1], 40, 0);
        for (size_t j = 0; j < collection_count; j++)
            assert_int_equal(collection[j].noted, collection[j].identity.seq + 1000);
    }
}

TEST(joins_get_both_sides_home) {
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        run_text(flow_stage_types(),
                 FLOW_A(60) "  one: {type: scale, input: a, device: [sim:0, sim:1]}\n"
                            "  some: {type: gate, input: one, every: 3}\n"
                            "  two: {type: block, input: one, device: sim:2, batch: 2}\n"
                            "  both: {type: meet, join: {left: some, right: two}}\n"
                            "  out: {type: collect, input: both}\n", seed, 20);
        assert_int_equal(collection_count, 20);
    }
}

/* One listed device fails now and then: its frames are dropped, and all others arrive in order. */
TEST(failures_of_one_device_drop_its_frames_only) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mr_pipeline *pipeline =
            flow_open(FLOW_A(60) "  one: {type: scale, input: a, device: [sim:0, \"sim:1?fail_every=7\"]}\n"
                                 "  out: {type: collect, input: one}\n", seed, 3);
        mr_summary *sums = flow_run(pipeline);
        assert_true(sums->dropped > 0 && sums->delivered >= 40);
        flow_expect(sums, 60, 0);
        flow_close(&pipeline, &sums);
    }
}

/* ---- pictures and memory --------------------------------------------------------------------------------------- */

#define IMAGES "/usr/lib/python3/dist-packages/imageio/resources/images"
#define FOLDER "/usr/share/doc/opencv-doc/examples/data"

#define EVERY UNDER_TSAN("4", "1")

static uint64_t count_frames(const char *text) {
    mr_pipeline *pipeline = open_text(mr_stage_types(), text, 0);
    mr_summary *sums = flow_run(pipeline);
    uint64_t frames = sums->delivered;
    expect_bounds(pipeline, sums);
    flow_close(&pipeline, &sums);
    return frames;
}

TEST(a_clip_stays_within_the_planned_memory) {
    assert_int_equal(count_frames(FLOW "sources:\n"
                                       "  clip: {type: media, uri: " IMAGES "/cockatoo.mp4, every: " EVERY "}\n"
                                       "stages:\n"
                                       "  decode: {input: clip}\n"
                                       "  one: {type: preprocess, input: decode, size: 224, device: [sim:0, sim:1]}\n"
                                       "  two: {type: preprocess, input: decode, size: 64, device: sim:1}\n"
                                       "  three: {type: preprocess, input: decode, size: 32}\n"
                                       "  out: {type: 'null', input: [one, two, three]}\n"), UNDER_TSAN(70, 280));
}

TEST(mixed_pictures_stay_within_the_planned_memory) {
    assert_true(count_frames(FLOW "sources: {folder: {type: media, uri: " FOLDER "/*.jpg}}\n"
                                  "stages:\n"
                                  "  decode: {input: folder}\n"
                                  "  one: {type: preprocess, input: decode, size: 224, device: sim:0}\n"
                                  "  two: {type: preprocess, input: decode, size: 64, device: [sim:1, sim:0]}\n"
                                  "  out: {type: 'null', input: [one, two]}\n") > 10);
}

static void keep_frame(void *context, const char *source, const mr_frame *frame) {
    mr_frame **kept = context;
    if (!*kept)
        *kept = mr_frame_ref((mr_frame *)(uintptr_t)frame);
}

/* What came from a device lies in memory that the device has pinned: it outlives the pipeline with the frame. */
TEST(a_kept_frame_outlives_its_device) {
    ENDED_BY(mr_frame_unref) mr_frame *kept = NULL;
    mr_pipeline *pipeline = open_text(mr_stage_types(),
                                      FLOW "sources: {in: {type: push, format: RGB24 4x4}}\n"
                                           "stages:\n"
                                           "  a: {type: preprocess, input: in, size: 4x4, device: [sim:0, sim:1]}\n"
                                           "  out: {type: callback, input: a}\n",
                                      0);
    static const uint8_t picture[4 * 4 * 3] = {7, 7, 7};
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = 4, .height = 4};
    const mr_push push = {.format = format, .data = {picture}, .stride = {12}};
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", keep_frame, &kept), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(mr_pipeline_push(pipeline, "in", &push, -1), MR_OK);
    assert_int_equal(mr_pipeline_end(pipeline, "in"), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
    mr_pipeline_destroy(&pipeline);
    assert_non_null(kept);
    assert_int_equal(kept->plane[0].buffer->memory, MR_MEMORY_PINNED);
    assert_true(*(const float *)(const void *)kept->plane[0].data == 7);
}

RUN_TESTS(be_quiet, expect_no_misuse)

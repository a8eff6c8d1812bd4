/* Classical feature stages in pipelines, on the processor and on simulated accelerators, singly and in batches, in
 * several layouts. Each frame's result must equal the kernel's for the same picture. tests/reference/classical.py
 * compares kernel results with other libraries. Motion: tests/stages/image/test_motion.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "kernels/classical/classical.h"
#include "kernels/preprocess/preprocess_rows.h"
#include "kernels/preprocess/preprocess.h"
#include "millrace/millrace.h"
#include "tests/support/feeds.h"
#include "tests/support/flow_stages.h"
#include "tests/support/suite.h"

/* Makes the small picture that a stage should make. */
static uint8_t *make_small(const feed *f, size_t frame, mr_preprocess_params params) {
    params.std[0] = params.std[1] = params.std[2] = 1;
    params.crop_fraction = 1;
    params.dtype = MR_DTYPE_U8;
    params.layout = MR_LAYOUT_NCHW;
    mr_preprocess *plan = NULL;
    assert_int_equal(mr_preprocess_create(&plan, &params, &f->format), MR_OK);
    const mr_format output = mr_preprocess_output(&params);
    uint8_t *small = malloc(mr_tensor_bytes(&output));
    void *scratch = aligned_alloc(64, (mr_preprocess_scratch_bytes(plan) + 63) / 64 * 64);
    const mr_picture picture = feed_picture(f, frame);
    mr_preprocess_run(plan, mr_preprocess_rows_get(), &picture, small, scratch);
    free(scratch);
    mr_preprocess_destroy(&plan);
    return small;
}

static size_t expect_hog(const feed *f, size_t frame, uint8_t *want) {
    const mr_hog_params params = {.width = 32, .height = 40, .channels = 3, .block_width = 16, .block_height = 16,
                                  .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8, .bins = 8,
                                  .full_turn = true, .clip = 0.3f};
    uint8_t *small = make_small(f, frame, (mr_preprocess_params){.width = 32, .height = 40, .interpolation = MR_AREA,
                                                                 .fit = MR_FIT_LETTERBOX});
    mr_hog *hog = NULL;
    assert_int_equal(mr_hog_create(&hog, &params), MR_OK);
    void *scratch = aligned_alloc(64, (mr_hog_scratch_bytes(hog) + 63) / 64 * 64);
    mr_hog_run(hog, mr_classical_rows_get(), small, (float *)(void *)want, scratch);
    size_t bytes = (size_t)mr_hog_length(mr_hog_layout_of(hog)) * sizeof(float);
    mr_hog_destroy(&hog);
    free(scratch);
    free(small);
    return bytes;
}

static size_t expect_histogram(const feed *f, size_t frame, uint8_t *want) {
    const mr_histogram_params params = {.width = 33, .height = 20, .space = MR_COLORS_HSV, .bins = 5, .joint = true};
    uint8_t *small = make_small(f, frame, (mr_preprocess_params){.width = 33, .height = 20,
                                                                 .interpolation = MR_NEAREST});
    assert_int_equal(mr_histogram(&params, small, (float *)(void *)want), MR_OK);
    free(small);
    return 125 * sizeof(float);
}

static size_t expect_phash(const feed *f, size_t frame, uint8_t *want) {
    uint8_t *small = make_small(f, frame, (mr_preprocess_params){.width = 32, .height = 32, .gray = true,
                                                                 .interpolation = MR_AREA});
    mr_phash(small, want);
    free(small);
    return MR_HASH_BYTES;
}

static size_t expect_bits(const feed *f, size_t frame, uint8_t *want) {
    uint8_t hash[MR_HASH_BYTES];
    expect_phash(f, frame, hash);
    for (int i = 0; i < 64; i++)
        ((float *)(void *)want)[i] = (float)(hash[i / 8] >> (7 - i % 8) & 1);
    return 64 * sizeof(float);
}

/* 8-bit YUV uses luma, stretched from limited range. Other layouts use a gray picture of the same size. */
static size_t expect_sharpness(const feed *f, size_t frame, uint8_t *want) {
    const mr_pixel_info *info = mr_pixel_describe(f->format.pixel);
    mr_sharpness_item item = {.src = f->block[frame], .stride = FEED_WIDTH, .width = FEED_WIDTH,
                              .height = FEED_HEIGHT, .scale = info->components == 3 ? (float)(255.0 / 219.0) : 1.0f,
                              .dst = (float *)(void *)want};
    uint8_t *gray = NULL;
    if (info->rgb || info->depth > 8 || f->format.pixel == MR_PIXEL_YA8) {
        gray = make_small(f, frame, (mr_preprocess_params){.width = FEED_WIDTH, .height = FEED_HEIGHT, .gray = true,
                                                           .interpolation = MR_AREA});
        item.src = gray;
        item.scale = 1.0f;
    }
    mr_sharpness(mr_classical_rows_get(), &item);
    free(gray);
    return sizeof(float);
}

static size_t expect_small(const feed *f, size_t frame, uint8_t *want) {
    uint8_t *small = make_small(f, frame, (mr_preprocess_params){.width = 31, .height = 17,
                                                                 .interpolation = MR_AREA});
    memcpy(want, small, 3 * 31 * 17);
    free(small);
    return 3 * 31 * 17;
}

typedef size_t expect_function(const feed *f, size_t frame, uint8_t *want);

static const struct feature {
    const char *stage;
    expect_function *expect;
} features[] = {
    {"type: hog, size: 32x40, fit: letterbox, bins: 8, signed: true, gamma: false, color: true, clip: 0.3",
     expect_hog},
    {"type: histogram, size: 33x20, space: hsv, bins: 5, joint: true", expect_histogram},
    {"type: phash", expect_phash},
    {"type: phash, form: bits", expect_bits},
    {"type: sharpness", expect_sharpness},
    {"type: preprocess, size: 31x17, interpolation: area, dtype: u8", expect_small},
};
enum { FEATURES = sizeof features / sizeof features[0] };

static void check_feature(const struct feature *feature, const char *how) {
    static uint8_t want[FEED_MOST_BYTES] __attribute__((aligned(64)));
    char stages[512];
    snprintf(stages, sizeof stages, "  it: {input: sources.*, %s%s}\n", feature->stage, how);
    const feeds_ledger told = feeds_run(stages);
    assert_int_equal(told.dropped + told.absorbed, 0);
    for (size_t i = 0; i < feed_count; i++) {
        assert_int_equal(feeds[i].arrived, feeds[i].count);
        for (size_t k = 0; k < feeds[i].count; k++) {
            assert_int_equal(feeds[i].seq[k], k);
            assert_int_equal(feature->expect(&feeds[i], k, want), feeds[i].bytes[k]);
            if (memcmp(want, feeds[i].data[k], feeds[i].bytes[k]) != 0)
                fail_msg("%s%s: frame %zu of source %zu differs", feature->stage, how, k, i);
        }
    }
}

/* GPUs that the host plays are slow: this build tests only them, with one layout. Other builds test all devices
 * present. */
#ifdef MILLRACE_CUDA_HOST
enum { LAYOUTS = 1, PLAYED = true };
#else
enum { LAYOUTS = 3, PLAYED = false };
#endif

static bool is_possible(const char *way) {
    uint64_t bytes;
    return (!PLAYED || strstr(way, "cuda")) &&
           (!strstr(way, "cuda:0") || mr_device_probe("cuda:0", &bytes) == MR_OK) &&
           (!strstr(way, "cuda:1") || mr_device_probe("cuda:1", &bytes) == MR_OK);
}

/* Two sources with different layouts. One batch has more frames than one piece of work can take. */
TEST(features_are_those_of_the_kernels) {
    static const mr_pixel layouts[][2] = {{MR_PIXEL_I420, MR_PIXEL_RGB24}, {MR_PIXEL_NV12, MR_PIXEL_I420_10},
                                          {MR_PIXEL_GRAY8, MR_PIXEL_YA8}};
    static const char *const ways[] = {"", ", device: 'sim:0'", ", batch: {size: 4, timeout: 1ms}",
                                       ", batch: {size: 30, timeout: 1s}, device: 'sim:1'",
                                       ", device: ['sim:0', 'sim:1']",
                                       ", batch: {size: 30, timeout: 1s}, device: 'cuda:0'",
                                       ", device: ['cuda:0', 'cuda:1']"};
    for (size_t l = 0; l < LAYOUTS; l++) {
        feed_count = 2;
        feed_fill(&feeds[0], layouts[l][0], 9);
        feed_fill(&feeds[1], layouts[l][1], 21);
        for (size_t i = 0; i < FEATURES; i++)
            for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
                if (is_possible(ways[w]))
                    check_feature(&features[i], ways[w]);
        feeds_free();
    }
}

/* Results stay with a frame through stages that make a new payload. A later batch can hold them all. */
TEST(results_go_along) {
    feed_count = 1;
    feed_fill(&feeds[0], MR_PIXEL_I420, FEED_FRAMES);
    const feeds_ledger told = feeds_run("  sharp: {type: sharpness, input: a}\n"
                              "  hash: {type: phash, input: sharp, device: 'sim:0'}\n"
                              "  small: {type: preprocess, input: hash, size: 8}\n"
                              "  it: {type: classify, input: small, tensor: sharpness,\n"
                              "       batch: {size: 30, timeout: 10s}}\n");
    assert_int_equal(told.delivered, FEED_FRAMES);
    feeds_free();
}

/* A copy owns its numbers: the original's memory may already hold another frame. */
static void see_sharpness(void *context, const char *source, const mr_frame *frame) {
    float want, got;
    const mr_result *sharp = mr_frame_result(frame, mr_kind_tensor(), "sharp");
    expect_sharpness(&feeds[0], frame->identity.seq, (uint8_t *)&want);
    memcpy(&got, sharp->data, sizeof got);
    assert_true(want == got);
    assert_ptr_equal(sharp->data, sharp->room);
    ++*(size_t *)context;
}

static void see_both(void *context, const char *source, const mr_frame *frame) {
    see_sharpness(context, source, frame);
    assert_non_null(mr_frame_result(frame, mr_kind_tensor(), "noted")->buffer);
}

/* A join's input frames are released long before the sink receives the joined frame. */
TEST(joined_results_are_copies) {
    size_t seen = 0;
    feed_count = 1;
    feed_fill(&feeds[0], MR_PIXEL_GRAY8, FEED_FRAMES);
    mr_pipeline *pipeline = feeds_open(mr_stage_types(), "  sharp: {type: sharpness, input: a}\n"
                                       "  small: {type: preprocess, input: a, size: 8}\n"
                                       "  both: {type: join, join: {small: small, sharp: sharp}}\n"
                                       "  it: {type: 'null', input: both}\n");
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", see_sharpness, &seen), MR_OK);
    feeds_push(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(seen, FEED_FRAMES);
    feeds_free();
}

/* `note` puts a tensor into device memory. The frame's other results are copied to the host with it. */
TEST(results_are_copied_with_others) {
    const mr_stage_type *both[64] = {NULL};
    size_t count = 0, seen = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        both[count++] = *type;
    for (const mr_stage_type *const *type = flow_stage_types(); *type; type++)
        if (strcmp((*type)->name, "note") == 0)
            both[count++] = *type;
    feed_count = 1;
    feed_fill(&feeds[0], MR_PIXEL_GRAY8, FEED_FRAMES);
    mr_pipeline *pipeline = feeds_open(both, "  sharp: {type: sharpness, input: a}\n"
                                       "  noted: {type: note, input: sharp, device: 'sim:0'}\n"
                                       "  it: {type: 'null', input: noted}\n");
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", see_both, &seen), MR_OK);
    feeds_push(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(seen, FEED_FRAMES);
    feeds_free();
}

RUN_TESTS(NULL, NULL)

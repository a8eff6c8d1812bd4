/* The stages of classical features in pipelines: on the processor and on simulated accelerators, alone and in
 * batches, for pictures of several layouts, each frame has what the kernels make of its picture; and motion lets
 * through what it should. What the kernels make is compared with others' in tests/reference/classical.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/device/device.h"
#include "engine/flow/pipeline.h"
#include "kernels/classical.h"
#include "kernels/preprocess.h"
#include "millrace/millrace.h"
#include "tests/support/flow_stages.h"

enum { FRAMES = 30, WIDTH = 70, HEIGHT = 51, MOST_BYTES = 4 * 4096 };

/* ---- running a pipeline --------------------------------------------------------------------------------------- */

/* One source's pictures, and what of them arrived. */
typedef struct feed {
    mr_format format;
    uint8_t *block[FRAMES];
    int64_t pts_ns[FRAMES];
    size_t count;
    size_t arrived;
    uint64_t seq[FRAMES];
    size_t bytes[FRAMES];
    uint8_t data[FRAMES][MOST_BYTES];
} feed;

static feed feeds[2];
static const mr_stage_type *const *types; /* of pipelines */
static size_t feed_count;

static uint32_t random_state = 20261121;

static uint32_t draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static const uint8_t *plane_of(const feed *f, size_t frame, int plane, ptrdiff_t *stride) {
    const uint8_t *at = f->block[frame];
    for (int p = 0; p < plane; p++)
        at += mr_plane_row_bytes(f->format.pixel, p, f->format.width) *
              (size_t)mr_plane_rows(f->format.pixel, p, f->format.height);
    *stride = (ptrdiff_t)mr_plane_row_bytes(f->format.pixel, plane, f->format.width);
    return at;
}

static mr_picture picture_of(const feed *f, size_t frame) {
    mr_picture picture = {{NULL}, {0}};
    for (int p = 0; p < mr_pixel_describe(f->format.pixel)->planes; p++)
        picture.data[p] = plane_of(f, frame, p, &picture.stride[p]);
    return picture;
}

/* Random pictures: smooth enough that sizes matter, noisy enough that pixels do. */
static void fill_feed(feed *f, mr_pixel pixel, size_t count) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    *f = (feed){.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = WIDTH, .height = HEIGHT},
                .count = count};
    size_t bytes = 0;
    for (int p = 0; p < info->planes; p++)
        bytes += mr_plane_row_bytes(pixel, p, WIDTH) * (size_t)mr_plane_rows(pixel, p, HEIGHT);
    for (size_t i = 0; i < count; i++) {
        f->block[i] = malloc(bytes);
        f->pts_ns[i] = (int64_t)i * 40000000;
        for (size_t k = 0; k < bytes; k++)
            f->block[i][k] = info->depth > 8 && k % 2 ? (uint8_t)(draw() % 4) : (uint8_t)(draw() % 64 + k % 191);
    }
}

static void free_feeds(void) {
    for (size_t i = 0; i < feed_count; i++)
        for (size_t k = 0; k < feeds[i].count; k++)
            free(feeds[i].block[k]);
    feed_count = 0;
}

static void arrive(void *context, const char *source, const mr_frame *frame) {
    (void)context;
    feed *f = &feeds[source[0] == 'b'];
    const mr_result *result = mr_frame_result(frame, MR_RESULT_TENSOR, NULL);
    bool payload = frame->format.payload == MR_PAYLOAD_TENSOR;
    const mr_format *format = payload ? &frame->format : &result->format;
    size_t at = f->arrived++;
    assert_true(at < FRAMES && mr_tensor_bytes(format) <= MOST_BYTES);
    f->seq[at] = frame->identity.seq;
    f->bytes[at] = mr_tensor_bytes(format);
    memcpy(f->data[at], payload ? frame->plane[0].data : result->data, f->bytes[at]);
    /* Stages that only add to a frame leave it its picture. */
    if (!payload)
        assert_int_equal(frame->format.width, WIDTH);
}

static int open_pipeline(mr_pipeline **pipeline, const char *stages) {
    char text[4096], format[MR_FORMAT_TEXT];
    int used = snprintf(text, sizeof text, "version: 1\npipeline: test\nsources:\n");
    for (size_t i = 0; i < feed_count; i++) {
        const mr_format *f = &feeds[i].format;
        snprintf(format, sizeof format, "%s %dx%d", mr_pixel_describe(f->pixel)->name, f->width, f->height);
        used += snprintf(text + used, sizeof text - (size_t)used, "  %c: {type: push, format: %s}\n",
                         (char)('a' + (int)i), format);
    }
    snprintf(text + used, sizeof text - (size_t)used, "stages:\n%s  sink: {type: callback, input: it}\n", stages);
    const mr_pipeline_params params = {.types = types, .path = "extractors-test.yaml", .text = text, .workers = 2};
    mr_diagnostics wrong = {0};
    int status = mr_pipeline_open(pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    return status;
}

static int push_one(mr_pipeline *pipeline, const feed *f, const char *source, size_t frame) {
    mr_push push = {.format = f->format, .pts_ns = f->pts_ns[frame]};
    for (int p = 0; p < mr_pixel_describe(f->format.pixel)->planes; p++)
        push.data[p] = plane_of(f, frame, p, &push.stride[p]);
    return mr_pipeline_push(pipeline, source, &push, -1);
}

/* What became of all frames. */
typedef struct ledger {
    uint64_t delivered, dropped, absorbed;
} ledger;

/* What a run took lies under what was planned, and all of it was known. */
static void check_bounds(const mr_plan *plan, const mr_summary *summary) {
    assert_false(plan->host.unknown || plan->pinned.unknown);
    assert_in_range(summary->host_bytes, 0, plan->host.bytes);
    assert_in_range(summary->pinned_bytes, 0, plan->pinned.bytes);
    for (size_t i = 0; i < summary->device_count; i++)
        for (size_t d = 0; d < plan->device_count; d++)
            if (strcmp(plan->devices[d].name, summary->devices[i].name) == 0)
                assert_in_range(summary->devices[i].bytes, 1, plan->devices[d].memory.bytes);
}

/* What goes no further does so as still pictures in the stage `it`, or fails. */
static ledger account(mr_pipeline *pipeline) {
    mr_summary *summary = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    assert_true(summary->balanced);
    check_bounds(pipeline->plan, summary);
    assert_int_equal(mr_sim_misuses(), 0);
    for (size_t i = 0; i < summary->line_count; i++)
        if (summary->lines[i].outcome == MR_OUTCOME_ABSORBED) {
            assert_string_equal(summary->lines[i].stage, "it");
            assert_string_equal(summary->lines[i].reason, "still");
        }
    const ledger told = {summary->delivered, summary->dropped, summary->absorbed};
    mr_summary_destroy(&summary);
    return told;
}

/* Runs the pipeline on all feeds; the sources take turns. */
static void push_all(mr_pipeline *pipeline) {
    static const char *const names[] = {"a", "b"};
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (size_t frame = 0; frame < FRAMES; frame++)
        for (size_t i = 0; i < feed_count; i++)
            if (frame < feeds[i].count)
                assert_int_equal(push_one(pipeline, &feeds[i], names[i], frame), MR_OK);
    for (size_t i = 0; i < feed_count; i++)
        assert_int_equal(mr_pipeline_end(pipeline, names[i]), MR_OK);
    mr_pipeline_wait(pipeline, -1);
}

/* Runs `stages`, of which the last one is called `it`. */
static ledger run(const char *stages) {
    mr_pipeline *pipeline = NULL;
    for (size_t i = 0; i < feed_count; i++)
        feeds[i].arrived = 0;
    assert_int_equal(open_pipeline(&pipeline, stages), MR_OK);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", arrive, NULL), MR_OK);
    push_all(pipeline);
    const ledger told = account(pipeline);
    mr_pipeline_destroy(&pipeline);
    return told;
}

/* ---- features ------------------------------------------------------------------------------------------------- */

/* A small picture, as a stage should make it. */
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
    const mr_picture picture = picture_of(f, frame);
    mr_preprocess_run(plan, mr_kernels_get(), &picture, small, scratch);
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
    mr_hog_run(hog, mr_kernels_get(), small, (float *)(void *)want, scratch);
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

/* Of YUV in 8 bits the luma itself, stretched from limited range; of the others a gray picture of their size. */
static size_t expect_sharpness(const feed *f, size_t frame, uint8_t *want) {
    const mr_pixel_info *info = mr_pixel_describe(f->format.pixel);
    mr_sharpness_item item = {.src = f->block[frame], .stride = WIDTH, .width = WIDTH, .height = HEIGHT,
                              .scale = info->components == 3 ? (float)(255.0 / 219.0) : 1.0f,
                              .dst = (float *)(void *)want};
    uint8_t *gray = NULL;
    if (info->rgb || info->depth > 8 || f->format.pixel == MR_PIXEL_YA8) {
        gray = make_small(f, frame, (mr_preprocess_params){.width = WIDTH, .height = HEIGHT, .gray = true,
                                                           .interpolation = MR_AREA});
        item.src = gray;
        item.scale = 1.0f;
    }
    mr_sharpness(mr_kernels_get(), &item);
    free(gray);
    return sizeof(float);
}

static size_t expect_small(const feed *f, size_t frame, uint8_t *want) {
    uint8_t *small = make_small(f, frame, (mr_preprocess_params){.width = 31, .height = 17, .interpolation = MR_AREA});
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
    static uint8_t want[MOST_BYTES] __attribute__((aligned(64)));
    char stages[512];
    snprintf(stages, sizeof stages, "  it: {input: sources.*, %s%s}\n", feature->stage, how);
    const ledger told = run(stages);
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

/* GPUs only where there are any; those that the host plays are slow, and what else there is runs without them. */
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

/* Two sources of different layouts each time. More frames than one piece of work holds, in one batch. */
static void features_are_those_of_the_kernels(void **state) {
    (void)state;
    static const mr_pixel layouts[][2] = {{MR_PIXEL_I420, MR_PIXEL_RGB24}, {MR_PIXEL_NV12, MR_PIXEL_I420_10},
                                          {MR_PIXEL_GRAY8, MR_PIXEL_YA8}};
    static const char *const ways[] = {"", ", device: 'sim:0'", ", batch: {size: 4, timeout: 1ms}",
                                       ", batch: {size: 30, timeout: 1s}, device: 'sim:1'",
                                       ", device: ['sim:0', 'sim:1']",
                                       ", batch: {size: 30, timeout: 1s}, device: 'cuda:0'",
                                       ", device: ['cuda:0', 'cuda:1']"};
    for (size_t l = 0; l < LAYOUTS; l++) {
        feed_count = 2;
        fill_feed(&feeds[0], layouts[l][0], 9);
        fill_feed(&feeds[1], layouts[l][1], 21);
        for (size_t i = 0; i < FEATURES; i++)
            for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
                if (is_possible(ways[w]))
                    check_feature(&features[i], ways[w]);
        free_feeds();
    }
}

/* Results go with a frame past stages that make a new payload, and a batch far behind can hold all of them. */
static void results_go_along(void **state) {
    (void)state;
    feed_count = 1;
    fill_feed(&feeds[0], MR_PIXEL_I420, FRAMES);
    const ledger told = run("  sharp: {type: sharpness, input: a}\n"
                              "  hash: {type: phash, input: sharp, device: 'sim:0'}\n"
                              "  small: {type: preprocess, input: hash, size: 8}\n"
                              "  it: {type: classify, input: small, tensor: sharpness,\n"
                              "       batch: {size: 30, timeout: 10s}}\n");
    assert_int_equal(told.delivered, FRAMES);
    free_feeds();
}

/* A copy has numbers of its own: those that it was copied from may be another frame's by then. */
static void see_sharpness(void *context, const char *source, const mr_frame *frame) {
    float want, got;
    (void)source;
    const mr_result *sharp = mr_frame_result(frame, MR_RESULT_TENSOR, "sharp");
    expect_sharpness(&feeds[0], frame->identity.seq, (uint8_t *)&want);
    memcpy(&got, sharp->data, sizeof got);
    assert_true(want == got);
    assert_ptr_equal(sharp->data, sharp->classes);
    ++*(size_t *)context;
}

static void see_both(void *context, const char *source, const mr_frame *frame) {
    see_sharpness(context, source, frame);
    assert_non_null(mr_frame_result(frame, MR_RESULT_TENSOR, "noted")->buffer);
}

/* The frames that a join has put together are gone long before the sink sees what it made of them. */
static void joined_results_are_copies(void **state) {
    (void)state;
    size_t seen = 0;
    feed_count = 1;
    fill_feed(&feeds[0], MR_PIXEL_GRAY8, FRAMES);
    mr_pipeline *pipeline = NULL;
    assert_int_equal(open_pipeline(&pipeline, "  sharp: {type: sharpness, input: a}\n"
                                              "  small: {type: preprocess, input: a, size: 8}\n"
                                              "  both: {type: join, join: {small: small, sharp: sharp}}\n"
                                              "  it: {type: 'null', input: both}\n"), MR_OK);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", see_sharpness, &seen), MR_OK);
    push_all(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(seen, FRAMES);
    free_feeds();
}

/* `note` puts a tensor into its device's memory: with that, the frame's results are copied to the host. */
static void results_are_copied_with_others(void **state) {
    (void)state;
    const mr_stage_type *both[64] = {NULL};
    size_t count = 0, seen = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        both[count++] = *type;
    for (const mr_stage_type *const *type = flow_stage_types(); *type; type++)
        if (strcmp((*type)->name, "note") == 0)
            both[count++] = *type;
    types = both;
    feed_count = 1;
    fill_feed(&feeds[0], MR_PIXEL_GRAY8, FRAMES);
    mr_pipeline *pipeline = NULL;
    assert_int_equal(open_pipeline(&pipeline, "  sharp: {type: sharpness, input: a}\n"
                                              "  noted: {type: note, input: sharp, device: 'sim:0'}\n"
                                              "  it: {type: 'null', input: noted}\n"), MR_OK);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", see_both, &seen), MR_OK);
    push_all(pipeline);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(seen, FRAMES);
    free_feeds();
    types = mr_stage_types();
}

/* ---- motion --------------------------------------------------------------------------------------------------- */

/* A gray picture of one level, with `columns` columns on its left of another. */
static void paint(feed *f, size_t frame, int level, int columns, int other) {
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            f->block[frame][y * WIDTH + x] = (uint8_t)(x < columns ? other : level);
}

static void start_motion(size_t count) {
    feed_count = count;
    for (size_t i = 0; i < count; i++) {
        fill_feed(&feeds[i], MR_PIXEL_GRAY8, 10);
        for (size_t k = 0; k < 10; k++)
            paint(&feeds[i], k, 100, 0, 0);
    }
}

static void expect_through(const feed *f, size_t count, const uint64_t *seq, const float *share) {
    assert_int_equal(f->arrived, count);
    for (size_t i = 0; i < count; i++) {
        float got;
        memcpy(&got, f->data[i], sizeof got);
        assert_int_equal(f->seq[i], seq[i]);
        assert_true(got == share[i]);
    }
}

/* Pictures are compared in a size of their own, 70x51, pixel by pixel. */
static void check_gate(const char *device) {
    char stages[256];
    start_motion(2);
    paint(&feeds[0], 3, 100, 7, 115);  /* a tenth of the picture, by no more than the noise */
    paint(&feeds[0], 4, 100, 7, 116);  /* by more */
    paint(&feeds[0], 5, 100, 7, 116);  /* as the last one that was let through */
    paint(&feeds[0], 6, 100, 6, 116);  /* less than a tenth has changed */
    paint(&feeds[1], 1, 110, 0, 0);    /* slowly brighter: a step is noise, two are not */
    paint(&feeds[1], 2, 120, 0, 0);
    for (size_t k = 3; k < 10; k++)
        paint(&feeds[1], k, 120, 0, 0);
    snprintf(stages, sizeof stages, "  it: {type: motion, input: sources.*, size: 70x51, threshold: 0.1%s}\n",
             device);
    const ledger told = run(stages);
    expect_through(&feeds[0], 3, (const uint64_t[]){0, 4, 7}, (const float[]){1, 0.1f, 0.1f});
    expect_through(&feeds[1], 2, (const uint64_t[]){0, 2}, (const float[]){1, 1});
    assert_int_equal(told.absorbed, 15);
    free_feeds();
}

static void what_moves_goes_through(void **state) {
    (void)state;
    check_gate("");
    check_gate(", device: 'sim:0'");
    if (is_possible("cuda:0"))
        check_gate(", device: 'cuda:0'");
}

static void still_pictures_are_refreshed(void **state) {
    (void)state;
    start_motion(1);
    feeds[0].count = 7;
    const ledger told = run("  it: {type: motion, input: a, refresh: 80ms}\n");
    expect_through(&feeds[0], 4, (const uint64_t[]){0, 2, 4, 6}, (const float[]){1, 0, 0, 0});
    assert_int_equal(told.absorbed, 3);
    feeds[0].count = 10; /* of what is to be freed */
    free_feeds();
}

static void no_threshold_lets_all_through(void **state) {
    (void)state;
    start_motion(1);
    const ledger told = run("  it: {type: motion, input: a, threshold: 0}\n");
    assert_int_equal(feeds[0].arrived, 10);
    assert_int_equal(told.absorbed, 0);
    free_feeds();
}

/* Work that fails drops its frame, and the next one is compared with the last that went through. */
static void failures_are_accounted_for(void **state) {
    (void)state;
    start_motion(1);
    for (size_t k = 0; k < 10; k++)
        paint(&feeds[0], k, (int)k * 20, 0, 0);
    const ledger told = run("  it: {type: motion, input: a, device: 'sim:0?fail_every=5'}\n");
    assert_true(told.dropped > 0);
    assert_int_equal(told.delivered + told.dropped + told.absorbed, 10);
    free_feeds();
}

/* With one worker and simulated time: a call that waits for its device does not stop what is before and behind it.
 * The pictures of the null source are all alike. */
static void time_may_be_simulated(void **state) {
    (void)state;
    static const char text[] = "version: 1\npipeline: test\nsources:\n"
                               "  a: {type: 'null', format: GRAY8 64x48, frames: 40}\n"
                               "  b: {type: 'null', format: I420 64x48, frames: 25}\nstages:\n"
                               "  it: {type: motion, input: sources.*, size: 16, device: 'sim:0'}\n"
                               "  small: {type: histogram, input: it, size: 16, device: 'sim:1'}\n"
                               "  sink: {type: 'null', input: small}\n";
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const mr_pipeline_params params = {.types = mr_stage_types(), .path = "extractors-test.yaml", .text = text,
                                           .seed = seed};
        mr_pipeline *pipeline = NULL;
        mr_diagnostics wrong = {0};
        assert_int_equal(mr_pipeline_open(&pipeline, &params, &wrong), MR_OK);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
        const ledger told = account(pipeline);
        assert_int_equal(told.delivered, 2);
        assert_int_equal(told.absorbed, 63);
        mr_pipeline_destroy(&pipeline);
        mr_diagnostics_fini(&wrong);
    }
}

int main(void) {
    types = mr_stage_types();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_the_kernels), cmocka_unit_test(results_go_along),
        cmocka_unit_test(results_are_copied_with_others),
        cmocka_unit_test(joined_results_are_copies),
        cmocka_unit_test(what_moves_goes_through),           cmocka_unit_test(still_pictures_are_refreshed),
        cmocka_unit_test(no_threshold_lets_all_through),     cmocka_unit_test(failures_are_accounted_for),
        cmocka_unit_test(time_may_be_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

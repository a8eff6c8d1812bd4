/* The preprocess stage on a simulated accelerator. Enqueued work runs later, but uses the plan for that picture, even
 * if other pictures came in between. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "kernels/preprocess/preprocess.h"
#include "stages/image/resizer.h"
#include "stages/list.h"
#include "tests/support/suite.h"

enum { SIDE = 16, RESULTS = 3 * SIDE * SIDE };

static const char text[] =
    "version: 1\n"
    "pipeline: p\n"
    "sources:\n"
    "  empty: {type: \"null\", format: GRAY8 8x8, frames: 1}\n"
    "stages:\n"
    "  small: {type: preprocess, input: empty, size: 16, normalize: signed, antialias: false}\n"
    "  out: {type: \"null\", input: small}\n";

/* An instance as the engine would make it. The test starts the work on the device's stream. */
typedef struct instance {
    mr_plan *plan;
    mr_stage stage;
    mr_device *device;
    mr_stream *stream;
} instance;

static int open_instance(void **state) {
    instance *made = calloc(1, sizeof *made);
    mr_diagnostics diagnostics = {0};
    const mr_spec_params spec = {.types = mr_stage_types(), .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 1, .offline = true};
    if (mr_plan_load(&made->plan, &spec, &params, &diagnostics) < 0)
        mr_diagnostics_print(&diagnostics, stderr);
    assert_non_null(made->plan);
    const mr_plan_vertex *vertex = &made->plan->vertices[1];
    assert_string_equal(vertex->id, "small");
    made->stage = (mr_stage){.id = vertex->id, .type = &mr_preprocess_stage, .options = vertex->options,
                             .inputs = vertex->inputs, .outputs = vertex->formats,
                             .state = calloc(1, mr_preprocess_stage.state_bytes), .entries = 1};
    assert_int_equal(mr_preprocess_stage.open(&made->stage), MR_OK);
    const mr_sim_params sim = {.manual = true};
    assert_int_equal(mr_sim_create(&made->device, &sim), MR_OK);
    assert_int_equal(mr_stream_create(made->device, &made->stream), MR_OK);
    *state = made;
    return 0;
}

static int close_instance(void **state) {
    instance *made = *state;
    mr_stream_destroy(&made->stream);
    mr_preprocess_stage.close(&made->stage);
    mr_device_destroy(&made->device);
    mr_plan_destroy(&made->plan);
    free(made->stage.state);
    free(made);
    return 0;
}

/* Enqueues a gray picture with one value. The caller must keep planes and results until the device has finished. */
static int enqueue(instance *made, int width, int height, uint8_t *pixels, float *results) {
    mr_frame input = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = width,
                                 .height = height, .range = MR_RANGE_FULL}};
    input.plane[0].data = pixels;
    input.plane[0].stride = width;
    const mr_resizer_item item = {.picture = &input, .dst = results};
    return mr_resizer_enqueue(made->stage.state, made->stream, &item, 1);
}

TEST_WITH(the_plan_says_the_shape, open_instance, close_instance) {
    instance *made = *state;
    char line[MR_FORMAT_TEXT];
    assert_string_equal(mr_format_print(&made->plan->vertices[1].formats[0], line, sizeof line),
                        "tensor f32 3x16x16");
}

/* More picture sizes than cached plans, all in flight at once: none may lose its plan. (value - 127.5) / 127.5. */
TEST_WITH(many_sizes_in_flight, open_instance, close_instance) {
    enum { SIZES = 40 };
    instance *made = *state;
    static float results[SIZES][RESULTS];
    static uint8_t pixels[SIZES][SIZES * SIZES];
    memset(results, 0, sizeof results);
    for (int i = 0; i < SIZES; i++) {
        memset(pixels[i], 6 * i, sizeof pixels[i]);
        assert_int_equal(enqueue(made, i + 1, SIZES - i, pixels[i], results[i]), MR_OK);
    }
    assert_float_equal(results[SIZES - 1][0], 0.0, 0); /* no work has run yet */
    mr_sim_advance(made->device, INT64_MAX - 1);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < RESULTS; k++)
            assert_float_equal(results[i][k], (float)((6.0 * i - 127.5) / 127.5), 1e-6);
}

/* On the processor; the device must not allocate either. */
TEST_WITH(known_sizes_allocate_nothing, open_instance, close_instance) {
    instance *made = *state;
    static float results[RESULTS];
    static uint8_t pixels[64 * 64];
    mr_stream_destroy(&made->stream);
    assert_int_equal(mr_stream_create(mr_device_cpu(), &made->stream), MR_OK);
    uint64_t before = 0;
    for (int i = 0; i < 80; i++) {
        if (i == 40)
            before = mr_allocation_count();
        assert_int_equal(enqueue(made, 60 + i % 4, 60, pixels, results), MR_OK);
    }
    assert_int_equal(mr_allocation_count(), before);
}

TEST_WITH(a_picture_that_cannot_be_is_refused, open_instance, close_instance) {
    instance *made = *state;
    assert_int_equal(enqueue(made, 0, 5, NULL, NULL), MR_ERROR_DATA);
}

/* ---- bars ------------------------------------------------------------------------------------------------------- */

enum { WIDE = 8, GRAY = 100 };

/* A resizer to 16x16 with bars of 114, on the processor. */
typedef struct letterbox {
    mr_resizer resizer;
    mr_stream *stream;
    uint8_t pixels[SIDE * SIDE];
} letterbox;

static int open_letterbox(void **state) {
    letterbox *made = calloc(1, sizeof *made);
    const mr_preprocess_params params = {.width = SIDE, .height = SIDE, .fit = MR_FIT_LETTERBOX, .crop_fraction = 1,
                                         .pad = {114, 114, 114}, .std = {1, 1, 1}, .dtype = MR_DTYPE_F32,
                                         .layout = MR_LAYOUT_NCHW};
    assert_int_equal(mr_resizer_init(&made->resizer, &params), MR_OK);
    assert_int_equal(mr_stream_create(mr_device_cpu(), &made->stream), MR_OK);
    memset(made->pixels, GRAY, sizeof made->pixels);
    *state = made;
    return 0;
}

static int close_letterbox(void **state) {
    letterbox *made = *state;
    mr_stream_destroy(&made->stream);
    mr_resizer_fini(&made->resizer);
    free(made);
    return 0;
}

/* A gray picture of `width` x `height` in tensor and bars. */
static void put(letterbox *made, int width, int height, float *results, uint64_t *bars) {
    mr_frame input = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = width,
                                 .height = height, .range = MR_RANGE_FULL}};
    input.plane[0].data = made->pixels;
    input.plane[0].stride = width;
    const mr_resizer_item item = {.picture = &input, .dst = results, .bars = bars};
    assert_int_equal(mr_resizer_enqueue(&made->resizer, made->stream, &item, 1), MR_OK);
}

/* Whether row y, column x belongs to the picture: half as high or half as wide as the tensor. */
static bool is_inside(bool wide, int y, int x) {
    const int at = wide ? y : x;
    return at >= SIDE / 4 && at < SIDE / 4 + WIDE;
}

static void is_letterbox(const float *results, bool wide) {
    for (int i = 0; i < RESULTS; i++) {
        const int y = i / SIDE % SIDE, x = i % SIDE;
        assert_float_equal(results[i], is_inside(wide, y, x) ? GRAY : 114, 0);
    }
}

/* Pictures of one size in one buffer: bars are written once. */
TEST_WITH(bars_stay_in_a_buffer, open_letterbox, close_letterbox) {
    float results[RESULTS] = {0};
    uint64_t bars = 0;
    put(*state, SIDE, WIDE, results, &bars);
    is_letterbox(results, true);
    assert_true(bars != 0);
    results[SIDE] = -7;                 /* in the upper bar */
    results[SIDE * SIDE / 2 + 3] = -7;  /* in the picture */
    put(*state, SIDE, WIDE, results, &bars);
    assert_float_equal(results[SIDE], -7, 0);
    results[SIDE] = 114;
    is_letterbox(results, true);
}

/* Another size has other bars, and so does one whose plan was dropped in between. */
TEST_WITH(bars_of_other_sizes_are_replaced, open_letterbox, close_letterbox) {
    enum { OTHERS = 40 };
    float results[RESULTS] = {0}, others[RESULTS];
    uint64_t bars = 0, none;
    for (int i = 0; i < 4; i++) {
        put(*state, i % 2 ? WIDE : SIDE, i % 2 ? SIDE : WIDE, results, &bars);
        is_letterbox(results, i % 2 == 0);
    }
    results[0] = -7;
    for (int i = 0; i < OTHERS; i++) {
        none = 0;
        put(*state, 1 + i % 8, 1 + i / 8, others, &none);
    }
    put(*state, WIDE, SIDE, results, &bars);
    is_letterbox(results, false);
}

/* Who writes to the buffer forgets its bars, and so they are written again; without a mark always. */
TEST_WITH(forgotten_bars_are_written, open_letterbox, close_letterbox) {
    float results[RESULTS] = {0};
    uint64_t bars = 0;
    put(*state, SIDE, WIDE, results, &bars);
    for (int i = 0; i < 2; i++) {
        memset(results, 0, sizeof results);
        bars = 0;
        put(*state, SIDE, WIDE, results, i ? NULL : &bars);
        is_letterbox(results, true);
    }
}

/* A device works later: it always writes bars, and leaves the mark to whoever changes the buffer meanwhile. */
TEST_WITH(a_device_writes_bars_each_time, open_letterbox, close_letterbox) {
    letterbox *made = *state;
    float results[RESULTS] = {0};
    uint64_t bars = 0;
    mr_device *device = NULL;
    mr_stream *processor = made->stream;
    assert_int_equal(mr_sim_create(&device, &(mr_sim_params){.manual = true}), MR_OK);
    assert_int_equal(mr_stream_create(device, &made->stream), MR_OK);
    for (int i = 0; i < 2; i++) {
        memset(results, 0, sizeof results);
        put(made, SIDE, WIDE, results, &bars);
        mr_sim_advance(device, INT64_MAX - 1 - (i == 0));
        is_letterbox(results, true);
        assert_int_equal(bars, 0);
    }
    mr_stream_destroy(&made->stream);
    mr_device_destroy(&device);
    made->stream = processor;
}

RUN_TESTS(NULL, NULL)

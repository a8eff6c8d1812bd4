/* Pictures and tensors of the program: which sizes are refused, and memory whose rows lie bottom up or have gaps. */
#include "tests/support/suite.h"

#include <string.h>

#include "millrace/millrace.h"
#include "tests/support/opened.h"

enum { WIDTH = 5, HEIGHT = 3, PITCH = 8 };

static mr_pipeline *pushed_to(const char *format) {
    char text[256];
    snprintf(text, sizeof text, "version: 1\npipeline: pushed\nsources: {camera: {type: push, format: %s}}\n"
             "stages: {answers: {type: callback, input: camera}}\n", format);
    return opened(&(mr_pipeline_params){.types = mr_stage_types(), .path = "pushed.yaml", .text = text, .workers = 1});
}

static void release_one(void *context) {
    ++*(int *)context;
}

static void is_refused(mr_pipeline *pipeline, mr_format format) {
    static const uint8_t memory[64];
    int released = 0;
    for (int shared = 0; shared < 2; shared++) {
        const mr_push push = {.format = format, .data = {memory, memory, memory}, .stride = {PITCH, PITCH, PITCH},
                              .release = shared ? release_one : NULL, .context = &released};
        assert_int_equal(mr_pipeline_push(pipeline, "camera", &push, 0), MR_ERROR_DATA);
    }
    assert_int_equal(released, 0);
}

/* A stage divides by sizes, and in a planned format 0 stands for any. */
TEST(frames_without_a_size_are_refused) {
    static const int32_t sizes[][2] = {{0, HEIGHT}, {WIDTH, 0}, {0, 0}, {-WIDTH, HEIGHT}, {WIDTH, -HEIGHT}};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pictures = pushed_to("RGB24"), *planar = pushed_to("I420");
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *tensors = pushed_to("i64 2");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = sizes[i][0],
                            .height = sizes[i][1]};
        is_refused(pictures, format);
        format.pixel = MR_PIXEL_I420;
        is_refused(planar, format);
    }
    is_refused(tensors, mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (const int64_t[]){0}));
}

/* The rows that the frame must have, and where it may look for them. */
typedef struct expected {
    const uint8_t (*row)[PITCH];
    bool upside_down;
    int seen;
} expected;

static void compare(void *context, const char *source, const mr_frame *frame) {
    expected *all = context;
    const mr_plane *plane = &frame->plane[0];
    for (int y = 0; y < HEIGHT; y++)
        assert_memory_equal(plane->data + y * plane->stride, all->row[all->upside_down ? HEIGHT - 1 - y : y], WIDTH);
    assert_int_equal(plane->bytes, plane->stride == WIDTH ? HEIGHT * WIDTH : (HEIGHT - 1) * PITCH + WIDTH);
    all->seen++;
}

/* The last row ends where the memory may: a plane's bytes are those that belong to it. */
TEST(rows_may_lie_bottom_up_and_have_gaps) {
    static const uint8_t memory[HEIGHT][PITCH] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}};
    int released = 0;
    for (int upside_down = 0; upside_down < 2; upside_down++) {
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = pushed_to("GRAY8");
        expected all = {.row = memory, .upside_down = upside_down};
        assert_int_equal(mr_pipeline_subscribe(pipeline, "answers", compare, &all), MR_OK);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        for (int shared = 0; shared < 2; shared++) {
            const mr_push push = {
                .format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = WIDTH, .height = HEIGHT},
                .data = {memory[upside_down ? HEIGHT - 1 : 0]}, .stride = {upside_down ? -PITCH : PITCH},
                .release = shared ? release_one : NULL, .context = &released};
            assert_int_equal(mr_pipeline_push(pipeline, "camera", &push, -1), MR_OK);
        }
        assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
        assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
        assert_int_equal(all.seen, 2);
    }
    assert_int_equal(released, 2);
}

RUN_TESTS(NULL, NULL)

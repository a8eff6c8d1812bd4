/* Which pixels belong to an object, in each layout, and where its picture's pixels lie in the source. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/objects/cascade/cutout.h"
#include "stages/sink/still_encoder.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { WIDTH = 37, HEIGHT = 23 };

/* A picture in which every byte tells its place. */
static mr_frame picture_of(mr_pixel pixel, mr_buffer **buffer) {
    mr_frame frame = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = WIDTH, .height = HEIGHT}};
    const size_t bytes = mr_format_bytes(&frame.format);
    *buffer = mr_buffer_alloc(bytes);
    assert_non_null(*buffer);
    for (size_t i = 0; i < bytes; i++)
        (*buffer)->data[i] = (uint8_t)(draw() & 0xff);
    mr_lay_out(&frame.format, MR_ROW_ALIGNMENT, (*buffer)->data, frame.plane);
    frame.geometry = mr_geometry_of(&frame.format);
    return frame;
}

static mr_object box(double left, double top, double right, double bottom) {
    return (mr_object){.left = (float)left, .top = (float)top, .right = (float)right, .bottom = (float)bottom};
}

static void expect(const mr_frame *picture, const mr_object *object, double expand, int32_t left, int32_t top,
                   int32_t right, int32_t bottom) {
    mr_cutout cutout;
    assert_true(mr_cutout_of(picture, object, expand, &cutout));
    assert_int_equal(cutout.left, left);
    assert_int_equal(cutout.top, top);
    assert_int_equal(cutout.right, right);
    assert_int_equal(cutout.bottom, bottom);
}

TEST(boxes_become_pixels) {
    ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
    mr_frame picture = picture_of(MR_PIXEL_RGB24, &buffer);
    const mr_object exact = box(3, 4, 9, 11), between = box(3.2, 4.9, 9.01, 10.5), beyond = box(-5, -5, 99, 99);
    const mr_object none[] = {box(40, 3, 50, 9), box(-9, 3, -1, 9), box(3, 5, 3, 9), box(NAN, 1, 5, 5),
                              box(1, 1, INFINITY, 5), box(9, 9, 3, 9)};
    mr_cutout cutout;
    expect(&picture, &exact, 0, 3, 4, 9, 11);
    expect(&picture, &between, 0, 3, 4, 10, 11);
    expect(&picture, &beyond, 0, 0, 0, WIDTH, HEIGHT);
    expect(&picture, &exact, 0.5, 0, 0, 12, 15);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(mr_cutout_of(&picture, &none[i], 0, &cutout));
}

TEST(chroma_stays_whole) {
    ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
    const mr_object odd = box(3, 5, 8, 10), corner = box(35, 21, 37, 23);
    mr_frame picture = picture_of(MR_PIXEL_I420, &buffer);
    expect(&picture, &odd, 0, 2, 4, 8, 10);
    expect(&picture, &corner, 0, 34, 20, WIDTH, HEIGHT); /* the last column and row have a sample of their own */
    mr_buffer_unref(&buffer);
    picture = picture_of(MR_PIXEL_I422, &buffer);
    expect(&picture, &odd, 0, 2, 5, 8, 10);
    mr_buffer_unref(&buffer);
    picture = picture_of(MR_PIXEL_I440, &buffer);
    expect(&picture, &odd, 0, 3, 4, 8, 10);
}

/* The value of a component at a pixel of the picture. */
static unsigned sample(const mr_frame *picture, int component, int32_t x, int32_t y) {
    const mr_pixel_info *info = mr_pixel_describe(picture->format.pixel);
    const mr_component *at = &info->component[component];
    const mr_plane *plane = &picture->plane[at->plane];
    if (component > 0) {
        x >>= info->chroma_w;
        y >>= info->chroma_h;
    }
    const uint8_t *data = plane->data + y * plane->stride + (ptrdiff_t)x * at->step + at->offset;
    assert_true(data < plane->data + plane->bytes);
    return info->depth > 8 ? data[0] | (unsigned)data[1] << 8 : data[0];
}

/* In all layouts, each pixel of the object's picture is the pixel of the whole one in that place. */
TEST(pixels_are_the_same) {
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        for (int round = 0; round < 50; round++) {
            ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
            mr_frame whole = picture_of((mr_pixel)pixel, &buffer), part = whole;
            const double left = between(0, WIDTH * 4) / 4.0, top = between(0, HEIGHT * 4) / 4.0;
            const mr_object object = box(left, top, left + between(1, 60) / 4.0, top + between(1, 60) / 4.0);
            mr_cutout cutout;
            if (mr_cutout_of(&whole, &object, 0, &cutout)) {
                mr_cutout_show(&whole, &cutout, &part);
                assert_int_equal(part.format.width, cutout.right - cutout.left);
                assert_int_equal(part.format.height, cutout.bottom - cutout.top);
                for (int c = 0; c < mr_pixel_describe((mr_pixel)pixel)->components; c++)
                    for (int32_t y = 0; y < part.format.height; y++)
                        for (int32_t x = 0; x < part.format.width; x++)
                            assert_int_equal(sample(&part, c, x, y),
                                             sample(&whole, c, x + cutout.left, y + cutout.top));
            }
        }
}

/* A program's picture may have its last row first in memory. */
TEST(pictures_may_lie_bottom_up) {
    ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
    const mr_cutout cutout = {4, 6, 20, 10};
    mr_frame picture = picture_of(MR_PIXEL_GRAY8, &buffer), part;
    mr_plane *plane = &picture.plane[0];
    const ptrdiff_t stride = plane->stride;
    *plane = (mr_plane){.data = plane->data + (HEIGHT - 1) * stride, .stride = -stride,
                        .bytes = (size_t)((HEIGHT - 1) * stride + WIDTH)};
    part = picture;
    mr_cutout_show(&picture, &cutout, &part);
    assert_ptr_equal(part.plane[0].data, buffer->data + (HEIGHT - 1 - 6) * stride + 4);
    assert_int_equal(part.plane[0].bytes, (HEIGHT - 1 - 6) * stride + WIDTH - 4);
    for (int32_t y = 0; y < part.format.height; y++)
        assert_memory_equal(part.plane[0].data + y * part.plane[0].stride,
                            picture.plane[0].data + (y + cutout.top) * picture.plane[0].stride + cutout.left, 16);
}

/* Pictures are stored unturned: a box of the shown picture finds its pixels there, and they lead back to the box. */
TEST(turned_and_mirrored) {
    for (int turn = 0; turn < 8; turn++) {
        ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
        mr_frame picture = picture_of(MR_PIXEL_RGB24, &buffer), part = picture;
        picture.format.rotation = (int16_t)(turn % 4 * 90);
        picture.format.flip = turn >= 4;
        picture.geometry = mr_geometry_of(&picture.format);
        const mr_object object = box(2, 3, 9, 8);
        mr_cutout cutout;
        assert_true(mr_cutout_of(&picture, &object, 0, &cutout));
        assert_int_equal((cutout.right - cutout.left) * (cutout.bottom - cutout.top), 7 * 5);
        mr_cutout_show(&picture, &cutout, &part);
        double a[2], b[2];
        mr_geometry_to_display(&part.geometry, 0, 0, a);
        mr_geometry_to_display(&part.geometry, part.format.width, part.format.height, b);
        assert_float_equal(fmin(a[0], b[0]), 2, 1e-9);
        assert_float_equal(fmax(a[0], b[0]), 9, 1e-9);
        assert_float_equal(fmin(a[1], b[1]), 3, 1e-9);
        assert_float_equal(fmax(a[1], b[1]), 8, 1e-9);
    }
}

/* A part in the last corner has no pixels after it: libswscale may read there, and the memory must be there. */
TEST(parts_in_the_last_corner_are_encoded) {
    ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
    mr_frame picture = picture_of(MR_PIXEL_RGB24, &buffer);
    ENDED_BY(mr_still_encoder_close) mr_still_encoder encoder = {.choices = {.kind = MR_STILL_PNG}};
    const size_t packed = (size_t)WIDTH * 3 * HEIGHT;
    mr_lay_out(&picture.format, 1, buffer->data + buffer->bytes - packed, picture.plane);
    for (int32_t side = 1; side < 9; side++) {
        uint8_t *data = NULL;
        size_t bytes = 0;
        mr_frame part = picture;
        mr_cutout_show(&picture, &(mr_cutout){WIDTH - side, HEIGHT - side, WIDTH, HEIGHT}, &part);
        assert_int_equal(mr_still_encode(&encoder, &part, &data, &bytes), MR_OK);
        assert_true(bytes > 8 && memcmp(data, "\x89PNG", 4) == 0);
        mr_free(data);
    }
}

/* Colours that depend on a picture's size are those of the whole picture. */
TEST(colours_stay) {
    mr_frame whole = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 1280, .height = 720}};
    mr_frame part = whole;
    whole.geometry = mr_geometry_of(&whole.format);
    mr_cutout_show(&whole, &(mr_cutout){0, 0, 64, 64}, &part);
    assert_int_equal(mr_format_matrix(&part.format), MR_MATRIX_BT709);
    assert_int_equal(mr_format_range(&part.format), MR_RANGE_LIMITED);
}

RUN_TESTS(NULL, NULL)

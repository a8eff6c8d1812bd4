/* Corners of lines of text, in order and within the picture. */
#include <math.h>
#include <string.h>

#include "stages/objects/quad.h"
#include "tests/support/suite.h"

static const mr_format picture = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = 100, .height = 50};

static bool place(const float corner[MR_QUAD_NUMBERS], float quad[MR_QUAD_NUMBERS], mr_object *object) {
    const mr_geometry way = mr_geometry_of(&picture);
    return mr_quad_place(&way, true, corner, object, quad);
}

static void expect(const float corner[MR_QUAD_NUMBERS], const float wanted[MR_QUAD_NUMBERS]) {
    float quad[MR_QUAD_NUMBERS];
    mr_object object = {0};
    assert_true(place(corner, quad, &object));
    for (int i = 0; i < MR_QUAD_NUMBERS; i++)
        assert_float_equal(quad[i], wanted[i], 1e-4);
}

/* Clockwise from the upper left, whichever corner came first. */
TEST(corners_are_put_in_order) {
    expect((const float[]){40, 30, 20, 34, 18, 14, 38, 10}, (const float[]){18, 14, 38, 10, 40, 30, 20, 34});
    expect((const float[]){18, 14, 20, 34, 40, 30, 38, 10}, (const float[]){18, 14, 38, 10, 40, 30, 20, 34});
}

/* Three corners in line, or all four: no picture can be made upright from them, so those of the box are taken. */
TEST(corners_in_line_become_a_box) {
    const float box[] = {0, 10, 20, 10, 20, 40, 0, 40};
    expect((const float[]){-5, 10, 20, 25, -8, 40, -9, 20}, box); /* the edge cuts three of them */
    expect((const float[]){0, 10, 0, 40, 20, 20, 10, 25}, box);
    expect((const float[]){10, 10, 15, 15, 20, 20, 30, 30}, (const float[]){10, 10, 30, 10, 30, 30, 10, 30});
}

/* Corners on one line along the axes have no area; numbers that are none are within the picture. */
TEST(what_has_no_area_is_left) {
    static const float flat[][MR_QUAD_NUMBERS] = {
        {10, 10, 20, 10, 30, 10, 40, 10}, {-9, 1, -8, 2, -7, 30, -6, 40}, {5, 5, 5, 5, 5, 5, 5, 5},
        {1e30f, 1e30f, 2e30f, 1e30f, 2e30f, 3e30f, 1e30f, 3e30f}};
    float quad[MR_QUAD_NUMBERS];
    mr_object object;
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        assert_false(place(flat[i], quad, &object));
    place((const float[]){NAN, 5, INFINITY, 5, -INFINITY, 40, 3, NAN}, quad, &object);
    for (int i = 0; i < MR_QUAD_NUMBERS; i++)
        assert_true(quad[i] >= 0 && quad[i] <= (i % 2 ? 50 : 100));
}

RUN_TESTS(NULL, NULL)

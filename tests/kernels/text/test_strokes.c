/* Characters and turned words, drawn with rectangles, in pictures of any layout. */
#include <string.h>

#include "kernels/text/strokes.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { WIDTH = 20, HEIGHT = 40 };

/* Rows with ink: first and one past the last; 0, 0: none. */
typedef struct drawing {
    int row[3][2];
    bool at_edge, one;
} drawing;

static const drawing drawings[] = {
    {.row = {{5, 35}}, .one = true},                     /* I */
    {.row = {{5, 9}, {12, 35}}, .one = true},            /* i */
    {.row = {{5, 28}, {32, 36}}, .one = true},           /* ! */
    {.row = {{5, 18}, {22, 35}}, .one = false},          /* two letters */
    {.row = {{5, 12}, {14, 35}}, .one = false},          /* a short one, and a long one */
    {.row = {{4, 13}, {15, 24}, {26, 35}}, .one = false},
    {.row = {{5, 35}}, .at_edge = true, .one = false},   /* cut, or a pattern */
    {.one = false},                                      /* empty */
};

static uint8_t bytes[3 * 2 * WIDTH * HEIGHT];

static void set(const mr_format *format, const mr_plane *plane, int x, int y, int light) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    const mr_component *part = &info->component[info->rgb ? 1 : 0];
    uint8_t *to = plane[part->plane].data + part->offset + y * plane[part->plane].stride + x * part->step;
    const int value = info->depth > 8 ? light << (info->depth - 8) << info->shift : light;
    to[0] = (uint8_t)value;
    if (info->depth > 8)
        to[1] = (uint8_t)(value >> 8);
}

static void paint(const drawing *of, const mr_format *format, const mr_plane *plane, int paper, int ink) {
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            bool inked = false;
            for (int i = 0; i < 3 && (of->at_edge || (x > 6 && x < 13)); i++)
                inked |= y >= of->row[i][0] && y < of->row[i][1];
            set(format, plane, x, y, (inked ? ink : paper) + (x + y) % 5);
        }
}

static bool look(const mr_format *format, const mr_plane *plane) {
    static const double corner[4][2] = {{0, 0}, {WIDTH, 0}, {WIDTH, HEIGHT}, {0, HEIGHT}};
    mr_plane_map map;
    assert_true(mr_plane_map_make(&map, corner, corner));
    return mr_strokes_are_one(&map, WIDTH, HEIGHT, format, plane);
}

TEST(characters_and_words) {
    static const mr_pixel pixels[] = {MR_PIXEL_GRAY8, MR_PIXEL_RGB24, MR_PIXEL_P010};
    for (size_t i = 0; i < sizeof drawings / sizeof *drawings; i++)
        for (size_t k = 0; k < sizeof pixels / sizeof *pixels; k++) {
            const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixels[k], .width = WIDTH,
                                      .height = HEIGHT};
            const mr_plane plane[MR_MAX_PLANES] = {{.data = bytes, .stride = (k == 1 ? 3 : k == 2 ? 2 : 1) * WIDTH}};
            paint(&drawings[i], &format, plane, 230, 20);
            assert_int_equal(look(&format, plane), drawings[i].one);
            paint(&drawings[i], &format, plane, 30, 200);
            assert_int_equal(look(&format, plane), drawings[i].one);
        }
}

/* Faint ink is none, as is noise. */
TEST(what_is_not_known) {
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = WIDTH, .height = HEIGHT};
    const mr_plane plane[MR_MAX_PLANES] = {{.data = bytes, .stride = WIDTH}};
    paint(&drawings[0], &format, plane, 100, 110);
    assert_false(look(&format, plane));
    for (size_t i = 0; i < WIDTH * HEIGHT; i++)
        bytes[i] = (uint8_t)between(0, 255);
    assert_false(look(&format, plane));
}

/* Pictures of one pixel, and large ones, of which some pixels are looked at. */
TEST(sizes) {
    static uint8_t large[400 * 1000];
    static const double corner[4][2] = {{0, 0}, {400, 0}, {400, 1000}, {0, 1000}};
    const mr_plane plane[MR_MAX_PLANES] = {{.data = large, .stride = 400}};
    mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = 1, .height = 1};
    mr_plane_map map;
    assert_true(mr_plane_map_make(&map, corner, corner));
    memset(large, 255, sizeof large);
    assert_false(mr_strokes_are_one(&map, 1, 1, &format, plane));
    assert_false(mr_strokes_are_one(&map, 400, 1000, &format, plane));
    format.width = 400;
    format.height = 1000;
    for (int y = 100; y < 900; y++)
        memset(large + y * 400 + 150, 0, 100);
    assert_true(mr_strokes_are_one(&map, 400, 1000, &format, plane));
    memset(large + 500 * 400, 255, 20 * 400);
    assert_false(mr_strokes_are_one(&map, 400, 1000, &format, plane));
}

RUN_TESTS(NULL, NULL)

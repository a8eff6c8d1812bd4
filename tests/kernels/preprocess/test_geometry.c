/* Maps tensor pixels back to source pixels. The test draws a mark at a known place, finds it in the tensor by the
 * centroid, and maps it back. It never computes where the mark should be in the tensor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/preprocess/preprocess_enqueue.h"
#include "millrace/status.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { CASES = 3000, MOST_SIDE = 240, MOST_REDUCED_SIDE = 1000 };

typedef struct mark {
    int x, y, side; /* in pixels of the whole stored picture */
} mark;

/* Draws a gray picture as a decoder gives it. It is whole, or each pixel is the mean of 2^reduced pixels on each
 * axis. */
static void draw_picture(uint8_t *pixels, const mr_format *format, const mark *m) {
    const int step = 1 << format->reduced;
    for (int y = 0; y < format->height; y++)
        for (int x = 0; x < format->width; x++) {
            int inside = 0;
            for (int k = 0; k < step * step; k++) {
                int at_x = x * step + k % step - m->x, at_y = y * step + k / step - m->y;
                inside += at_x >= 0 && at_x < m->side && at_y >= 0 && at_y < m->side;
            }
            pixels[y * format->width + x] = (uint8_t)(240 * inside / (step * step));
        }
}

/* Returns false if the tensor does not show the whole mark. */
static bool find_centroid(const float *tensor, int width, int height, double at[2]) {
    double sum = 0;
    at[0] = at[1] = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const double value = tensor[y * width + x];
            const bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
            if (edge && fabs(value) > 1e-3)
                return false;
            sum += value;
            at[0] += value * (x + 0.5);
            at[1] += value * (y + 0.5);
        }
    at[0] /= sum;
    at[1] /= sum;
    return sum > 240;
}

/* A region of interest cuts at most a fifth from each side, and never the mark. */
static mr_preprocess_params draw_params(const mr_format *format, int width, int height) {
    const int most = format->reduced ? 32 : 120;
    mr_preprocess_params params = {.width = between(24, most), .height = between(24, most),
                                   .fit = (mr_fit)between(0, 2), .crop_fraction = between(5, 10) / 10.0,
                                   .interpolation = (mr_interpolation)between(0, 3), .antialias = true,
                                   .rotate = draw() % 4, .sar = draw() % 4, .gray = true, .top_left = draw() % 2,
                                   .std = {1, 1, 1}, .dtype = MR_DTYPE_F32, .layout = MR_LAYOUT_NCHW};
    const bool turned = params.rotate && format->rotation % 180;
    const int across = turned ? height : width, down = turned ? width : height;
    if (draw() % 3 == 0) {
        params.roi.x = between(0, across / 5);
        params.roi.y = between(0, down / 5);
        params.roi.width = between(across * 4 / 5, across) - params.roi.x;
        params.roi.height = between(down * 4 / 5, down) - params.roi.y;
    }
    return params;
}

static mr_format draw_format(void) {
    static const int aspects[][2] = {{0, 0}, {1, 1}, {4, 3}, {2, 1}, {1, 2}};
    const int *aspect = aspects[between(0, 4)], reduced = draw() % 3 ? 0 : between(2, 3);
    const int least = reduced ? 800 : 100, most = reduced ? MOST_REDUCED_SIDE : MOST_SIDE;
    const int width = between(least, most), height = between(least, most);
    return (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8,
                       .width = (width + (1 << reduced) - 1) >> reduced,
                       .height = (height + (1 << reduced) - 1) >> reduced,
                       .sar_num = aspect[0], .sar_den = aspect[1], .rotation = (int16_t)(90 * between(0, 3)),
                       .flip = draw() % 2, .reduced = (uint8_t)reduced, .whole_width = reduced ? width : 0,
                       .whole_height = reduced ? height : 0};
}

/* Returns the centroid's tolerance in source pixels, if a tensor pixel covers `span` source pixels. Filters are inexact
 * at edges: a tenth of a pixel in the tensor, or in the picture. `nearest` takes one sample, maybe at the edge. An
 * enlarging `area` takes one near the centre. */
static double tolerance(const mr_preprocess_params *params, double span) {
    const double larger = fmax(span, 1);
    if (params->interpolation == MR_NEAREST)
        return span + 0.01;
    return (params->interpolation == MR_AREA && span < 1 ? 0.5 : 0.1) * larger;
}

/* Returns whether the mark was found. */
static bool check_case(void) {
    static uint8_t pixels[MOST_REDUCED_SIDE / 4 * MOST_REDUCED_SIDE / 4];
    static float tensor[120 * 120];
    const mr_format format = draw_format();
    const int width = format.reduced ? format.whole_width : format.width;
    const int height = format.reduced ? format.whole_height : format.height;
    const mr_preprocess_params params = draw_params(&format, width, height);
    const int side = format.reduced ? between(80, 160) : between(12, 24);
    const mark m = {between(width / 3, width / 2), between(height / 3, height / 2), side};
    const mr_picture picture = {{pixels}, {format.width}};
    mr_preprocess *plan = NULL;
    double at[2], back[2];
    draw_picture(pixels, &format, &m);
    assert_int_equal(mr_preprocess_create(&plan, &params, &format), MR_OK);
    void *scratch = aligned_alloc(64, (mr_preprocess_scratch_bytes(plan) + 63) / 64 * 64);
    mr_preprocess_rows rows;
    mr_preprocess_rows_init(&rows, 0);
    mr_preprocess_run(plan, &rows, &picture, tensor, scratch);
    const mr_geometry source = mr_geometry_of(&format);
    const mr_geometry way = mr_geometry_chain(mr_preprocess_geometry(plan), &source);
    const bool found = find_centroid(tensor, params.width, params.height, at);
    if (found) {
        mr_geometry_to_source(&way, at[0], at[1], back);
        const double span_x = fabs(way.x[0]) + fabs(way.x[1]), span_y = fabs(way.y[0]) + fabs(way.y[1]);
        if (fabs(back[0] - (m.x + m.side / 2.0)) > tolerance(&params, span_x) ||
            fabs(back[1] - (m.y + m.side / 2.0)) > tolerance(&params, span_y))
            fail_msg("%dx%d of %dx%d, rotation %d, flip %d, reduced %d, fit %d, interpolation %d: %.2f,%.2f leads to "
                     "%.2f,%.2f and not to %.1f,%.1f", params.width, params.height, width, height, format.rotation,
                     format.flip, format.reduced, params.fit, params.interpolation, at[0], at[1], back[0], back[1],
                     m.x + m.side / 2.0, m.y + m.side / 2.0);
    }
    double shown[2], place[2];
    mr_geometry_to_display(&way, at[0], at[1], shown);
    assert_true(!found || mr_geometry_from_display(&way, shown[0], shown[1], place));
    assert_true(!found || fabs(place[0] - at[0]) + fabs(place[1] - at[1]) < 1e-6);
    assert_int_equal(way.width, params.width);
    assert_int_equal(way.height, params.height);
    assert_int_equal(way.source_width, width);
    assert_int_equal(way.source_height, height);
    free(scratch);
    mr_preprocess_destroy(&plan);
    return found;
}

TEST(marks_lead_back_to_where_they_were_drawn) {
    int found = 0;
    random_state = seed;
    for (int i = 0; i < CASES; i++)
        found += check_case();
    assert_in_range(found, CASES / 3, CASES);
}

RUN_TESTS(NULL, NULL)

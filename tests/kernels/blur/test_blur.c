/* Hiding areas of pictures, on random pictures of all layouts, against a direct way: for each sample the largest area
 * that covers one of its pixels, and from that the mean of the cell's hidden samples. Samples outside stay as they
 * are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/blur/blur_picture.h"
#include "tests/support/on_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

enum { MOST = 8 };

static uint64_t random_state;

static int between(int low, int high) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int)((random_state >> 33) % (uint64_t)(high - low + 1));
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct picture {
    mr_format format;
    mr_plane plane[MR_MAX_PLANES];
    size_t bytes;
    uint8_t *data, *before;
} picture;

/* Random bytes, also between the rows; 16-bit words stay within the depth. */
static picture draw_picture(void) {
    picture p = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = (mr_pixel)between(1, MR_PIXEL_COUNT - 1),
                            .width = between(1, 90), .height = between(1, 70)}};
    const mr_pixel_info *info = mr_pixel_describe(p.format.pixel);
    p.bytes = mr_format_bytes(&p.format);
    p.data = malloc(p.bytes);
    p.before = malloc(p.bytes);
    const unsigned mask = info->depth > 8 ? ((1u << info->depth) - 1) << info->shift : 0xffff;
    for (size_t i = 0; i < p.bytes; i += 2) {
        const unsigned word = (unsigned)between(0, 0xffff) & mask;
        p.data[i] = (uint8_t)word;
        if (i + 1 < p.bytes)
            p.data[i + 1] = (uint8_t)(word >> 8);
    }
    memcpy(p.before, p.data, p.bytes);
    mr_lay_out(&p.format, MR_ROW_ALIGNMENT, p.data, p.plane);
    return p;
}

static void free_picture(picture *p) {
    free(p->data);
    free(p->before);
}

static int sample(const picture *p, const uint8_t *bytes, int component, int x, int y) {
    const mr_pixel_info *info = mr_pixel_describe(p->format.pixel);
    const mr_component *c = &info->component[component];
    const uint8_t *at = bytes + (p->plane[c->plane].data - p->data) + y * p->plane[c->plane].stride + c->offset +
                        (ptrdiff_t)x * c->step;
    return info->depth > 8 ? (at[0] | at[1] << 8) >> info->shift : at[0];
}

/* ---- the direct way ---------------------------------------------------------------------------------------------- */

/* How a case hides. */
typedef struct way {
    mr_blur_how how;
    bool ellipse;
} way;

static bool hides(const mr_blur_area *a, const way *w, int x, int y, int log2_x, int log2_y) {
    const double width = a->oval_right - a->oval_left, height = a->oval_bottom - a->oval_top;
    for (int py = y << log2_y; py < (y + 1) << log2_y; py++)
        for (int px = x << log2_x; px < (x + 1) << log2_x; px++) {
            const double dx = (px + 0.5 - a->oval_left) / width * 2 - 1;
            const double dy = (py + 0.5 - a->oval_top) / height * 2 - 1;
            if (px >= a->left && px < a->right && py >= a->top && py < a->bottom &&
                (!w->ellipse || dx * dx + dy * dy <= 1 + 1e-12))
                return true;
        }
    return false;
}

/* The first area that hides the sample; NULL: none does. */
static const mr_blur_area *hider(const mr_blur_areas *areas, const way *w, int x, int y, int log2_x, int log2_y) {
    for (int i = 0; i < areas->count; i++)
        if (hides(&areas->item[i], w, x, y, log2_x, log2_y))
            return &areas->item[i];
    return NULL;
}

/* The mean of a cell's hidden samples. It is counted from the area's corner. -1: none is hidden. */
static double mean_of(const picture *p, const mr_blur_area *a, const way *w, int component, int column, int row,
                      int log2_x, int log2_y) {
    const int left = a->left + column * a->cell, top = a->top + row * a->cell;
    const int right = left + a->cell < a->right ? left + a->cell : a->right;
    const int bottom = top + a->cell < a->bottom ? top + a->cell : a->bottom;
    double sum = 0, count = 0;
    for (int y = top >> log2_y; y << log2_y < bottom; y++)
        for (int x = left >> log2_x; x << log2_x < right; x++)
            if (hides(a, w, x, y, log2_x, log2_y)) {
                sum += sample(p, p->before, component, x, y);
                count++;
            }
    return count > 0 ? sum / count : -1;
}

/* The means of the cells. Those outside the ellipse have the mean of the others. */
static void measure(const picture *p, const mr_blur_area *a, const way *w, int component, int log2_x, int log2_y,
                    double *mean) {
    double sum = 0, count = 0;
    for (int i = 0; i < a->rows * a->columns; i++) {
        mean[i] = mean_of(p, a, w, component, i % a->columns, i / a->columns, log2_x, log2_y);
        sum += mean[i] < 0 ? 0 : mean[i];
        count += mean[i] >= 0;
    }
    for (int i = 0; i < a->rows * a->columns; i++)
        mean[i] = mean[i] < 0 ? sum / count : mean[i];
}

static int held(int value, int most) {
    return value < 0 ? 0 : value > most ? most : value;
}

/* The smoothed mean of a cell: each weighs by its distance. */
static double smoothed(const mr_blur_area *a, const double *mean, int column, int row) {
    double sum = 0, all = 0;
    for (int dy = -12; dy <= 12; dy++)
        for (int dx = -12; dx <= 12; dx++) {
            const double weight = exp(-(dx * dx + dy * dy) / 31.5);
            sum += weight * mean[held(row + dy, a->rows - 1) * a->columns + held(column + dx, a->columns - 1)];
            all += weight;
        }
    return sum / all;
}

static double interpolated(const mr_blur_area *a, const double *mean, int x, int y, int log2_x, int log2_y) {
    const double u = ((x - (a->left >> log2_x)) + 0.5) / (a->cell >> log2_x) - 0.5;
    const double v = ((y - (a->top >> log2_y)) + 0.5) / (a->cell >> log2_y) - 0.5;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        const double column = floor(u) + i % 2, row = floor(v) + i / 2;
        const double share = (1 - fabs(u - column)) * (1 - fabs(v - row));
        if (share > 0)
            sum += share * smoothed(a, mean, held((int)column, a->columns - 1), held((int)row, a->rows - 1));
    }
    return sum;
}

/* Gaussian only: the value may differ by the rounding of cells, weights and shares. */
static void check_value(const picture *p, const mr_blur_area *a, const way *w, int component, int x, int y) {
    const mr_pixel_info *info = mr_pixel_describe(p->format.pixel);
    const bool chroma = component > 0 && !info->rgb;
    const int log2_x = chroma ? info->chroma_w : 0, log2_y = chroma ? info->chroma_h : 0;
    const int got = sample(p, p->data, component, x, y);
    if (!a) {
        assert_int_equal(got, sample(p, p->before, component, x, y));
    } else if (w->how == MR_BLUR_FILL) {
        const bool limited = !info->rgb && info->components > 1;
        assert_int_equal(got, chroma ? 1 << (info->depth - 1) : limited ? 16 << (info->depth - 8) : 0);
    } else if (w->how == MR_BLUR_PIXELATE) {
        const double mean = mean_of(p, a, w, component, (x - (a->left >> log2_x)) / (a->cell >> log2_x),
                                    (y - (a->top >> log2_y)) / (a->cell >> log2_y), log2_x, log2_y);
        assert_true(fabs(got - mean) <= 0.502);
    } else {
        double mean[MR_BLUR_TABLE];
        measure(p, a, w, component, log2_x, log2_y, mean);
        const double value = interpolated(a, mean, x, y, log2_x, log2_y);
        assert_true(fabs(got - value) <= 0.6 + (1 << info->depth) / 250.0);
    }
}

static void check(const picture *p, const mr_blur_areas *areas, const way *w) {
    const mr_pixel_info *info = mr_pixel_describe(p->format.pixel);
    for (int k = 0; k < info->components; k++) {
        const bool chroma = k > 0 && !info->rgb;
        const int log2_x = chroma ? info->chroma_w : 0, log2_y = chroma ? info->chroma_h : 0;
        for (int y = 0; y << log2_y < p->format.height; y++)
            for (int x = 0; x << log2_x < p->format.width; x++)
                check_value(p, hider(areas, w, x, y, log2_x, log2_y), w, k, x, y);
    }
}

/* Bytes between and after the rows, and alpha. */
static void check_rest(const picture *p) {
    const mr_pixel_info *info = mr_pixel_describe(p->format.pixel);
    FREED uint8_t *mask = calloc(1, p->bytes);
    for (int k = 0; k < info->components; k++) {
        const mr_component *c = &info->component[k];
        const bool chroma = k > 0 && !info->rgb;
        for (int y = 0; y << (chroma ? info->chroma_h : 0) < p->format.height; y++)
            for (int x = 0; x << (chroma ? info->chroma_w : 0) < p->format.width; x++)
                memset(mask + (p->plane[c->plane].data - p->data) + y * p->plane[c->plane].stride + c->offset +
                           (ptrdiff_t)x * c->step, 1, info->depth > 8 ? 2 : 1);
    }
    for (size_t i = 0; i < p->bytes; i++)
        assert_true(mask[i] || p->data[i] == p->before[i]);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static mr_blur_areas *draw_areas(const picture *p, mr_blur_how how) {
    mr_blur_areas *areas = calloc(1, mr_blur_areas_bytes(MOST));
    const int count = between(0, MOST);
    for (int i = 0; i < count; i++) {
        const double corner[2] = {between(-200, 1000) / 10.0, between(-200, 800) / 10.0};
        const double opposite[2] = {corner[0] + between(-300, 600) / 10.0, corner[1] + between(-300, 600) / 10.0};
        mr_blur_add(areas, &p->format, how == MR_BLUR_PIXELATE ? between(1, MR_BLUR_CELLS) : MR_BLUR_CELLS, corner,
                    opposite);
    }
    for (int i = 1; i < areas->count; i++) {
        const mr_blur_area *a = &areas->item[i - 1], *b = &areas->item[i];
        assert_true(fmax(a->right - a->left, a->bottom - a->top) >= fmax(b->right - b->left, b->bottom - b->top));
    }
    return areas;
}

static void run_case(on_device *d, uint64_t seed) {
    random_state = seed;
    ENDED_BY(free_picture) picture p = draw_picture();
    const mr_blur_how how = (mr_blur_how)between(0, 2);
    const way w = {how, between(0, 1)};
    FREED mr_blur_areas *areas = draw_areas(&p, how);
    mr_plane there[MR_MAX_PLANES];
    uint8_t *data = on_device_put(d, p.data, p.bytes);
    FREED int32_t *table = malloc(mr_blur_table_bytes(MOST));
    memset(table, 0x55, mr_blur_table_bytes(MOST));
    mr_blur_work work = {.how = (int32_t)how, .ellipse = w.ellipse, .most = MOST,
                         .areas = on_device_put(d, areas, mr_blur_areas_bytes(MOST)),
                         .table = on_device_put(d, table, mr_blur_table_bytes(MOST))};
    mr_lay_out(&p.format, MR_ROW_ALIGNMENT, data, there);
    mr_blur_describe(&work, &p.format, there);
    assert_int_equal(mr_blur_enqueue(d->stream, &work), MR_OK);
    on_device_take(d, data, p.data, p.bytes);
    check(&p, areas, &w);
    check_rest(&p);
    on_device_free(d, (void *)(uintptr_t)work.areas);
    on_device_free(d, work.table);
}

static void run_cases(on_device *d) {
    for (uint64_t seed = 1; seed <= UNDER_TSAN(40, UNDER_ASAN(80, 150)); seed++)
        run_case(d, seed);
}

PLAIN_TEST(areas_on_the_processors) {
    on_device_test("cpu", run_cases);
}

DEVICE_TEST(areas_on_a_device) {
    run_cases(d);
}

/* ---- how a box becomes an area ----------------------------------------------------------------------------------- */

static mr_blur_area area_of(mr_pixel pixel, int width, int height, int32_t cells, double left, double top,
                            double right, double bottom) {
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = width, .height = height};
    mr_blur_areas *areas = calloc(1, mr_blur_areas_bytes(1));
    mr_blur_add(areas, &format, cells, (double[2]){left, top}, (double[2]){right, bottom});
    const mr_blur_area area = areas->count ? areas->item[0] : (mr_blur_area){0};
    free(areas);
    return area;
}

static void assert_area(mr_blur_area a, int left, int top, int right, int bottom, int cell) {
    assert_int_equal(a.left, left);
    assert_int_equal(a.top, top);
    assert_int_equal(a.right, right);
    assert_int_equal(a.bottom, bottom);
    assert_int_equal(a.cell, cell);
}

PLAIN_TEST(boxes_are_rounded_outward_to_whole_chroma_samples) {
    assert_area(area_of(MR_PIXEL_I420, 99, 77, 6, 10.9, 11, 40.1, 31.5), 10, 10, 42, 32, 6);
    assert_area(area_of(MR_PIXEL_I422, 99, 77, 6, 10.9, 11, 40.1, 31.5), 10, 11, 42, 32, 6);
    assert_area(area_of(MR_PIXEL_RGB24, 99, 77, 6, 10.9, 11, 40.1, 31.5), 10, 11, 41, 32, 6);
    assert_area(area_of(MR_PIXEL_I420, 99, 77, MR_BLUR_CELLS, 80, 60, 1e9, 1e30), 80, 60, 99, 77, 2);
}

/* At the edge of a picture the ellipse is cut, and not pressed into what is left. */
PLAIN_TEST(ellipses_reach_beyond_the_picture) {
    const mr_blur_area a = area_of(MR_PIXEL_I420, 99, 77, MR_BLUR_CELLS, -20.5, 60, 20, 90.5);
    assert_area(a, 0, 60, 20, 77, 2);
    assert_int_equal(a.oval_left, -22);
    assert_int_equal(a.oval_top, 60);
    assert_int_equal(a.oval_right, 20);
    assert_int_equal(a.oval_bottom, 92);
}

PLAIN_TEST(boxes_outside_hide_nothing) {
    assert_int_equal(area_of(MR_PIXEL_I420, 99, 77, MR_BLUR_CELLS, 99, 10, 120, 20).right, 0);
    assert_int_equal(area_of(MR_PIXEL_I420, 99, 77, MR_BLUR_CELLS, -20, 10, -0.1, 20).right, 0);
    assert_int_equal(area_of(MR_PIXEL_RGB24, 99, 77, MR_BLUR_CELLS, 5, 7, 5, 20).right, 0);
}

RUN_TESTS(NULL, NULL)

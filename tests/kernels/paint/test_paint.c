/* Painting on pictures in every layout, odd sizes and padded rows: mr_paint must equal a loop over all pixels of the
 * picture, and a CUDA device must equal mr_paint. Bytes between and after rows must stay. MILLRACE_SEED repeats a
 * run. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/paint/paint_cuda.h"
#include "kernels/paint/paint_pixel.h"
#include "millrace/status.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST /* a CUDA device that the host plays is slow */
#define MILLRACE_CASES 3
#else
#define MILLRACE_CASES 40
#endif

enum { CASES = MILLRACE_CASES, MOST_SIDE = 70, ITEMS = 12, STENCILS = 4096, MOST_CORNERS = 9, BYTES = 4 * 4 * 96 * 80 };

/* A picture with items, and three copies of its bytes. */
typedef struct scene {
    mr_format format;
    mr_frame frame;
    mr_paint_work work;
    mr_paint_item items[ITEMS];
    uint8_t stencils[STENCILS];
    uint8_t before[BYTES], painted[BYTES], wanted[BYTES];
} scene;

static void draw_bytes(uint8_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)draw();
}

/* Some of them lie far outside. */
static void draw_corners(scene *s, mr_paint_item *item) {
    const int far = draw() % 4 ? 16 : 1 << 16;
    int32_t corners[2 * MOST_CORNERS];
    item->columns = between(1, MOST_CORNERS);
    item->at = 4 * (draw() % ((STENCILS - sizeof corners) / 4));
    for (int32_t i = 0; i < 2 * item->columns; i++)
        corners[i] = between(-20 * far, 100 * far);
    memcpy(s->stencils + item->at, corners, sizeof corners[0] * 2 * (size_t)item->columns);
}

static void draw_item(scene *s, mr_paint_item *item) {
    const int width = s->format.width, height = s->format.height;
    *item = (mr_paint_item){.kind = between(0, 3), .opacity = (uint16_t)(draw() % 2 ? 255 : between(1, 254))};
    item->left = between(0, width - 1);
    item->top = between(0, height - 1);
    item->right = between(item->left + 1, width);
    item->bottom = between(item->top + 1, height);
    for (int i = 0; i < 3; i++)
        item->code[i] = (uint16_t)(draw() % (1u << mr_pixel_describe(s->format.pixel)->depth));
    item->x0 = (float)between(-200, 3000) / 16;
    item->y0 = (float)between(-200, 3000) / 16;
    item->x1 = draw() % 4 ? (float)between(-200, 3000) / 16 : item->x0;
    item->y1 = draw() % 4 ? (float)between(-200, 3000) / 16 : item->y0;
    item->radius = (float)between(1, 100) / 16;
    item->columns = between(1, 40);
    item->rows = between(1, 40);
    item->at = draw() % (uint32_t)(STENCILS - item->columns * item->rows);
    for (int i = 0; i < 3; i++) {
        item->u[i] = between(-3 * 65536, 3 * 65536);
        item->v[i] = between(-3 * 65536, 3 * 65536);
    }
    if (item->kind == MR_PAINT_POLYGON)
        draw_corners(s, item);
    if (item->kind == MR_PAINT_RECTANGLE) { /* the hole may be none, or reach beyond */
        item->u[1] = (item->u[0] = between(-3, width)) + between(0, width);
        item->v[1] = (item->v[0] = between(-3, height)) + between(0, height);
    }
}

static void draw_scene(scene *s, mr_pixel pixel) {
    s->format = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = between(1, MOST_SIDE),
                            .height = between(1, MOST_SIDE)};
    s->frame = (mr_frame){.format = s->format};
    memset(&s->work, 0, sizeof s->work);
    assert_in_range(mr_lay_out(&s->format, (size_t)between(1, 32), s->painted, s->frame.plane), 1, BYTES);
    draw_bytes(s->before, BYTES);
    draw_bytes(s->stencils, STENCILS);
    s->work = (mr_paint_work){.items = s->items, .stencils = s->stencils, .count = between(1, ITEMS),
                              .right = s->format.width, .bottom = s->format.height};
    s->work.target = mr_paint_target_of(&s->frame);
    for (int i = 0; i < s->work.count; i++)
        draw_item(s, &s->items[i]);
}

static uint32_t read_sample(const uint8_t *at, const mr_pixel_info *info) {
    return info->depth <= 8 ? *at : (uint32_t)(at[0] | at[1] << 8) >> info->shift;
}

static void write_sample(uint8_t *at, const mr_pixel_info *info, uint32_t value) {
    at[0] = (uint8_t)(info->depth <= 8 ? value : value << info->shift);
    if (info->depth > 8)
        at[1] = (uint8_t)(value << info->shift >> 8);
}

/* One sample, as if there were no other. */
static void want_sample(scene *s, const mr_paint_item *item, int component, int32_t x, int32_t y) {
    const mr_pixel_info *info = mr_pixel_describe(s->format.pixel);
    const mr_component *c = &info->component[component];
    const int32_t wide = component ? 1 << info->chroma_w : 1, high = component ? 1 << info->chroma_h : 1;
    uint32_t sum = 0, pixels = 0;
    for (int32_t py = y * high; py < (y + 1) * high && py < s->format.height; py++)
        for (int32_t px = x * wide; px < (x + 1) * wide && px < s->format.width; px++, pixels++)
            sum += mr_paint_cover(item, s->stencils, px, py);
    const mr_plane *plane = &s->frame.plane[c->plane];
    uint8_t *at = s->wanted + (plane->data - s->painted) + y * plane->stride + x * c->step + c->offset;
    const double cover = floor((double)sum / pixels + 0.5) / 255;
    if (cover > 0)
        write_sample(at, info,
                     (uint32_t)floor(read_sample(at, info) * (1 - cover) + item->code[component] * cover + 0.5));
}

static void want(scene *s) {
    const mr_pixel_info *info = mr_pixel_describe(s->format.pixel);
    for (int i = 0; i < s->work.count; i++)
        for (int c = 0; c < info->components; c++)
            for (int32_t y = 0; y << (c ? info->chroma_h : 0) < s->format.height; y++)
                for (int32_t x = 0; x << (c ? info->chroma_w : 0) < s->format.width; x++)
                    want_sample(s, &s->items[i], c, x, y);
}

static void compare(const scene *s) {
    for (size_t i = 0; i < BYTES; i++)
        if (s->painted[i] != s->wanted[i])
            fail_msg("%s %dx%d: byte %zu is %d and not %d, seed %llu",
                     mr_pixel_describe(s->format.pixel)->name, s->format.width, s->format.height, i, s->painted[i],
                     s->wanted[i], (unsigned long long)seed);
}

#ifdef MILLRACE_HAS_CUDA
#include <cuda_runtime_api.h>

static void *uploaded(const void *from, size_t bytes) {
    void *to = NULL;
    assert_int_equal(cudaMalloc(&to, bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return to;
}

static bool has_device(void) {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

static void paint_on_device(scene *s) {
    mr_paint_work work = s->work;
    uint8_t *pixels = uploaded(s->before, BYTES);
    void *items = uploaded(s->items, sizeof s->items), *stencils = uploaded(s->stencils, STENCILS);
    work.items = items;
    work.stencils = stencils;
    for (int i = 0; i < MR_MAX_PLANES; i++)
        work.target.data[i] = work.target.data[i] ? pixels + (s->frame.plane[i].data - s->painted) : NULL;
    assert_int_equal(mr_paint_cuda(&work, NULL), MR_OK);
    assert_int_equal(cudaMemcpy(s->painted, pixels, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    cudaFree(pixels);
    cudaFree(items);
    cudaFree(stencils);
}
#else
static bool has_device(void) {
    return false;
}

static void paint_on_device(scene *s) {
}
#endif

static void check_all(bool on_device) {
    FREED scene *s = calloc(1, sizeof *s);
    for (int i = 0; i < CASES; i++) {
        for (mr_pixel pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++) {
            draw_scene(s, pixel);
            memcpy(s->painted, s->before, BYTES);
            memcpy(s->wanted, s->before, BYTES);
            want(s);
            if (on_device)
                paint_on_device(s);
            else
                assert_int_equal(mr_paint(&s->work), MR_OK);
            compare(s);
        }
    }
}

TEST(all_layouts_equal_a_loop_over_all_pixels) {
    check_all(false);
}

TEST(a_device_paints_the_same) {
    if (!has_device())
        skip();
    check_all(true);
}

/* Against the distance in double precision. */
TEST(lines_cover_what_is_near_them) {
    for (int i = 0; i < 20000; i++) {
        const mr_paint_item line = {.kind = MR_PAINT_LINE, .right = 4000, .bottom = 4000, .opacity = 255,
                                    .x0 = (float)between(0, 64000) / 16, .y0 = (float)between(0, 64000) / 16,
                                    .x1 = (float)between(0, 64000) / 16, .y1 = (float)between(0, 64000) / 16,
                                    .radius = (float)between(1, 80) / 16};
        const double dx = (double)line.x1 - (double)line.x0, dy = (double)line.y1 - (double)line.y0;
        const double along = draw() % 1000 / 999.0;
        const int32_t x = (int32_t)((double)line.x0 + along * dx) + between(-5, 5);
        const int32_t y = (int32_t)((double)line.y0 + along * dy) + between(-5, 5);
        if (x < 0 || y < 0 || x >= 4000 || y >= 4000)
            continue;
        const double px = x + 0.5 - (double)line.x0, py = y + 0.5 - (double)line.y0, square = dx * dx + dy * dy;
        const double t = square > 0 ? fmin(fmax((px * dx + py * dy) / square, 0), 1) : 0;
        const double away = hypot(px - t * dx, py - t * dy);
        const double cover = 255 * fmin(fmax((double)line.radius + 0.5 - away, 0), 1);
        assert_true(fabs(mr_paint_cover(&line, NULL, x, y) - cover) < 1.0);
    }
}

/* Whether the edge from a to b crosses the ray that begins at x, y and leads to the right: by the side of the edge. */
static bool crosses(const int32_t *a, const int32_t *b, int64_t x, int64_t y) {
    const int64_t side = ((int64_t)b[0] - a[0]) * (y - a[1]) - (x - a[0]) * ((int64_t)b[1] - a[1]);
    return (a[1] <= y && b[1] > y && side > 0) || (b[1] <= y && a[1] > y && side < 0);
}

/* Corners are at odd sixteenths; the centres of pixels, at even ones, are never on one. */
TEST(polygons_cover_what_is_inside) {
    int32_t corners[2 * MOST_CORNERS], covered = 0;
    for (int i = 0; i < 20000; i++) {
        const mr_paint_item item = {.kind = MR_PAINT_POLYGON, .right = 4000, .bottom = 4000, .opacity = 255,
                                    .columns = between(3, MOST_CORNERS)};
        for (int k = 0; k < 2 * item.columns; k++)
            corners[k] = 2 * between(-8000, 24000) + 1;
        const int32_t x = between(0, 3000), y = between(0, 3000);
        bool inside = false;
        for (int k = 0; k < item.columns; k++)
            inside ^= crosses(corners + 2 * k, corners + 2 * ((k + 1) % item.columns), 16 * x + 8, 16 * y + 8);
        assert_int_equal(mr_paint_cover(&item, (const uint8_t *)corners, x, y), inside ? 255 : 0);
        covered += inside;
    }
    assert_in_range(covered, 2000, 18000);
}

RUN_TESTS(NULL, NULL)

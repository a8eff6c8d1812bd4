#include "kernels/paint/paint.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/paint/paint_pixel.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

mr_paint_target mr_paint_target_of(const mr_frame *frame) {
    const mr_pixel_info *info = mr_pixel_describe(frame->format.pixel);
    mr_paint_target target;
    memset(&target, 0, sizeof target);
    target.width = frame->format.width;
    target.height = frame->format.height;
    target.components = info->components;
    target.chroma_w = info->chroma_w;
    target.chroma_h = info->chroma_h;
    target.depth = info->depth;
    target.shift = info->shift;
    memcpy(target.component, info->component, sizeof target.component);
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        target.data[i] = frame->plane[i].data;
        target.stride[i] = frame->plane[i].stride;
    }
    return target;
}

/* Columns of a row, from `from` up to `to`. */
typedef struct span {
    int32_t from, to;
} span;

/* The columns in which a line may touch a row. If it is steep, only a part of it is near the row. */
static span line_span(const mr_paint_item *item, int32_t y) {
    const float reach = item->radius + 1.5f, middle = (float)y + 0.5f;
    const float dx = item->x1 - item->x0, dy = item->y1 - item->y0;
    float begin = 0, end = 1;
    if (fabsf(dy) > 1e-3f) {
        const float a = (middle - reach - item->y0) / dy, b = (middle + reach - item->y0) / dy;
        begin = fminf(fmaxf(fminf(a, b), 0), 1);
        end = fminf(fmaxf(fmaxf(a, b), 0), 1);
    }
    const float x0 = item->x0 + begin * dx, x1 = item->x0 + end * dx;
    const float least = floorf(fminf(x0, x1) - reach), most = ceilf(fmaxf(x0, x1) + reach);
    span s = {item->left, item->right};
    s.from = least > (float)s.from ? (int32_t)fminf(least, (float)s.to) : s.from;
    s.to = most < (float)s.to ? (int32_t)fmaxf(most, (float)s.from) : s.to;
    return s;
}

/* `s` cut to `bounds`. */
static span within(span s, span bounds) {
    s.from = s.from > bounds.from ? s.from : bounds.from;
    s.to = s.to < bounds.to ? s.to : bounds.to;
    return s.from < s.to ? s : (span){bounds.from, bounds.from};
}

static span span_of(const mr_paint_item *item, int32_t y) {
    if (y < item->top || y >= item->bottom)
        return (span){item->left, item->left};
    return item->kind == MR_PAINT_LINE ? line_span(item, y) : (span){item->left, item->right};
}

/* ---- coverage of the pixel rows of one chroma row ---------------------------------------------------------------- */

/* `cover` stands for column 0 of the first row; each row has `stride` bytes. `samples`: the coverage of chroma samples
 * beside them, which is `cover` itself without subsampling. */
typedef struct covered {
    uint8_t *cover, *samples;
    size_t stride;
    span each[2], chroma;
    int32_t rows;
} covered;

static void cover_rectangle(const mr_paint_item *item, span s, int32_t y, uint8_t *cover) {
    const span hole = within((span){item->u[0], item->u[1]}, s);
    memset(cover + s.from, item->opacity, (size_t)(s.to - s.from));
    if (y >= item->v[0] && y < item->v[1])
        memset(cover + hole.from, 0, (size_t)(hole.to - hole.from));
}

/* Each edge switches the pixels left of it. `cover` is zeroed. */
static void cover_polygon(const mr_paint_item *item, const uint8_t *stencils, span s, int32_t y, uint8_t *cover) {
    const uint8_t opacity = (uint8_t)item->opacity;
    int32_t column;
    for (int32_t i = 0; i < item->columns; i++) {
        if (!mr_paint_polygon_edge(item, stencils, i, y, &column))
            continue;
        for (int32_t x = s.from; x < column && x < s.to; x++)
            cover[x] ^= opacity;
    }
}

/* A cell for each pixel, not turned, as letters are. */
static bool is_plain(const mr_paint_item *item) {
    return item->kind == MR_PAINT_STENCIL && item->opacity == 255 && item->u[1] == 65536 && item->u[2] == 0 &&
           item->v[1] == 0 && item->v[2] == 65536;
}

static void cover_row(const mr_paint_item *item, const uint8_t *stencils, span s, int32_t y, uint8_t *cover) {
    const int32_t column = (item->u[0] >> 16) + s.from - item->left, row = (item->v[0] >> 16) + y - item->top;
    if (item->kind == MR_PAINT_RECTANGLE)
        cover_rectangle(item, s, y, cover);
    else if (item->kind == MR_PAINT_POLYGON)
        cover_polygon(item, stencils, s, y, cover);
    else if (is_plain(item) && column >= 0 && column + s.to - s.from <= item->columns && row >= 0 && row < item->rows)
        memcpy(cover + s.from, stencils + item->at + (ptrdiff_t)row * item->columns + column, (size_t)(s.to - s.from));
    else
        for (int32_t x = s.from; x < s.to; x++)
            cover[x] = (uint8_t)mr_paint_cover(item, stencils, x, y);
}

/* Averages four pixels for each sample. */
static void average_quarters(span s, const uint8_t *upper, const uint8_t *lower, uint8_t *samples) {
    for (int32_t x = s.from; x < s.to; x++)
        samples[x] = (uint8_t)((upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1] + 2) / 4);
}

static void average(const mr_paint_target *t, const covered *c) {
    const bool whole = c->chroma.to << t->chroma_w <= t->width;
    if (t->chroma_w == 1 && c->rows == 2 && whole) {
        average_quarters(c->chroma, c->cover, c->cover + c->stride, c->samples);
        return;
    }
    for (int32_t x = c->chroma.from; x < c->chroma.to; x++) {
        const int32_t first = x << t->chroma_w, end = first + (1 << t->chroma_w);
        const int32_t last = end < t->width ? end : t->width;
        uint32_t sum = 0;
        for (int32_t r = 0; r < c->rows; r++)
            for (int32_t i = first; i < last; i++)
                sum += c->cover[(size_t)r * c->stride + (size_t)i];
        c->samples[x] = (uint8_t)mr_paint_average(sum, (uint32_t)((last - first) * c->rows));
    }
}

static span join(span a, span b) {
    if (a.from >= a.to || b.from >= b.to)
        return a.from >= a.to ? b : a;
    return (span){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

/* Computes the coverage within `bounds`; rows begin with `first`. */
static void cover_rows(const mr_paint_work *work, const mr_paint_item *item, int32_t first, span bounds, covered *c) {
    const mr_paint_target *t = &work->target;
    const int32_t end = first + (1 << t->chroma_h);
    span all = {0, 0};
    c->rows = (end < t->height ? end : t->height) - first;
    for (int32_t r = 0; r < c->rows; r++)
        all = join(all, c->each[r] = within(span_of(item, first + r), bounds));
    c->chroma = all.from < all.to ? (span){all.from >> t->chroma_w, ((all.to - 1) >> t->chroma_w) + 1} : (span){0, 0};
    const int32_t from = c->chroma.from << t->chroma_w, to = c->chroma.to << t->chroma_w;
    for (int32_t r = 0; r < c->rows && from < to; r++) {
        uint8_t *row = c->cover + (size_t)r * c->stride;
        memset(row + from, 0, (size_t)(to - from));
        cover_row(item, work->stencils, c->each[r], first + r, row);
    }
    if (t->components == 3 && c->samples != c->cover)
        average(t, c);
}

/* ---- blending ---------------------------------------------------------------------------------------------------- */

static void blend_bytes(uint8_t *restrict to, const uint8_t *restrict cover, int32_t count, uint8_t code) {
    for (int32_t x = 0; x < count; x++)
        to[x] = mr_paint_blend8(to[x], code, cover[x]);
}

enum { AHEAD = 12 }; /* rows */

/* Blends a row of one component: sample x as covered. */
static void blend_row(const mr_paint_target *t, int component, int32_t y, span s, uint32_t code,
                      const uint8_t *cover) {
    const mr_component *c = &t->component[component];
    uint8_t *row = t->data[c->plane] + y * t->stride[c->plane] + c->offset;
    /* Each row of a narrow shape is in another page, which processors do not foresee. */
    __builtin_prefetch((const void *)((uintptr_t)(row + (ptrdiff_t)s.from * c->step) +
                                      (uintptr_t)(AHEAD * t->stride[c->plane])), 1);
    if (t->depth <= 8 && c->step == 1)
        blend_bytes(row + s.from, cover + s.from, s.to - s.from, (uint8_t)code);
    else
        for (int32_t x = s.from; x < s.to; x++)
            mr_paint_sample(row + (ptrdiff_t)x * c->step, t->depth, t->shift, code, cover[x]);
}

static void blend_rows(const mr_paint_target *t, const mr_paint_item *item, int32_t first, const covered *c) {
    for (int32_t r = 0; r < c->rows; r++)
        blend_row(t, 0, first + r, c->each[r], item->code[0], c->cover + (size_t)r * c->stride);
    for (int i = 1; i < t->components; i++)
        blend_row(t, i, first >> t->chroma_h, c->chroma, item->code[i], c->samples);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* Rows with equal coverage: of rectangles, those beside a hole, and those above and below. */
enum { ROWS_DIFFER, ROWS_FULL, ROWS_WITH_HOLE };

static int kind_of_rows(const mr_paint_target *t, const mr_paint_item *item, int32_t first) {
    const int32_t end = first + (1 << t->chroma_h);
    const bool hole = item->v[0] < item->v[1] && item->u[0] < item->u[1];
    if (item->kind != MR_PAINT_RECTANGLE || first < item->top || end > item->bottom)
        return ROWS_DIFFER;
    if (!hole || end <= item->v[0] || first >= item->v[1])
        return ROWS_FULL;
    return first >= item->v[0] && end <= item->v[1] ? ROWS_WITH_HOLE : ROWS_DIFFER;
}

/* Paints the columns within `bounds`. */
static void paint_columns(const mr_paint_work *work, const mr_paint_item *item, int32_t from, int32_t to, span bounds,
                          covered *c) {
    const int32_t step = 1 << work->target.chroma_h;
    int last = ROWS_DIFFER;
    for (int32_t y = from / step * step; y < to; y += step) {
        const int kind = kind_of_rows(&work->target, item, y);
        if (kind == ROWS_DIFFER || kind != last)
            cover_rows(work, item, y, bounds, c);
        last = kind;
        blend_rows(&work->target, item, y, c);
    }
}

/* The rows that are wholly beside the hole are painted left and right of it only. */
static void paint_item(const mr_paint_work *work, const mr_paint_item *item, covered *c) {
    const mr_paint_target *t = &work->target;
    const int32_t step = 1 << t->chroma_h, mask = (1 << t->chroma_w) - 1;
    const span all = {item->left, item->right}, hole = {(item->u[0] + mask) & ~mask, item->u[1] & ~mask};
    const int32_t first = (item->v[0] + step - 1) / step * step, end = item->v[1] / step * step;
    const bool within_item = first >= item->top && end <= item->bottom && hole.from >= item->left &&
                             hole.to <= item->right;
    if (item->kind != MR_PAINT_RECTANGLE || hole.from >= hole.to || first >= end || !within_item) {
        paint_columns(work, item, item->top, item->bottom, all, c);
        return;
    }
    paint_columns(work, item, item->top, first, all, c);
    paint_columns(work, item, first, end, (span){item->left, hole.from}, c);
    paint_columns(work, item, first, end, (span){hole.to, item->right}, c);
    paint_columns(work, item, end, item->bottom, all, c);
}

int mr_paint(const mr_paint_work *work) {
    const mr_paint_target *t = &work->target;
    const size_t stride = ((size_t)t->width + 1 + 63) / 64 * 64;
    covered c = {.cover = mr_scratch(3 * stride), .stride = stride};
    if (!c.cover)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory to draw in");
    c.samples = t->chroma_w || t->chroma_h ? c.cover + 2 * stride : c.cover;
    for (int32_t i = 0; i < work->count; i++)
        paint_item(work, &work->items[i], &c);
    return MR_OK;
}

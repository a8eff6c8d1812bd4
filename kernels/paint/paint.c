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

/* Rows of one component that are covered alike: sample x as cover[x]. Those in `solid` are wholly covered. */
typedef struct stripe {
    int component;
    int32_t y, rows;
    span samples, solid;
    uint32_t code;
    const uint8_t *cover;
} stripe;

static void blend_bytes(uint8_t *restrict to, const uint8_t *restrict cover, int32_t count, uint8_t code) {
    for (int32_t x = 0; x < count; x++)
        to[x] = mr_paint_blend8(to[x], code, cover[x]);
}

/* Lines of boxes have a few bytes in each row, for which memset takes longer. */
static void fill_bytes(uint8_t *to, int32_t count, uint8_t code) {
    const uint64_t word = code * UINT64_C(0x0101010101010101);
    if (count > 16) {
        memset(to, code, (size_t)count);
    } else if (count >= 8) {
        memcpy(to, &word, 8);
        memcpy(to + count - 8, &word, 8);
    } else if (count >= 4) {
        memcpy(to, &word, 4);
        memcpy(to + count - 4, &word, 4);
    } else if (count > 0) {
        to[0] = to[count / 2] = to[count - 1] = code;
    }
}

/* What is wholly covered need not be read, which would wait for memory. */
static void blend_byte_row(uint8_t *row, const stripe *s) {
    const uint8_t code = (uint8_t)s->code;
    blend_bytes(row + s->samples.from, s->cover + s->samples.from, s->solid.from - s->samples.from, code);
    fill_bytes(row + s->solid.from, s->solid.to - s->solid.from, code);
    blend_bytes(row + s->solid.to, s->cover + s->solid.to, s->samples.to - s->solid.to, code);
}

enum { AHEAD = 12 }; /* rows */

static void blend_stripe(const mr_paint_target *t, const stripe *s) {
    const mr_component *c = &t->component[s->component];
    const ptrdiff_t stride = t->stride[c->plane];
    uint8_t *row = t->data[c->plane] + s->y * stride + c->offset;
    for (int32_t y = 0; y < s->rows; y++, row += stride) {
        /* Each row of a narrow shape is in another page, which processors do not foresee. */
        __builtin_prefetch((const void *)((uintptr_t)(row + (ptrdiff_t)s->samples.from * c->step) +
                                          (uintptr_t)(AHEAD * stride)), 1);
        if (t->depth <= 8 && c->step == 1)
            blend_byte_row(row, s);
        else
            for (int32_t x = s->samples.from; x < s->samples.to; x++)
                mr_paint_sample(row + (ptrdiff_t)x * c->step, t->depth, t->shift, s->code, s->cover[x]);
    }
}

static void blend_rows(const mr_paint_target *t, const mr_paint_item *item, int32_t first, const covered *c) {
    for (int32_t r = 0; r < c->rows; r++)
        blend_stripe(t, &(stripe){.component = 0, .y = first + r, .rows = 1, .samples = c->each[r],
                                  .solid = {c->each[r].to, c->each[r].to}, .code = item->code[0],
                                  .cover = c->cover + (size_t)r * c->stride});
    for (int i = 1; i < t->components; i++)
        blend_stripe(t, &(stripe){.component = i, .y = first >> t->chroma_h, .rows = 1, .samples = c->chroma,
                                  .solid = {c->chroma.to, c->chroma.to}, .code = item->code[i],
                                  .cover = c->samples});
}

/* `s` without samples at its ends that are not covered. *solid: the first samples in it that are wholly covered. */
static span trim(span s, const uint8_t *cover, span *solid) {
    while (s.from < s.to && !cover[s.from])
        s.from++;
    while (s.from < s.to && !cover[s.to - 1])
        s.to--;
    *solid = s;
    while (solid->from < s.to && cover[solid->from] != 255)
        solid->from++;
    solid->to = solid->from;
    while (solid->to < s.to && cover[solid->to] == 255)
        solid->to++;
    return s;
}

/* Rows that are covered alike, up to `end`. */
static void blend_equal_rows(const mr_paint_target *t, const mr_paint_item *item, int32_t first, int32_t end,
                             const covered *c) {
    stripe s = {.y = first, .rows = end - first, .code = item->code[0], .cover = c->cover};
    s.samples = trim(c->each[0], s.cover, &s.solid);
    blend_stripe(t, &s);
    s.y >>= t->chroma_h;
    s.rows >>= t->chroma_h;
    s.cover = c->samples;
    s.samples = trim(c->chroma, s.cover, &s.solid);
    for (s.component = 1; s.component < t->components; s.component++) {
        s.code = item->code[s.component];
        blend_stripe(t, &s);
    }
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
    const mr_paint_target *t = &work->target;
    const int32_t step = 1 << t->chroma_h;
    for (int32_t y = from / step * step, end; y < to; y = end) {
        const int kind = kind_of_rows(t, item, y);
        cover_rows(work, item, y, bounds, c);
        for (end = y + step; end < to && kind != ROWS_DIFFER && kind_of_rows(t, item, end) == kind; end += step)
            ;
        if (kind == ROWS_DIFFER)
            blend_rows(t, item, y, c);
        else
            blend_equal_rows(t, item, y, end, c);
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

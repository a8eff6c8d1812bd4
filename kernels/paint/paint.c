#include "kernels/paint/paint.h"

#include <math.h>
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

/* Fills in a row's coverage for columns of the span, from `cover`, which stands for column 0. */
static void cover_row(const mr_paint_item *item, const uint8_t *stencils, span s, int32_t y, uint8_t *cover) {
    if (item->kind == MR_PAINT_RECTANGLE) {
        memset(cover + s.from, item->opacity, (size_t)(s.to - s.from));
        const span hole = within((span){item->u[0], item->u[1]}, s);
        if (y >= item->v[0] && y < item->v[1])
            memset(cover + hole.from, 0, (size_t)(hole.to - hole.from));
        return;
    }
    for (int32_t x = s.from; x < s.to; x++)
        cover[x] = (uint8_t)mr_paint_cover(item, stencils, x, y);
}

/* Blends a row of one component: sample x as covered. */
static void blend_row(const mr_paint_target *t, int component, int32_t y, span s, uint32_t code,
                      const uint8_t *cover) {
    const mr_component *c = &t->component[component];
    uint8_t *row = t->data[c->plane] + y * t->stride[c->plane] + c->offset;
    if (t->depth <= 8 && c->step == 1)
        for (int32_t x = s.from; x < s.to; x++)
            row[x] = (uint8_t)mr_paint_blend(row[x], code, cover[x]);
    else
        for (int32_t x = s.from; x < s.to; x++)
            mr_paint_sample(row + (ptrdiff_t)x * c->step, t->depth, t->shift, code, cover[x]);
}

/* Averages the coverage of chroma samples. `cover` has `rows` rows of pixels, `stride` bytes apart. */
static void average_row(const mr_paint_target *t, span s, const uint8_t *cover, size_t stride, int32_t rows,
                        uint8_t *chroma) {
    for (int32_t x = s.from; x < s.to; x++) {
        const int32_t first = x << t->chroma_w, end = first + (1 << t->chroma_w);
        const int32_t last = end < t->width ? end : t->width;
        uint32_t sum = 0;
        for (int32_t r = 0; r < rows; r++)
            for (int32_t i = first; i < last; i++)
                sum += cover[(size_t)r * stride + (size_t)i];
        chroma[x] = (uint8_t)mr_paint_average(sum, (uint32_t)((last - first) * rows));
    }
}

static span join(span a, span b) {
    if (a.from >= a.to || b.from >= b.to)
        return a.from >= a.to ? b : a;
    return (span){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

/* Paints the pixel rows of one chroma row, within `bounds`. `cover` has room for three rows. */
static void paint_rows(const mr_paint_work *work, const mr_paint_item *item, int32_t first, span bounds,
                       uint8_t *cover, size_t stride) {
    const mr_paint_target *t = &work->target;
    const int32_t end = first + (1 << t->chroma_h), rows = (end < t->height ? end : t->height) - first;
    span rough = {0, 0}, each[2];
    for (int32_t r = 0; r < rows; r++)
        rough = join(rough, each[r] = within(span_of(item, first + r), bounds));
    if (rough.from >= rough.to)
        return;
    const span chroma = {rough.from >> t->chroma_w, ((rough.to - 1) >> t->chroma_w) + 1};
    const int32_t from = chroma.from << t->chroma_w, to = chroma.to << t->chroma_w;
    for (int32_t r = 0; r < rows; r++) {
        uint8_t *row = cover + (size_t)r * stride;
        memset(row + from, 0, (size_t)(to - from));
        cover_row(item, work->stencils, each[r], first + r, row);
        blend_row(t, 0, first + r, each[r], item->code[0], row);
    }
    const uint8_t *samples = cover;
    if (t->components == 3 && (t->chroma_w || t->chroma_h)) {
        average_row(t, chroma, cover, stride, rows, cover + 2 * stride);
        samples = cover + 2 * stride;
    }
    for (int c = 1; c < t->components; c++)
        blend_row(t, c, first >> t->chroma_h, chroma, item->code[c], samples);
}

/* The pixels of the chroma samples in a rectangle's hole, if all rows are in it. Else none. */
static span hole_of(const mr_paint_target *t, const mr_paint_item *item, int32_t first) {
    const int32_t mask = (1 << t->chroma_w) - 1;
    const span hole = {(item->u[0] + mask) & ~mask, item->u[1] & ~mask};
    const bool whole = item->kind == MR_PAINT_RECTANGLE && first >= item->v[0] &&
                       first + (1 << t->chroma_h) <= item->v[1] && hole.from < hole.to;
    return whole ? hole : (span){item->right, item->right};
}

int mr_paint(const mr_paint_work *work) {
    const mr_paint_target *t = &work->target;
    const size_t stride = ((size_t)t->width + 1 + 63) / 64 * 64;
    uint8_t *cover = mr_scratch(3 * stride);
    if (!cover)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory to draw in");
    for (int32_t i = 0; i < work->count; i++) {
        const mr_paint_item *item = &work->items[i];
        const int32_t step = 1 << t->chroma_h;
        for (int32_t y = item->top / step * step; y < item->bottom; y += step) {
            const span hole = hole_of(t, item, y);
            paint_rows(work, item, y, (span){item->left, hole.from}, cover, stride);
            paint_rows(work, item, y, (span){hole.to, item->right}, cover, stride);
        }
    }
    return MR_OK;
}

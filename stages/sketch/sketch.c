#include "stages/sketch/sketch.h"

#include <math.h>
#include <string.h>

#include "kernels/preprocess/color.h"

void mr_sketch_begin(mr_sketch *sketch, const mr_format *picture, void *memory) {
    const bool across = picture->rotation % 180;
    *sketch = (mr_sketch){.format = *picture, .items = memory};
    sketch->format.reduced = 0;
    sketch->turn = mr_geometry_of(&sketch->format);
    sketch->width = across ? picture->height : picture->width;
    sketch->height = across ? picture->width : picture->height;
    sketch->stencils = (uint8_t *)memory + MR_SKETCH_ITEMS * sizeof(mr_paint_item);
    sketch->left = picture->width;
    sketch->top = picture->height;
}

bool mr_sketch_is_full(mr_sketch *sketch, size_t more) {
    const bool full = sketch->count == MR_SKETCH_ITEMS;
    sketch->left_out += full ? more : 0;
    return full;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static int32_t limited(double value, int32_t most) {
    return value > 0 ? value < most ? (int32_t)value : most : 0;
}

/* An item for the stored pixels within the bounds, in canvas pixels. */
static mr_paint_item bounded(const mr_sketch *sketch, mr_area bounds) {
    double a[2], b[2];
    mr_geometry_from_display(&sketch->turn, bounds.left, bounds.top, a);
    mr_geometry_from_display(&sketch->turn, bounds.right, bounds.bottom, b);
    mr_paint_item item = {0};
    item.left = limited(fmin(a[0], b[0]), sketch->format.width);
    item.right = limited(fmax(a[0], b[0]), sketch->format.width);
    item.top = limited(fmin(a[1], b[1]), sketch->format.height);
    item.bottom = limited(fmax(a[1], b[1]), sketch->format.height);
    return item;
}

static bool is_empty(const mr_paint_item *item) {
    return item->left >= item->right || item->top >= item->bottom;
}

/* NULL: none lies in the picture, or there is no room. */
static mr_paint_item *add(mr_sketch *sketch, mr_paint_kind kind, mr_area bounds, mr_ink ink) {
    mr_paint_item item = bounded(sketch, bounds);
    item.kind = (int32_t)kind;
    item.opacity = ink.opacity;
    if (is_empty(&item) || !ink.opacity || mr_sketch_is_full(sketch, 1))
        return NULL;
    mr_color_codes(&sketch->format, ink.rgb, item.code);
    sketch->left = item.left < sketch->left ? item.left : sketch->left;
    sketch->top = item.top < sketch->top ? item.top : sketch->top;
    sketch->right = item.right > sketch->right ? item.right : sketch->right;
    sketch->bottom = item.bottom > sketch->bottom ? item.bottom : sketch->bottom;
    sketch->items[sketch->count] = item;
    return &sketch->items[sketch->count++];
}

static mr_area rounded(mr_area bounds) {
    return (mr_area){floor(bounds.left + 0.5), floor(bounds.top + 0.5), floor(bounds.right + 0.5),
                       floor(bounds.bottom + 0.5)};
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

void mr_sketch_rectangle(mr_sketch *sketch, mr_area bounds, mr_ink ink) {
    add(sketch, MR_PAINT_RECTANGLE, rounded(bounds), ink);
}

void mr_sketch_outline(mr_sketch *sketch, mr_area bounds, double thickness, mr_ink ink) {
    const mr_area b = rounded(bounds);
    const double t = floor(thickness + 0.5);
    mr_paint_item *item = add(sketch, MR_PAINT_RECTANGLE, b, ink);
    if (!item || b.right - b.left <= 2 * t || b.bottom - b.top <= 2 * t)
        return;
    const mr_paint_item hole = bounded(sketch, (mr_area){b.left + t, b.top + t, b.right - t, b.bottom - t});
    item->u[0] = hole.left;
    item->u[1] = hole.right;
    item->v[0] = hole.top;
    item->v[1] = hole.bottom;
}

bool mr_sketch_sees(const mr_sketch *sketch, mr_area bounds) {
    return bounds.left <= sketch->width && bounds.right >= 0 && bounds.top <= sketch->height && bounds.bottom >= 0;
}

/* Ends far outside are cut, since floats are exact for neighbouring pixels only up to a few million. False: the line is
 * nowhere near the picture, or not finite. */
static bool cut(const mr_sketch *sketch, double a[2], double b[2], double reach) {
    const double most[2] = {sketch->width + reach, sketch->height + reach};
    double begin = 0, end = 1;
    for (int i = 0; i < 2; i++) {
        const double length = b[i] - a[i];
        double enter = (-reach - a[i]) / length, leave = (most[i] - a[i]) / length;
        if (!isfinite(a[i]) || !isfinite(b[i]) || (length == 0 && (a[i] < -reach || a[i] > most[i])))
            return false;
        begin = length == 0 ? begin : fmax(begin, fmin(enter, leave));
        end = length == 0 ? end : fmin(end, fmax(enter, leave));
    }
    const double from[2] = {a[0], a[1]}, to[2] = {b[0], b[1]};
    for (int i = 0; i < 2; i++) {
        a[i] = begin > 0 ? from[i] + begin * (to[i] - from[i]) : from[i];
        b[i] = end < 1 ? from[i] + end * (to[i] - from[i]) : to[i];
    }
    return begin <= end;
}

void mr_sketch_line(mr_sketch *sketch, const double from[2], const double to[2], double thickness, mr_ink ink) {
    const double reach = thickness / 2 + 1;
    double a[2] = {from[0], from[1]}, b[2] = {to[0], to[1]};
    if (!mr_sketch_sees(sketch, (mr_area){fmin(a[0], b[0]) - reach, fmin(a[1], b[1]) - reach,
                                          fmax(a[0], b[0]) + reach, fmax(a[1], b[1]) + reach}) ||
        !cut(sketch, a, b, 2 * reach))
        return;
    const mr_area bounds = {floor(fmin(a[0], b[0]) - reach), floor(fmin(a[1], b[1]) - reach),
                              ceil(fmax(a[0], b[0]) + reach), ceil(fmax(a[1], b[1]) + reach)};
    mr_paint_item *item = add(sketch, MR_PAINT_LINE, bounds, ink);
    if (!item)
        return;
    mr_geometry_from_display(&sketch->turn, a[0], a[1], a);
    mr_geometry_from_display(&sketch->turn, b[0], b[1], b);
    item->x0 = (float)a[0];
    item->y0 = (float)a[1];
    item->x1 = (float)b[0];
    item->y1 = (float)b[1];
    item->radius = (float)(thickness / 2);
}

/* Corners far outside are moved, as the kernels need. */
static int32_t sixteenths(double value) {
    const double most = 1 << 24;
    return (int32_t)fmax(-most, fmin(most, floor(16 * value + 0.5)));
}

void mr_sketch_polygon(mr_sketch *sketch, const double (*corners)[2], size_t count, mr_ink ink) {
    const uint32_t at = (sketch->stencil_bytes + 3) & ~UINT32_C(3);
    mr_area bounds = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i++) {
        bounds = (mr_area){fmin(bounds.left, floor(corners[i][0])), fmin(bounds.top, floor(corners[i][1])),
                           fmax(bounds.right, ceil(corners[i][0])), fmax(bounds.bottom, ceil(corners[i][1]))};
        if (!isfinite(corners[i][0]) || !isfinite(corners[i][1]))
            return;
    }
    if (at > MR_SKETCH_STENCILS || count > (MR_SKETCH_STENCILS - at) / (2 * sizeof(int32_t))) {
        sketch->left_out++;
        return;
    }
    mr_paint_item *item = count ? add(sketch, MR_PAINT_POLYGON, bounds, ink) : NULL;
    if (!item)
        return;
    int32_t *to = (int32_t *)(void *)(sketch->stencils + at);
    for (size_t i = 0; i < count; i++) {
        double stored[2];
        mr_geometry_from_display(&sketch->turn, corners[i][0], corners[i][1], stored);
        to[2 * i] = sixteenths(stored[0]);
        to[2 * i + 1] = sixteenths(stored[1]);
    }
    item->at = at;
    item->columns = (int32_t)count;
    sketch->stencil_bytes = at + (uint32_t)(count * 2 * sizeof(int32_t));
}

uint8_t *mr_sketch_room(mr_sketch *sketch, mr_area bounds, int32_t columns, int32_t rows) {
    enum { MOST_SIDE = 1 << 14 }; /* then a cell's number and 16 bits after the point fit into 31 bits */
    const mr_paint_item item = bounded(sketch, rounded(bounds));
    if (columns < 1 || rows < 1 || is_empty(&item) || mr_sketch_is_full(sketch, 1))
        return NULL;
    if (columns > MOST_SIDE || rows > MOST_SIDE ||
        (uint32_t)columns * (uint32_t)rows > MR_SKETCH_STENCILS - sketch->stencil_bytes) {
        sketch->left_out++;
        return NULL;
    }
    uint8_t *cells = sketch->stencils + sketch->stencil_bytes;
    sketch->stencil_bytes += (uint32_t)(columns * rows);
    return memset(cells, 0, (size_t)columns * (size_t)rows);
}

/* The fixed-point way from a stored pixel's centre to a cell, along one axis of the canvas: from `begin`, `scale` cells
 * per pixel. */
static void set_way(const mr_sketch *sketch, const mr_paint_item *item, int axis, double begin, double scale,
                    int32_t way[3]) {
    double here[2], right[2], below[2];
    mr_geometry_to_display(&sketch->turn, item->left + 0.5, item->top + 0.5, here);
    mr_geometry_to_display(&sketch->turn, item->left + 1.5, item->top + 0.5, right);
    mr_geometry_to_display(&sketch->turn, item->left + 0.5, item->top + 1.5, below);
    way[0] = (int32_t)floor((here[axis] - begin) * scale * 65536);
    way[1] = (int32_t)floor((right[axis] - here[axis]) * scale * 65536 + 0.5);
    way[2] = (int32_t)floor((below[axis] - here[axis]) * scale * 65536 + 0.5);
}

void mr_sketch_stencil(mr_sketch *sketch, mr_area bounds, int32_t columns, int32_t rows, mr_ink ink) {
    const mr_area b = rounded(bounds);
    mr_paint_item *item = add(sketch, MR_PAINT_STENCIL, b, ink);
    if (!item)
        return;
    item->at = sketch->stencil_bytes - (uint32_t)(columns * rows);
    item->columns = columns;
    item->rows = rows;
    set_way(sketch, item, 0, b.left, columns / (b.right - b.left), item->u);
    set_way(sketch, item, 1, b.top, rows / (b.bottom - b.top), item->v);
}

mr_paint_work mr_sketch_work(const mr_sketch *sketch, const mr_frame *frame, const void *memory) {
    mr_paint_work work;
    memset(&work, 0, sizeof work);
    work.target = mr_paint_target_of(frame);
    work.items = memory;
    work.stencils = (const uint8_t *)memory + MR_SKETCH_ITEMS * sizeof(mr_paint_item);
    work.count = sketch->count;
    work.left = sketch->left;
    work.top = sketch->top;
    work.right = sketch->right;
    work.bottom = sketch->bottom;
    return work;
}

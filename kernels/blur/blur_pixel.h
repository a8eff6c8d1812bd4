/* Arithmetic of blur.h for single cells and samples, written once: it compiles as C and as CUDA. */
#pragma once

#include "kernels/blur/blur.h"
#include "kernels/pixel.h"

/* Bits after the point in a cell's value. MR_BLUR_OUTSIDE: all of the cell lies outside the ellipse. */
enum { MR_BLUR_BITS = 8, MR_BLUR_ONE = 1 << MR_BLUR_BITS, MR_BLUR_REACH = 12, MR_BLUR_OUTSIDE = -1 };

/* An area in samples of a component. */
typedef struct mr_blur_span {
    int32_t left, top, width, height;
    int32_t cell_width, cell_height;
} mr_blur_span;

MR_PIXEL_INLINE mr_blur_span mr_blur_span_of(const mr_blur_area *area, const mr_blur_component *component) {
    const int32_t x = component->log2_x, y = component->log2_y;
    mr_blur_span span;
    span.left = area->left >> x;
    span.top = area->top >> y;
    span.width = ((area->right + (1 << x) - 1) >> x) - span.left;
    span.height = ((area->bottom + (1 << y) - 1) >> y) - span.top;
    span.cell_width = area->cell >> x;
    span.cell_height = area->cell >> y;
    return span;
}

/* A cell in samples of a component. */
typedef struct mr_blur_part {
    int32_t left, top, right, bottom;
} mr_blur_part;

MR_PIXEL_INLINE mr_blur_part mr_blur_part_of(const mr_blur_span *span, int32_t column, int32_t row) {
    const int32_t right = span->left + span->width, bottom = span->top + span->height;
    mr_blur_part part;
    part.left = span->left + column * span->cell_width;
    part.top = span->top + row * span->cell_height;
    part.right = right - part.left < span->cell_width ? right : part.left + span->cell_width;
    part.bottom = bottom - part.top < span->cell_height ? bottom : part.top + span->cell_height;
    return part;
}

/* Reads and writes a sample. */
MR_PIXEL_INLINE uint32_t mr_blur_get(const mr_blur_component *c, const uint8_t *at) {
    return c->bytes == 1 ? *at : (uint32_t)mr_load16(at) >> c->down;
}

MR_PIXEL_INLINE void mr_blur_put(const mr_blur_component *c, uint8_t *at, uint32_t value) {
    if (c->bytes == 1) {
        *at = (uint8_t)value;
        return;
    }
    at[0] = (uint8_t)(value << c->down);
    at[1] = (uint8_t)(value << c->down >> 8);
}

/* The mean of `count` samples as a cell's value. */
MR_PIXEL_INLINE int32_t mr_blur_mean(uint64_t sum, uint64_t count) {
    return (int32_t)((sum * MR_BLUR_ONE + count / 2) / count);
}

/* The mean of an area's cells, which stands for those that lie outside its ellipse. */
MR_PIXEL_INLINE int32_t mr_blur_middle(const int32_t *cells, int32_t count) {
    int64_t sum = 0, inside = 0;
    for (int32_t i = 0; i < count; i++)
        if (cells[i] != MR_BLUR_OUTSIDE) {
            sum += cells[i];
            inside++;
        }
    return inside ? (int32_t)((sum + inside / 2) / inside) : 0;
}

/* A cell smoothed along a row or column of `count` cells, `stride` apart. The Gaussian's variance is 15.75 cells: with
 * 1/12 from the means and 1/6 from the interpolation it is 16. Weights: exp(-k^2 / 31.5), 65536 in all. */
MR_PIXEL_INLINE int32_t mr_blur_smooth(const int32_t *cells, int32_t at, int32_t count, int32_t stride) {
    const int32_t weight[MR_BLUR_REACH + 1] = {6596, 6392, 5812, 4959, 3971, 2984, 2104, 1393, 865, 504, 276, 142, 68};
    int64_t sum = (int64_t)weight[0] * cells[at * stride];
    for (int32_t k = 1; k <= MR_BLUR_REACH; k++) {
        const int32_t before = at - k < 0 ? 0 : at - k, after = at + k >= count ? count - 1 : at + k;
        sum += (int64_t)weight[k] * (cells[before * stride] + (int64_t)cells[after * stride]);
    }
    return (int32_t)((sum + 32768) >> 16);
}

/* The two cells around a sample, and the share of the second, in 1/256. */
typedef struct mr_blur_between {
    int32_t first, second, share;
} mr_blur_between;

/* Sample `at` in cells of `size` samples, of which there are `count`. */
MR_PIXEL_INLINE mr_blur_between mr_blur_find(int32_t at, int32_t size, int32_t count) {
    const int32_t place = 2 * at + 1 + size; /* in half samples from the centre of cell -1 */
    mr_blur_between b;
    b.second = place / (2 * size);
    b.share = (int32_t)((int64_t)(place - b.second * 2 * size) * MR_BLUR_ONE / (2 * size));
    b.first = b.second > 0 ? b.second - 1 : 0;
    if (b.second >= count)
        b.second = count - 1;
    if (b.first >= count)
        b.first = count - 1;
    return b;
}

/* The value between two cells, or between two such values. */
MR_PIXEL_INLINE uint64_t mr_blur_mix(uint64_t first, uint64_t second, int32_t share) {
    return first * (uint64_t)(MR_BLUR_ONE - share) + second * (uint64_t)share;
}

MR_PIXEL_INLINE uint32_t mr_blur_round(uint64_t value, int32_t bits) {
    return (uint32_t)((value + ((uint64_t)1 << (bits - 1))) >> bits);
}

/* Whether the centre of a pixel lies in the area's ellipse. */
MR_PIXEL_INLINE int mr_blur_is_inside(const mr_blur_area *area, int32_t x, int32_t y) {
    const double width = area->oval_right - area->oval_left, height = area->oval_bottom - area->oval_top;
    const double across = (2.0 * (x - area->oval_left) + 1.0 - width) * height;
    const double down = (2.0 * (y - area->oval_top) + 1.0 - height) * width;
    return across * across + down * down <= (width * height) * (width * height);
}

/* Whether the area hides sample x, y of a component: one of its pixels. */
MR_PIXEL_INLINE int mr_blur_hides(const mr_blur_area *area, const mr_blur_component *c, int ellipse, int32_t x,
                                  int32_t y) {
    const int32_t left = x << c->log2_x, top = y << c->log2_y;
    int32_t right = left + (1 << c->log2_x), bottom = top + (1 << c->log2_y);
    if (left < area->left || top < area->top || left >= area->right || top >= area->bottom)
        return 0;
    if (!ellipse || area->whole)
        return 1;
    right = right < area->right ? right : area->right;
    bottom = bottom < area->bottom ? bottom : area->bottom;
    for (int32_t row = top; row < bottom; row++)
        for (int32_t column = left; column < right; column++)
            if (mr_blur_is_inside(area, column, row))
                return 1;
    return 0;
}

/* The cells of an area's component. */
MR_PIXEL_INLINE int32_t *mr_blur_cells(const mr_blur_work *work, int32_t area, int32_t component) {
    return work->table + ((size_t)area * MR_BLUR_COMPONENTS + (size_t)component) * MR_BLUR_TABLE;
}

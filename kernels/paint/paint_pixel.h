/* Arithmetic of painting, written once: inline functions that compile as C and as CUDA. Floats are rounded as in IEEE
 * 754 and never contracted. */
#pragma once

#include <math.h>
#include <stdbool.h>

#include "kernels/paint/paint.h"
#include "kernels/pixel.h"

/* `from` becomes `to` as far as it is covered: 0 to 255. Rounded to nearest. */
MR_PIXEL_INLINE uint32_t mr_paint_blend(uint32_t from, uint32_t to, uint32_t cover) {
    return (from * (255 - cover) + to * cover + 127) / 255;
}

/* The same for bytes: all fits into 16 bits, which vectors divide quickly. */
MR_PIXEL_INLINE uint8_t mr_paint_blend8(uint8_t from, uint8_t to, uint8_t cover) {
    uint16_t sum = (uint16_t)(from * (uint8_t)(255 - cover) + to * cover + 127);
    return (uint8_t)((uint16_t)(sum + 1 + (sum >> 8)) >> 8);
}

/* The average of a chroma sample's pixels. */
MR_PIXEL_INLINE uint32_t mr_paint_average(uint32_t sum, uint32_t pixels) {
    return (sum + pixels / 2) / pixels;
}

/* Coverage by a line with round ends. It falls from full to none within a pixel; it is half if the pixel's centre is on
 * the border. */
MR_PIXEL_INLINE uint32_t mr_paint_line_cover(const mr_paint_item *item, int32_t x, int32_t y) {
    float dx = item->x1 - item->x0, dy = item->y1 - item->y0;
    float px = (float)x + 0.5f - item->x0, py = (float)y + 0.5f - item->y0;
    float square = dx * dx + dy * dy;
    float along = square > 0.0f ? (px * dx + py * dy) / square : 0.0f;
    along = along > 0.0f ? along : 0.0f;
    along = along < 1.0f ? along : 1.0f;
    px = px - along * dx;
    py = py - along * dy;
    float inside = item->radius + 0.5f - sqrtf(px * px + py * py);
    inside = inside > 0.0f ? inside : 0.0f;
    inside = inside < 1.0f ? inside : 1.0f;
    return (uint32_t)(inside * 255.0f + 0.5f);
}

MR_PIXEL_INLINE uint32_t mr_paint_stencil_cover(const mr_paint_item *item, const uint8_t *stencils, int32_t x,
                                                int32_t y) {
    int64_t dx = x - item->left, dy = y - item->top;
    int64_t column = (item->u[0] + item->u[1] * dx + item->u[2] * dy) >> 16;
    int64_t row = (item->v[0] + item->v[1] * dx + item->v[2] * dy) >> 16;
    if (column < 0 || row < 0 || column >= item->columns || row >= item->rows)
        return 0;
    return stencils[item->at + row * item->columns + column];
}

/* Where the edge from corner `i` of a polygon to the next crosses the centres of row y: pixels left of *column lie left
 * of it. False: nowhere. Exact. */
MR_PIXEL_INLINE bool mr_paint_polygon_edge(const mr_paint_item *item, const uint8_t *stencils, int32_t i, int32_t y,
                                           int32_t *column) {
    const int32_t *corners = (const int32_t *)(const void *)(stencils + item->at);
    const int32_t *a = corners + 2 * i, *b = i + 1 < item->columns ? a + 2 : corners;
    const int64_t middle = 16 * (int64_t)y + 8;
    if ((a[1] <= middle) == (b[1] <= middle))
        return false;
    if (a[1] > b[1]) {
        const int32_t *upper = b;
        b = a;
        a = upper;
    }
    /* x = a.x + (b.x - a.x) (middle - a.y) / (b.y - a.y); the first pixel with 16 column + 8 >= x. */
    const int64_t high = (int64_t)b[1] - a[1];
    const int64_t over = (a[0] - 8) * high + ((int64_t)b[0] - a[0]) * (middle - a[1]), unit = 16 * high;
    *column = (int32_t)(over / unit + (over % unit > 0));
    return true;
}

MR_PIXEL_INLINE uint32_t mr_paint_polygon_cover(const mr_paint_item *item, const uint8_t *stencils, int32_t x,
                                                int32_t y) {
    uint32_t cover = 0;
    int32_t column;
    for (int32_t i = 0; i < item->columns; i++)
        if (mr_paint_polygon_edge(item, stencils, i, y, &column) && x < column)
            cover ^= 255;
    return cover;
}

/* Coverage of a pixel by an item, with its opacity. */
MR_PIXEL_INLINE uint32_t mr_paint_cover(const mr_paint_item *item, const uint8_t *stencils, int32_t x, int32_t y) {
    uint32_t cover = 255;
    if (x < item->left || x >= item->right || y < item->top || y >= item->bottom)
        return 0;
    if (item->kind == MR_PAINT_RECTANGLE && x >= item->u[0] && x < item->u[1] && y >= item->v[0] && y < item->v[1])
        return 0;
    if (item->kind == MR_PAINT_LINE)
        cover = mr_paint_line_cover(item, x, y);
    else if (item->kind == MR_PAINT_STENCIL)
        cover = mr_paint_stencil_cover(item, stencils, x, y);
    else if (item->kind == MR_PAINT_POLYGON)
        cover = mr_paint_polygon_cover(item, stencils, x, y);
    return (cover * item->opacity + 127) / 255;
}

/* Blends one sample, at its first byte. A sample that is not covered keeps bits below its depth. */
MR_PIXEL_INLINE void mr_paint_sample(uint8_t *at, int32_t depth, int32_t shift, uint32_t code, uint32_t cover) {
    if (depth <= 8) {
        *at = mr_paint_blend8(*at, (uint8_t)code, (uint8_t)cover);
        return;
    }
    if (!cover)
        return;
    uint16_t word = (uint16_t)(mr_paint_blend((uint32_t)mr_load16(at) >> shift, code, cover) << shift);
    memcpy(at, &word, sizeof word);
}

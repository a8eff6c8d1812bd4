/* Paints shapes on a picture, one after another: rectangles, thick lines, polygons, and stencils, which are bitmaps of
 * coverage (glyphs, masks). Only the touched samples are read and written; the rest of the picture is never converted.
 *
 * Shapes have coordinates in stored pixels, continuous as in geometry.h. A pixel's coverage goes from 0 to 255. A
 * subsampled chroma sample is covered as much as its pixels on average.
 *
 * Work runs on a stream: the items and stencils must lie in the stream's memory and stay until it is done. Results are
 * equal on all devices, bit for bit. Ownership: the caller owns everything. Errors: those of the stream. Any thread. */
#pragma once

#include "millrace/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

typedef enum mr_paint_kind { MR_PAINT_RECTANGLE, MR_PAINT_LINE, MR_PAINT_STENCIL, MR_PAINT_POLYGON } mr_paint_kind;

/* left to bottom: the pixels that the shape may touch, within the picture. */
typedef struct mr_paint_item {
    int32_t kind;
    int32_t left, top, right, bottom;
    uint16_t code[3]; /* the colour, as in mr_color_codes */
    uint16_t opacity; /* 0 to 255 */
    float x0, y0, x1, y1, radius; /* lines: the ends, which are round, and half the width; one point is a disc */
    /* polygons: `columns` corners from byte `at` of the stencils, which is a multiple of 4: x and y as int32, in 1/16
     * pixels from -2^24 to 2^24. A pixel is covered if its centre is inside (even-odd). */
    /* stencils: coverage byte [row * columns + column] from byte `at`. The pixel at x, y takes
     * column = (u[0] + u[1] (x - left) + u[2] (y - top)) >> 16, row alike from v. */
    uint32_t at;
    int32_t columns, rows;
    int32_t u[3], v[3]; /* rectangles: columns u[0] to u[1] in rows v[0] to v[1] are a hole */
} mr_paint_item;

/* The picture: its planes, and how its samples lie in them. */
typedef struct mr_paint_target {
    uint8_t *data[MR_MAX_PLANES];
    ptrdiff_t stride[MR_MAX_PLANES];
    int32_t width, height;
    int32_t components, chroma_w, chroma_h, depth, shift; /* as in mr_pixel_info */
    mr_component component[3];
    uint8_t unused[3];
} mr_paint_target;

/* Must be zeroed before it is filled in. */
typedef struct mr_paint_work {
    mr_paint_target target;
    const mr_paint_item *items;
    const uint8_t *stencils;
    int32_t count;
    int32_t left, top, right, bottom; /* around all items */
} mr_paint_work;

/* Describes a frame's picture; sets what is not named here to 0. */
mr_paint_target mr_paint_target_of(const mr_frame *frame);

/* Paints in host memory, at once. MR_ERROR_MEMORY. */
int mr_paint(const mr_paint_work *work);
/* Adds the work to the stream. */
int mr_paint_enqueue(mr_stream *stream, const mr_paint_work *work);

#ifdef __cplusplus
}
#endif

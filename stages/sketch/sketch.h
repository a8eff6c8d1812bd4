/* Shapes for one picture, collected in the form that kernels/paint takes.
 *
 * Coordinates are pixels of the canvas: the frame's picture as it is displayed, mirrored and turned. The sketch maps
 * them to stored pixels, so text is upright when the picture is shown. Shapes are cut at the picture's edges. When the
 * sketch is full, further shapes are only counted.
 *
 * Ownership: the caller owns the memory. Threads: one at a time. */
#pragma once

#include <stdbool.h>

#include "kernels/paint/paint.h"
#include "millrace/geometry.h"

enum { MR_SKETCH_ITEMS = 8192, MR_SKETCH_STENCILS = 2 << 20 };
/* The memory for a sketch: items, then stencils. */
static const size_t MR_SKETCH_BYTES = MR_SKETCH_ITEMS * sizeof(mr_paint_item) + MR_SKETCH_STENCILS;

typedef struct mr_ink {
    uint8_t rgb[3];
    uint8_t opacity; /* 255: hides what was there */
} mr_ink;

typedef struct mr_area {
    double left, top, right, bottom;
} mr_area;

typedef struct mr_sketch {
    mr_format format;
    mr_geometry turn;      /* from the stored picture to the canvas */
    int32_t width, height; /* of the canvas */
    mr_paint_item *items;
    uint8_t *stencils;
    uint32_t stencil_bytes;
    int32_t count;
    uint64_t left_out; /* shapes for which there was no room */
    int32_t left, top, right, bottom; /* around all items, in stored pixels */
} mr_sketch;

/* Begins a sketch in `memory`, which has MR_SKETCH_BYTES. */
void mr_sketch_begin(mr_sketch *sketch, const mr_format *picture, void *memory);
/* Whether no further shape has room; then `more` shapes are counted as left out. */
bool mr_sketch_is_full(mr_sketch *sketch, size_t more);

/* Whether something within the bounds may be visible, edges included. Look before work that only a visible shape is
 * worth. */
bool mr_sketch_sees(const mr_sketch *sketch, mr_area bounds);

/* Fills whole pixels: edges are rounded to the nearest. */
void mr_sketch_rectangle(mr_sketch *sketch, mr_area bounds, mr_ink ink);
/* Outlines a box with lines inside its edges. */
void mr_sketch_outline(mr_sketch *sketch, mr_area bounds, double thickness, mr_ink ink);
/* Draws a line with round ends; a dot if both ends are one point. */
void mr_sketch_line(mr_sketch *sketch, const double from[2], const double to[2], double thickness, mr_ink ink);
/* Fills a polygon: the pixels whose centres are inside (even-odd). */
void mr_sketch_polygon(mr_sketch *sketch, const double (*corners)[2], size_t count, mr_ink ink);
/* Takes room for a bitmap of coverage within the bounds: zeros, to be filled in. NULL: the bounds lie outside of the
 * picture; or there is no room, and the shape is counted. */
uint8_t *mr_sketch_room(mr_sketch *sketch, mr_area bounds, int32_t columns, int32_t rows);
/* Stretches the bitmap in the last room over the bounds, whose edges are rounded; the nearest cell counts. */
void mr_sketch_stencil(mr_sketch *sketch, mr_area bounds, int32_t columns, int32_t rows, mr_ink ink);

/* The work that paints the sketch on the frame, whose picture has the sketch's format. `memory` is where the sketch's
 * memory, or a copy of it, lies. */
mr_paint_work mr_sketch_work(const mr_sketch *sketch, const mr_frame *frame, const void *memory);

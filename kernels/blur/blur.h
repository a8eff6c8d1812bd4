/* Hides areas of pictures, in place: blocks of one colour, a Gaussian blur, or black.
 *
 * An area is a rectangle of whole chroma samples, or the part of an ellipse in it. It is divided into square cells,
 * whose size follows from the longer side (see mr_blur_add). Each cell has the mean of its samples that are hidden: a
 * mean with samples from beyond an ellipse would draw its outline, which detectors take for a head. For the smoothing
 * below, a cell outside the ellipse has the mean of the other cells.
 *
 *   pixelate   Every sample gets the mean of its cell.
 *   gaussian   Standard deviation: four cells, a quarter of the longer side with MR_BLUR_CELLS. The means of the
 *              cells are smoothed, and samples are interpolated between the centres. Samples outside the area have no
 *              effect: cells at the edge are replicated. So a direct convolution differs by a few levels inside, and by
 *              up to 20 at the edge of a picture full of contrasts.
 *   fill       Every sample gets component.fill.
 *
 * Means are those before the call. If areas overlap, the largest one decides. A chroma sample is hidden if one of
 * its pixels is. Alpha and all samples outside the areas stay.
 *
 * Ownership: the caller owns all memory. The work is copied; memory it points to must stay valid until the work is
 * done. Results do not depend on the processor or device: sums are integers. Threads: any. Errors: those of the
 * stream. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

typedef enum mr_blur_how { MR_BLUR_PIXELATE, MR_BLUR_GAUSSIAN, MR_BLUR_FILL } mr_blur_how;

enum { MR_BLUR_COMPONENTS = 3, MR_BLUR_CELLS = 16, MR_BLUR_TABLE = MR_BLUR_CELLS * MR_BLUR_CELLS };

/* An area in pixels. `left` and `top` are multiples of the chroma subsampling; so are `right` and `bottom`, unless the
 * picture ends there. */
typedef struct mr_blur_area {
    int32_t left, top, right, bottom;
    int32_t cell;          /* side of a cell in pixels, a multiple of the chroma subsampling */
    int32_t columns, rows; /* cells */
    int32_t whole;         /* 1: all of it is hidden, even if the work hides ellipses */
    int32_t oval_left, oval_top, oval_right, oval_bottom; /* the ellipse's bounds: the area's before it was clipped */
} mr_blur_area;

/* Areas of one picture, largest first. */
typedef struct mr_blur_areas {
    int32_t count, filler;
    mr_blur_area item[];
} mr_blur_areas;

/* The samples of Y, U, V or R, G, B. */
typedef struct mr_blur_component {
    uint8_t *data;            /* the first sample */
    int64_t stride;           /* bytes from row to row */
    int32_t step;             /* bytes from sample to sample */
    int32_t bytes;            /* of a sample: 1 or 2 */
    int32_t down;             /* bits to shift a sample right (P010: 6) */
    int32_t log2_x, log2_y;   /* subsampling */
    int32_t fill;             /* black, after that shift */
} mr_blur_component;

typedef struct mr_blur_work {
    mr_blur_component component[MR_BLUR_COMPONENTS];
    int32_t components, how;  /* how: mr_blur_how */
    int32_t ellipse, most;    /* ellipse: 0 or 1; most: areas, at most */
    const mr_blur_areas *areas;
    int32_t *table;           /* of mr_blur_table_bytes(most) bytes: the cells; content not defined */
} mr_blur_work;

static inline size_t mr_blur_areas_bytes(size_t most) {
    return (sizeof(mr_blur_areas) + most * sizeof(mr_blur_area) + 63) / 64 * 64;
}

static inline size_t mr_blur_table_bytes(size_t most) {
    return most * MR_BLUR_COMPONENTS * MR_BLUR_TABLE * sizeof(int32_t);
}

/* The launches of a call on a CUDA device. */
static inline int mr_blur_launches(mr_blur_how how) {
    return how == MR_BLUR_GAUSSIAN ? 3 : how == MR_BLUR_PIXELATE ? 2 : 1;
}

int mr_blur_enqueue(mr_stream *stream, const mr_blur_work *work);

#ifdef __cplusplus
}
#endif

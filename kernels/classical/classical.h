/* Classical features for small pictures: histograms (colours, gradient directions), a perceptual hash, sharpness, and
 * the change between two pictures.
 *
 * Pictures are 8-bit planes as preprocess makes them (u8, NCHW): `width` samples a row, without gaps, one plane after
 * another; only sharpness takes a stride. The caller owns all memory. Each operation is a pure function on the calling
 * thread and, with _enqueue, work on a stream for up to MR_PIECE pictures. The struct is copied and must have no gaps,
 * as in vector.h; memory it points to must stay valid until the work is done.
 *
 * Results do not depend on the processor or device: integers are exact, and floats are computed with the same
 * operations in the same order everywhere (classical_pixel.h). Errors: MR_ERROR_CONFIG if the parameters make no sense,
 * MR_ERROR_MEMORY, and those of the stream. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/classical/classical_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

/* Pictures in one piece of work. */
enum { MR_PIECE = 24 };

/* ---- histograms of colours ------------------------------------------------------------------------------------ */

/* HSV: hue 0..179 in steps of 2 degrees, saturation and value 0..255, as in OpenCV's cvtColor for 8 bits. */
typedef enum mr_color_space { MR_COLORS_RGB, MR_COLORS_HSV } mr_color_space;

enum { MR_HISTOGRAM_MOST_BINS = 256, MR_HISTOGRAM_MOST_JOINT_BINS = 32 };

typedef struct mr_histogram_params {
    int32_t width, height; /* the picture's; R, G and B planes */
    mr_color_space space;
    int32_t bins;          /* a channel: value v of n (256; hue 180) falls in bin floor(v * bins / n) */
    int32_t joint;         /* 0 or 1: bins^3 colour boxes, (first * bins + second) * bins + third; else 3 * bins */
} mr_histogram_params;

/* How many numbers a result has. Each is a share of the pixels: one channel's, or all boxes', add up to 1. */
int32_t mr_histogram_length(const mr_histogram_params *params);
int mr_histogram(const mr_histogram_params *params, const uint8_t *src, float *dst);

typedef struct mr_histogram_work {
    mr_histogram_params params;
    int32_t count;
    const uint8_t *src[MR_PIECE];
    float *dst[MR_PIECE];
} mr_histogram_work;
int mr_histogram_enqueue(mr_stream *stream, const mr_histogram_work *work);

/* ---- histograms of oriented gradients ------------------------------------------------------------------------- */

enum { MR_HOG_MOST_BLOCK = 64, MR_HOG_MOST_CELLS = 64, MR_HOG_MOST_BINS = 36 };

/* Dalal and Triggs, "Histograms of Oriented Gradients for Human Detection", CVPR 2005, with the choices in OpenCV's
 * HOGDescriptor: gradients [-1 0 1] mirrored at the border; with three channels the longest gradient; votes shared by
 * the two nearest bins and four nearest cells; a Gaussian with sigma (block width + height) / 8 over each block;
 * L2-hys. */
typedef struct mr_hog_params {
    int32_t width, height, channels;            /* the window's size; 1 channel, or 3: R, G and B planes */
    int32_t block_width, block_height;          /* px; multiples of the cell */
    int32_t stride_x, stride_y;                 /* px; the window less the block must be a multiple */
    int32_t cell_width, cell_height;            /* px */
    int32_t bins;                               /* over half a turn; over a whole one with full_turn */
    bool full_turn;                             /* light to dark differs from dark to light */
    bool gamma;                                 /* take square roots of the samples */
    float clip;                                 /* for L2-hys */
} mr_hog_params;

/* All values derived from the parameters. Plain data: it is passed to a CUDA kernel by value. */
typedef struct mr_hog_layout {
    mr_hog_params params;
    int32_t blocks_x, blocks_y;                 /* in the window */
    int32_t cells_x, cells_y;                   /* in a block */
    int32_t block_length;                       /* numbers per block: cells * bins */
    float bins_per_quarter;
    float bell_x[MR_HOG_MOST_BLOCK], bell_y[MR_HOG_MOST_BLOCK]; /* the Gaussian's factors */
} mr_hog_layout;

/* Must not change once made. */
typedef struct mr_hog mr_hog;
int mr_hog_create(mr_hog **hog, const mr_hog_params *params);
/* NULLs; accepts NULL. */
void mr_hog_destroy(mr_hog **hog);
const mr_hog_layout *mr_hog_layout_of(const mr_hog *hog);
/* Fills in a layout. MR_ERROR_CONFIG if the parameters are invalid. */
int mr_hog_plan(mr_hog_layout *layout, const mr_hog_params *params);
/* How many numbers a descriptor has. They are ordered by block columns from left to right, then blocks from top to
 * bottom, then cells in the same order, then bins. */
int32_t mr_hog_length(const mr_hog_layout *layout);
/* Bytes that one run needs as scratch memory, 64-byte aligned. */
size_t mr_hog_scratch_bytes(const mr_hog *hog);
void mr_hog_run(const mr_hog *hog, const mr_classical_rows *rows, const uint8_t *src, float *dst, void *scratch);

typedef struct mr_hog_work {
    const mr_hog *hog;
    int32_t count, filler;
    const uint8_t *src[MR_PIECE];
    float *dst[MR_PIECE];
} mr_hog_work;
int mr_hog_enqueue(mr_stream *stream, const mr_hog_work *work);

/* ---- perceptual hash ------------------------------------------------------------------------------------------ */

/* pHash as in the Python package ImageHash: the two-dimensional DCT-II of a gray 32 x 32 picture, then the 8 x 8 lowest
 * frequencies, including 0. A bit is set if its frequency is above their median. Bit 0 is the mean's, then along the
 * rows; it is the first byte's highest bit. The cosines have 20 bits after the point. */
enum { MR_HASH_BYTES = 8 };

typedef struct mr_phash_work {
    int32_t count;
    int32_t bits;                  /* 1: 64 floats, 0 or 1, instead of 8 bytes */
    const uint8_t *src[MR_PIECE];  /* 32 x 32 */
    void *dst[MR_PIECE];
} mr_phash_work;
void mr_phash(const uint8_t *src, uint8_t hash[MR_HASH_BYTES]);
/* round(2^20 cos((2 x + 1) k pi / 64)), the factors for the sums; row k has 32 columns. */
void mr_phash_cosines(int32_t cosine[8][32]);
int mr_phash_enqueue(mr_stream *stream, const mr_phash_work *work);

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

/* Variance of the Laplacian (above + below + left + right - 4 * middle, mirrored at the border) over all pixels, times
 * scale^2: `scale` brings limited range samples to 0..255. */
typedef struct mr_sharpness_item {
    const uint8_t *src;
    int32_t stride; /* bytes */
    int32_t width, height;
    float scale;
    float *dst; /* one number */
} mr_sharpness_item;

typedef struct mr_sharpness_work {
    int32_t count, filler;
    mr_sharpness_item item[MR_PIECE];
} mr_sharpness_work;
void mr_sharpness(const mr_classical_rows *rows, const mr_sharpness_item *item);
int mr_sharpness_enqueue(mr_stream *stream, const mr_sharpness_work *work);

/* ---- change --------------------------------------------------------------------------------------------------- */

/* The number of `count` samples that differ by more than `noise` (0..254) between two pictures. */
typedef struct mr_change_work {
    const uint8_t *a, *b;
    size_t count;
    int32_t noise, filler;
    uint32_t *changed;
} mr_change_work;
void mr_change(const mr_classical_rows *rows, const mr_change_work *work);
int mr_change_enqueue(mr_stream *stream, const mr_change_work *work);

#ifdef __cplusplus
}
#endif

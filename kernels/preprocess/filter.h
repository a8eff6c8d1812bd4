/* Filter tables: the weights that resize one axis of a plane.
 *
 * A filter is built once for an axis (source length, region, destination length, interpolation) and then constant.
 * Weights are int16 with `bits` bits after the point; those of one result sum to exactly 1 << bits. `bits` is as large
 * as fits an int16 and keeps every sum within an int32.
 *
 * Definitions, each chosen so that a single plane equals the reference implementation:
 *   nearest   floor(i * scale), OpenCV INTER_NEAREST
 *   bilinear  at centres, borders repeated, OpenCV INTER_LINEAR; antialiased: triangle widened by the scale, cut at
 *             the border and normalised, Pillow BILINEAR
 *   bicubic   Keys' kernel with a = -0.75, borders repeated, OpenCV INTER_CUBIC; antialiased: a = -0.5, widened,
 *             cut and normalised, Pillow BICUBIC
 *   area      share of each source sample that the destination pixel covers, OpenCV INTER_AREA (equal to Pillow BOX if
 *             the scale is a whole number). It antialiases by itself.
 *
 * Ownership: the table owns the arrays. Errors: MR_ERROR_MEMORY. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/pixel.h"
#include "kernels/preprocess/windows.h"

typedef enum mr_interpolation { MR_NEAREST, MR_BILINEAR, MR_BICUBIC, MR_AREA } mr_interpolation;

typedef struct mr_filter {
    int count;        /* results */
    int bits;         /* in weights, after the point */
    int begin, end;   /* samples that the vertical pass makes: begin <= x < end; horizontal: begin is a multiple of
                         64 */
    int taps;         /* most taps per result; horizontal tables: at least 2 */
    int chunks;       /* chunks of 8 taps that every result has, zeros included; 0: a plain table */
    int32_t *first;   /* each result's first source sample; horizontal: less `begin`, padded to whole groups */
    int32_t *length;  /* each result's taps */
    int16_t *weights; /* in mr_filter_weight's order */
    mr_windows windows; /* horizontal tables */
    mr_column_pairs pairs;
    bool blends;      /* each result is a mean of at most two samples: no weight is negative */
} mr_filter;

/* One axis of one plane to resize. Positions are continuous: sample k covers k..k+1. */
typedef struct mr_axis {
    double start, step;   /* destination pixel i covers start + i * step .. start + (i + 1) * step */
    int low, high;        /* samples that may be read: low <= x < high */
    int count;            /* destination pixels */
    bool reverse;         /* the last result first (mirrored) */
    int most_bits;        /* limit on `bits` that keeps sums within an int32 */
    bool horizontal;
} mr_axis;

int mr_filter_init(mr_filter *filter, const mr_axis *axis, mr_interpolation interpolation, bool antialias);
/* Accepts a zeroed or half-built filter. */
void mr_filter_fini(mr_filter *filter);

/* Where result `i` has weight `tap`. Vertical tables, and horizontal ones with two taps, are plain: `taps` weights per
 * result. Wider horizontal tables consist of groups with 16 results. A group has, for each chunk of 8 taps, four
 * 64-byte vectors; vector j holds the chunk for results j, j + 4, j + 8 and j + 12, so that two levels of horizontal
 * adds leave the results in order. */
MR_PIXEL_INLINE int32_t mr_filter_weight(const mr_filter *filter, int i, int tap) {
    if (filter->chunks == 0)
        return i * filter->taps + tap;
    int group = i / 16, lane = i % 16 / 4, vector = i % 4;
    return ((group * filter->chunks + tap / 8) * 4 + vector) * 32 + lane * 8 + tap % 8;
}

/* The rounded mean of a weighted sum, which has half a unit in it, held within 0..limit. */
MR_PIXEL_INLINE int16_t mr_filter_finish(const mr_filter *filter, int32_t sum, int limit) {
    sum >>= filter->bits;
    return (int16_t)(sum < 0 ? 0 : sum > limit ? limit : sum);
}

/* Result `i` of a horizontal filter; `from` is the first sample that has a weight, the others follow `step` apart. */
MR_PIXEL_INLINE int16_t mr_weigh_along(const int16_t *from, int step, const mr_filter *filter, int i, int limit) {
    int32_t sum = 1 << (filter->bits - 1);
    const int16_t *weights = filter->weights + mr_filter_weight(filter, i, 0);
    int taps = filter->length[i];
    /* A chunk's eight weights are contiguous; the next chunk is four vectors later. */
    for (int t = 0; t < taps; t++, from += step)
        sum += *from * weights[filter->chunks ? t / 8 * 128 + t % 8 : t];
    return mr_filter_finish(filter, sum, limit);
}

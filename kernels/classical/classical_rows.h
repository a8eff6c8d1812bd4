/* The row operations for classical features, and the variants that this processor can run (isa.h).
 *
 * Threads: a table must not change once filled. All operations are pure: they touch only their arguments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

/* Votes for a row's or picture's pixels, each kind in a separate array. */
typedef struct mr_votes {
    int32_t *bin;
    float *first, *second;
} mr_votes;

typedef struct mr_classical_rows {
    /* Adds the Laplacian for `width` samples in a row to sums[0] and the squares to sums[1]. Samples before and after
     * the row must be mirrored ones. */
    void (*laplacian)(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below, int width);
    /* How many among `count` bytes differ by more than `noise` (0..254). */
    size_t (*differing)(const uint8_t *a, const uint8_t *b, size_t count, int noise);
    /* Turns red, green and blue rows into hue, saturation and value; needs the tables for mr_to_hsv. */
    void (*to_hsv)(uint8_t *const dst[3], const uint8_t *const src[3], const int32_t *saturation, const int32_t *hue,
                   int width);
    /* Gradients for a row with `width` values: along rows[1], which must have one more on both sides, and from rows[0]
     * above to rows[2] below. If `longer` is set, longer gradients already in dx and dy stay. */
    void (*gradients)(float *dx, float *dy, const float *const rows[3], int width, bool longer);
    /* The votes (mr_hog_vote) for a row of gradients. */
    void (*votes)(const mr_votes *votes, const float *dx, const float *dy, int width, float scale, int bins);
    /* Adds up the votes in a block with width x height pixels, pixel after pixel: sums[bin * lanes + lane] gets the
     * votes for that bin times weights[pixel * lanes + lane]. `lanes` must be a multiple of 4, sums 16-byte and weights
     * 64-byte aligned. */
    void (*gather)(float *sums, const mr_votes *votes, ptrdiff_t stride, const float *weights, int lanes, int width,
                   int height, int bins);
} mr_classical_rows;

/* Fills a table with the best variants up to `most` that this processor can run. */
void mr_classical_rows_init(mr_classical_rows *table, mr_isa most);
/* The table with this processor's best variants, or those that MILLRACE_KERNELS names. Any thread. */
const mr_classical_rows *mr_classical_rows_get(void);

/* Put a variant's operations into the table; called by mr_classical_rows_init. */
void mr_classical_rows_fill_avx2(mr_classical_rows *table);
void mr_classical_rows_fill_neon(mr_classical_rows *table);

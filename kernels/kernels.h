/* The table of row operations that the kernels consist of, and its variants for this processor.
 *
 * The table is filled with the C reference first; AVX2 and AVX-512 then override the operations they improve. All
 * variants of an operation give the same bits: integers because the arithmetic is the same, floats because the
 * operations and their order are, and nothing is contracted (-ffp-contract=off).
 *
 * Threads: a table is constant once filled. All operations are pure: they touch only their arguments. */
#ifndef MILLRACE_KERNELS_H
#define MILLRACE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/filter.h"
#include "kernels/pixel.h"

typedef enum mr_isa { MR_ISA_C, MR_ISA_AVX2, MR_ISA_AVX512, MR_ISA_COUNT } mr_isa;

/* Rows that will be needed soon: `rows` rows of the plane, `stride` bytes apart, fetched into the cache on the
 * way. */
typedef struct mr_ahead {
    const uint8_t *data; /* first of them, at the first column that is read; NULL: none */
    int rows;
} mr_ahead;

/* Weighs `taps` source rows into one: dst[x] = (sum over t of weights[t] * row[t][x] + half) >> shift, in int32.
 * src: the first of the rows, `stride` bytes apart; weights: `taps` int16; width: samples; half is
 * 1 << (shift - 1). */
typedef void mr_vertical8_function(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                                   int taps, int width, int shift, mr_ahead ahead);
/* The same from 16-bit words: a sample is ((word >> down) ^ flip) as int16, `offset` is added to the sum. */
typedef void mr_vertical16_function(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                                    int taps, int width, int shift, mr_word word, mr_ahead ahead);

/* Votes of the pixels of a row or picture, each kind in an array of its own. */
typedef struct mr_votes {
    int32_t *bin;
    float *first, *second;
} mr_votes;

/* Operations of preprocess for which there may be a choice of variants. */
typedef enum mr_kernel_step { MR_STEP_VERTICAL, MR_STEP_HORIZONTAL, MR_STEP_CONVERT, MR_KERNEL_STEPS } mr_kernel_step;

typedef struct mr_kernels {
    mr_isa isa; /* the best variant in this table */
    mr_isa step[MR_KERNEL_STEPS]; /* the variant of each of these */
    mr_vertical8_function *vertical8;
    mr_vertical16_function *vertical16;
    /* Applies a filter along `rows` rows: filter->count results each, held within 0..limit. Row r begins at src + r *
     * src_stride and goes to dst + r * dst_stride (strides in samples). Reads up to 8 * chunks samples past the last
     * one that has a weight. A row of dst has room for a multiple of 16 results. */
    void (*horizontal)(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                       const mr_filter *filter, int limit);
    /* Takes `parts` interleaved components apart: dst[c][x] = src[x * step + offset[c]]. Reads and writes may go up
     * to MR_ROW_SLACK samples past the end. */
    void (*split)(int16_t *const dst[3], const int16_t *src, int step, const int offset[3], int parts, int width);
    /* Three rows of resized components -> three rows of finished floats (see mr_color in pixel.h). dst has room for a
     * multiple of 16 floats, src may be read that far. */
    void (*convert)(float *const dst[3], const int16_t *const src[3], const mr_color *color, int width);
    /* Stores a row of floats as bytes (held within 0..255, rounded half up) or as IEEE half floats (to nearest,
     * even). */
    void (*to_u8)(uint8_t *dst, const float *src, int width);
    void (*to_f16)(uint16_t *dst, const float *src, int width);
    /* Sums of `count` floats and of their squares, in eight lanes (lanes.h defines the order). */
    float (*sum)(const float *src, int count);
    float (*sum_of_squares)(const float *src, int count);
    /* Adds the Laplacian of `width` samples of a row to sums[0] and its squares to sums[1]; samples before and behind
     * the row are mirrored ones. */
    void (*laplacian)(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below, int width);
    /* The number of bytes among `count` that differ by more than `noise` (0..254). */
    size_t (*differing)(const uint8_t *a, const uint8_t *b, size_t count, int noise);
    /* Turns red, green and blue rows into hue, saturation and value; the tables are those of mr_to_hsv. */
    void (*to_hsv)(uint8_t *const dst[3], const uint8_t *const src[3], const int32_t *saturation, const int32_t *hue,
                   int width);
    /* Gradients of a row of `width` values: along rows[1], of which one more is read on both sides, and from rows[0]
     * above to rows[2] below. If `longer` is set, gradients already in dx and dy stay if they are longer. */
    void (*gradients)(float *dx, float *dy, const float *const rows[3], int width, bool longer);
    /* The votes (mr_hog_vote) of a row of gradients. */
    void (*votes)(const mr_votes *votes, const float *dx, const float *dy, int width, float scale, int bins);
    /* Adds up the votes of a block of width x height pixels, pixel after pixel: to sums[bin * lanes + lane] the votes
     * for that bin times weights[pixel * lanes + lane]. `lanes` is a multiple of 4, sums are 16-byte and weights
     * 64-byte aligned. */
    void (*gather)(float *sums, const mr_votes *votes, ptrdiff_t stride, const float *weights, int lanes, int width,
                   int height, int bins);
} mr_kernels;

enum { MR_ROW_SLACK = 64 };

/* Fills a table with the best variants up to `max_isa` that this processor has. */
void mr_kernels_init(mr_kernels *kernels, mr_isa max_isa);
/* The best instruction set of this processor that kernels are written for, and its name ("c", "avx2", "avx512"). */
mr_isa mr_isa_detect(void);
const char *mr_isa_name(mr_isa isa);

/* The AVX2 variants of `vertical8` and `horizontal`, for the cases that the wider ones leave. */
void mr_vertical8_avx2(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                       int shift, mr_ahead ahead);
void mr_horizontal_avx2(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                        const mr_filter *filter, int limit);

/* Put each variant's operations into the table; called by mr_kernels_init. */
void mr_kernels_fill_preprocess_c(mr_kernels *kernels);
void mr_kernels_fill_preprocess_avx2(mr_kernels *kernels);
void mr_kernels_fill_preprocess_avx512(mr_kernels *kernels);
void mr_kernels_fill_vector_c(mr_kernels *kernels);
void mr_kernels_fill_vector_avx2(mr_kernels *kernels);
void mr_kernels_fill_classical_c(mr_kernels *kernels);
void mr_kernels_fill_classical_avx2(mr_kernels *kernels);

#endif

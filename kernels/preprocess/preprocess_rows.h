/* The row operations for preprocess, and the variants that this processor can run (isa.h).
 *
 * Threads: a table must not change once filled. All operations are pure: they touch only their arguments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"
#include "kernels/pixel.h"
#include "kernels/preprocess/prefetch.h"
#include "kernels/preprocess/filter.h"

/* Weighs `taps` source rows into one: dst[x] = (sum over t of weights[t] * row[t][x] + half) >> shift, in int32. src:
 * the first row; rows are `stride` bytes apart; weights: `taps` int16; width: samples; half is 1 << (shift - 1). One
 * `ahead` step for each 64 row bytes. */
typedef void mr_vertical8_function(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                                   int taps, int width, int shift, mr_prefetch *ahead);
/* The same from 16-bit words: a sample is ((word >> down) ^ flip) as int16, `offset` is added to the sum. */
typedef void mr_vertical16_function(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                                    int taps, int width, int shift, mr_word word, mr_prefetch *ahead);

typedef struct mr_preprocess_rows {
    mr_isa isa; /* the best variant in this table */
    mr_vertical8_function *vertical8;
    mr_vertical16_function *vertical16;
    /* Applies a filter along `rows` rows: filter->count results each, clamped to 0..limit. Row r begins at src + r *
     * src_stride and goes to dst + r * dst_stride (strides in samples). Can read up to MR_ROW_SLACK + 8 * chunks
     * samples past the last one that has a weight. A dst row must have room for a multiple of 16 results and 8 more.
     * Four rows have an `ahead` step for about 8 results. */
    void (*horizontal)(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                       const mr_filter *filter, int limit, mr_prefetch *ahead);
    /* Combines vertical8 and `horizontal`, for two byte rows, or one (taps), and filters that blend and have pairs:
     * makes one result row. `shift` must be 8 or 9; `ahead` is fetched meanwhile. NULL: this processor has no
     * instruction for it. */
    void (*blend8)(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int shift,
                   const mr_filter *filter, int limit, mr_prefetched_rows ahead);
    /* Separates `parts` interleaved components: dst[c][x] = src[x * step + offset[c]]. Can read and write up to
     * MR_ROW_SLACK samples past the end. */
    void (*split)(int16_t *const dst[3], const int16_t *src, int step, const int offset[3], int parts, int width);
    /* Three rows of resized components -> three rows of finished floats (see mr_color in pixel.h). dst must have room
     * for a multiple of 16 floats, and src must be readable that far. */
    void (*convert)(float *const dst[3], const int16_t *const src[3], const mr_color *color, int width);
    /* Stores a row of floats as bytes (held within 0..255, rounded half up) or as IEEE half floats (to nearest,
     * even). */
    void (*to_u8)(uint8_t *dst, const float *src, int width);
    void (*to_f16)(uint16_t *dst, const float *src, int width);
} mr_preprocess_rows;

enum { MR_ROW_SLACK = 64 };

/* The AVX2 variants of `vertical8` and `horizontal`, for cases that the wider ones cannot handle. */
void mr_vertical8_avx2(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                       int shift, mr_prefetch *ahead);
void mr_horizontal_avx2(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                        const mr_filter *filter, int limit, mr_prefetch *ahead);

/* Fills a table with the best variants up to `most` that this processor can run. */
void mr_preprocess_rows_init(mr_preprocess_rows *table, mr_isa most);
/* The table for this process. Any thread. */
const mr_preprocess_rows *mr_preprocess_rows_get(void);

/* Put a variant's operations into the table; called by mr_preprocess_rows_init. */
void mr_preprocess_rows_fill_avx2(mr_preprocess_rows *table);
void mr_preprocess_rows_fill_neon(mr_preprocess_rows *table);
void mr_preprocess_rows_fill_avx512(mr_preprocess_rows *table);
/* Operations that AVX-512 VNNI improves; does nothing on a processor that lacks it. */
void mr_preprocess_rows_fill_vnni(mr_preprocess_rows *table);

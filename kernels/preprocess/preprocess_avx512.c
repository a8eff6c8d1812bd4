/* The row operations that gain from AVX-512; the others stay those of AVX2. Bit for bit equal to the C reference. */
#include <immintrin.h>

#include "kernels/preprocess/preprocess_rows.h"

typedef __m512 wide;
#define WIDE_LANES               16
#define WIDE_INTEGERS            __m512i
#define WIDE(operation)          _mm512_##operation
#define WIDE_LOAD_I16(addresses) _mm256_loadu_si256((const void *)(addresses))
#include "kernels/preprocess/convert_wide.h"

enum { BLOCK = 64 }; /* columns of the vertical pass that are computed at once: one cache line of bytes */

/* Always inlined: sums, positions and constants have to stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

static __m512i load(const void *from) {
    return _mm512_loadu_si512(from);
}

/* Weights of two rows side by side in every 32 bits; of one row if it is the last. */
static __m512i weight_pair(const int16_t *weights, int left) {
    int32_t pair = left > 1 ? (int32_t)((uint32_t)(uint16_t)weights[1] << 16 | (uint16_t)weights[0])
                            : (int32_t)(uint16_t)weights[0];
    return _mm512_set1_epi32(pair);
}

/* `pairs`: the weights of two rows each, or NULL. */
INLINE void vertical8_block(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                            const __m512i *pairs, int taps, int shift) {
    const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi32(1 << (shift - 1));
    const __m128i count = _mm_cvtsi32_si128(shift);
    const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i sum[4] = {half, half, half, half};
#pragma GCC unroll 3
    for (int t = 0; t < taps; t += 2) {
        __m512i pair = pairs ? pairs[t / 2] : weight_pair(weights + t, taps - t);
        __m512i a = load(src + t * stride), b = load(src + (t + 1 < taps ? t + 1 : t) * stride);
        __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
        sum[0] = _mm512_add_epi32(sum[0], _mm512_madd_epi16(_mm512_unpacklo_epi8(low, zero), pair));
        sum[1] = _mm512_add_epi32(sum[1], _mm512_madd_epi16(_mm512_unpackhi_epi8(low, zero), pair));
        sum[2] = _mm512_add_epi32(sum[2], _mm512_madd_epi16(_mm512_unpacklo_epi8(high, zero), pair));
        sum[3] = _mm512_add_epi32(sum[3], _mm512_madd_epi16(_mm512_unpackhi_epi8(high, zero), pair));
    }
    __m512i first = _mm512_packs_epi32(_mm512_sra_epi32(sum[0], count), _mm512_sra_epi32(sum[1], count));
    __m512i second = _mm512_packs_epi32(_mm512_sra_epi32(sum[2], count), _mm512_sra_epi32(sum[3], count));
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi64(first, front, second));
    _mm512_storeu_si512(dst + 32, _mm512_permutex2var_epi64(first, back, second));
}

enum { MOST_FEW = 6 };

/* If `few` is not 0, it is a constant, `taps`, and at most MOST_FEW: the weights stay in registers then. */
INLINE void weigh_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int few,
                      int width, int shift, mr_ahead ahead) {
    __m512i pairs[MOST_FEW / 2];
    const __m512i *given = few ? pairs : NULL;
    const int count = few ? few : taps;
    int x = 0;
#pragma GCC unroll 3
    for (int t = 0; t < few; t += 2)
        pairs[t / 2] = weight_pair(weights + t, few - t);
    for (; x + BLOCK <= width; x += BLOCK) {
        mr_fetch(&ahead);
        vertical8_block(dst + x, src + x, stride, weights, given, count, shift);
    }
    if (x < width && width >= BLOCK) {
        vertical8_block(dst + width - BLOCK, src + width - BLOCK, stride, weights, given, count, shift);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
}

/* Two rows by the narrower variant, which blends them: that is faster than weighing. Area filters of usual sizes have
 * three to six taps. */
static void vertical8_avx512(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int width, int shift, mr_ahead ahead) {
    if (taps <= 2)
        mr_vertical8_avx2(dst, src, stride, weights, taps, width, shift, ahead);
    else if (taps == 3)
        weigh_row(dst, src, stride, weights, taps, 3, width, shift, ahead);
    else if (taps == 4)
        weigh_row(dst, src, stride, weights, taps, 4, width, shift, ahead);
    else if (taps == 5)
        weigh_row(dst, src, stride, weights, taps, 5, width, shift, ahead);
    else if (taps == 6)
        weigh_row(dst, src, stride, weights, taps, 6, width, shift, ahead);
    else
        weigh_row(dst, src, stride, weights, taps, 0, width, shift, ahead);
}

INLINE __m128i load_eight(const int16_t *src) {
    return _mm_loadu_si128((const void *)src);
}

/* 8 samples each from four positions. */
INLINE __m512i load_four(const int16_t *src, int a, int b, int c, int d) {
    __m256i low = _mm256_set_m128i(load_eight(src + b), load_eight(src + a));
    __m256i high = _mm256_set_m128i(load_eight(src + d), load_eight(src + c));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Sums of results j, j + 4, j + 8 and j + 12 in four rows: positions and weights are loaded once for all. */
typedef struct rows {
    __m512i row0, row1, row2, row3;
} rows;

INLINE void weigh_rows(rows *sum, const int16_t *src, ptrdiff_t stride, const int32_t *first,
                       const int16_t *weights) {
    const int a = first[0], b = first[4], c = first[8], d = first[12];
    const int16_t *next = src + 2 * stride;
    const __m512i weight = load(weights);
    sum->row0 = _mm512_add_epi32(sum->row0, _mm512_madd_epi16(load_four(src, a, b, c, d), weight));
    sum->row1 = _mm512_add_epi32(sum->row1, _mm512_madd_epi16(load_four(src + stride, a, b, c, d), weight));
    sum->row2 = _mm512_add_epi32(sum->row2, _mm512_madd_epi16(load_four(next, a, b, c, d), weight));
    sum->row3 = _mm512_add_epi32(sum->row3, _mm512_madd_epi16(load_four(next + stride, a, b, c, d), weight));
}

static void store_results(int16_t *dst, __m512i sum, const mr_filter *filter, int limit) {
    const __m512i half = _mm512_set1_epi32(1 << (filter->bits - 1));
    const __m128i count = _mm_cvtsi32_si128(filter->bits);
    __m256i row = _mm512_cvtsepi32_epi16(_mm512_sra_epi32(_mm512_add_epi32(sum, half), count));
    row = _mm256_min_epi16(_mm256_max_epi16(row, _mm256_setzero_si256()), _mm256_set1_epi16((int16_t)limit));
    _mm256_storeu_si256((void *)dst, row);
}

/* Pairwise sums of neighbours, then again: four vectors of partial sums -> 16 results in order. */
static void store_sixteen(int16_t *dst, __m512i a, __m512i b, __m512i c, __m512i d, const mr_filter *filter,
                          int limit) {
    __m512i first = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i second = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
    store_results(dst, sum, filter, limit);
}

/* The 16 results of a group in four rows. */
static void horizontal_group(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t stride,
                             const mr_filter *filter, int i, int limit) {
    const __m512i zero = _mm512_setzero_si512();
    const int16_t *weights = filter->weights + (ptrdiff_t)i * filter->chunks * 8;
    const int32_t *first = filter->first + i;
    rows a = {zero, zero, zero, zero}, b = a, c = a, d = a;
    for (int chunk = 0; chunk < filter->chunks; chunk++, src += 8, weights += 128) {
        weigh_rows(&a, src, stride, first, weights);
        weigh_rows(&b, src, stride, first + 1, weights + 32);
        weigh_rows(&c, src, stride, first + 2, weights + 64);
        weigh_rows(&d, src, stride, first + 3, weights + 96);
    }
    store_sixteen(dst, a.row0, b.row0, c.row0, d.row0, filter, limit);
    store_sixteen(dst + dst_stride, a.row1, b.row1, c.row1, d.row1, filter, limit);
    store_sixteen(dst + 2 * dst_stride, a.row2, b.row2, c.row2, d.row2, filter, limit);
    store_sixteen(dst + 3 * dst_stride, a.row3, b.row3, c.row3, d.row3, filter, limit);
}

/* Four rows at a time; the rest, and results of two taps, by the narrower variant. */
static void horizontal_avx512(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int count,
                              const mr_filter *filter, int limit) {
    int r = 0;
    for (; filter->chunks && r + 4 <= count; r += 4)
        for (int i = 0; i < filter->count; i += 16)
            horizontal_group(dst + r * dst_stride + i, dst_stride, src + r * src_stride, src_stride, filter, i,
                             limit);
    if (r < count)
        mr_horizontal_avx2(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, count - r, filter,
                           limit);
}

void mr_preprocess_rows_fill_avx512(mr_preprocess_rows *table) {
    table->vertical8 = vertical8_avx512;
    table->horizontal = horizontal_avx512;
    table->convert = convert_wide;
}

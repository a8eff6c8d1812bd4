/* The row operations that gain from AVX-512; the others stay those of AVX2. Bit for bit equal to the C reference. */
#include <immintrin.h>

#include "kernels/kernels.h"

enum { BLOCK = 64 }; /* columns of the vertical pass that are computed at once: one cache line of bytes */

static __m512i load(const void *from) {
    return _mm512_loadu_si512(from);
}

/* Weights of two rows side by side in every 32 bits; of one row where it is the last. */
static __m512i weight_pair(const int16_t *weights, int left) {
    int32_t pair = left > 1 ? (int32_t)((uint32_t)(uint16_t)weights[1] << 16 | (uint16_t)weights[0])
                            : (int32_t)(uint16_t)weights[0];
    return _mm512_set1_epi32(pair);
}

static void fetch(mr_ahead ahead, ptrdiff_t stride, int offset) {
    for (int i = 0; i < ahead.rows; i++)
        _mm_prefetch((const char *)ahead.data + i * stride + offset, _MM_HINT_T0);
}

static void vertical8_block(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                            int shift) {
    const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi32(1 << (shift - 1));
    const __m128i count = _mm_cvtsi32_si128(shift);
    const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i sum[4] = {half, half, half, half};
    for (int t = 0; t < taps; t += 2) {
        __m512i pair = weight_pair(weights + t, taps - t);
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

static void vertical8_avx512(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int width, int shift, mr_ahead ahead) {
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        fetch(ahead, stride, x);
        vertical8_block(dst + x, src + x, stride, weights, taps, shift);
    }
    if (x < width && width >= BLOCK) {
        vertical8_block(dst + width - BLOCK, src + width - BLOCK, stride, weights, taps, shift);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
}

/* 8 samples from each of the positions of results j, j + 4, j + 8 and j + 12. */
static __m512i load_four(const int16_t *src, const int32_t *first) {
    __m256i low = _mm256_set_m128i(_mm_loadu_si128((const void *)(src + first[4])),
                                   _mm_loadu_si128((const void *)(src + first[0])));
    __m256i high = _mm256_set_m128i(_mm_loadu_si128((const void *)(src + first[12])),
                                    _mm_loadu_si128((const void *)(src + first[8])));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Pairwise sums of neighbours, then again: four vectors of partial sums -> 16 results in order. */
static __m512i sum_up(const __m512i sum[4]) {
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[0], sum[1]), _mm512_unpackhi_epi32(sum[0], sum[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[2], sum[3]), _mm512_unpackhi_epi32(sum[2], sum[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

static void horizontal_avx512(int16_t *dst, const int16_t *src, const mr_filter *filter, int limit) {
    const __m512i half = _mm512_set1_epi32(1 << (filter->bits - 1));
    const __m256i low = _mm256_setzero_si256(), high = _mm256_set1_epi16((int16_t)limit);
    const __m128i count = _mm_cvtsi32_si128(filter->bits);
    const int16_t *weights = filter->weights;
    for (int i = 0; i < filter->count; i += 16) {
        __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                          _mm512_setzero_si512()};
        for (int chunk = 0; chunk < filter->chunks; chunk++, weights += 128)
            for (int j = 0; j < 4; j++) {
                __m512i values = load_four(src + chunk * 8, filter->first + i + j);
                sum[j] = _mm512_add_epi32(sum[j], _mm512_madd_epi16(values, load(weights + j * 32)));
            }
        __m512i row = _mm512_sra_epi32(_mm512_add_epi32(sum_up(sum), half), count);
        __m256i words = _mm512_cvtsepi32_epi16(row);
        _mm256_storeu_si256((void *)(dst + i), _mm256_min_epi16(_mm256_max_epi16(words, low), high));
    }
}

void mr_kernels_fill_preprocess_avx512(mr_kernels *kernels) {
    kernels->vertical8 = vertical8_avx512;
    kernels->horizontal = horizontal_avx512;
}

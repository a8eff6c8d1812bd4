/* The row operations with AVX2. Integer arithmetic, and the order of float operations, must be the C reference's, so
 * that results are equal bit for bit. */
#include <immintrin.h>

#include "kernels/preprocess/preprocess_rows.h"

typedef __m256 wide;
#define WIDE_LANES               8
#define WIDE_INTEGERS            __m256i
#define WIDE(operation)          _mm256_##operation
#define WIDE_LOAD_I16(addresses) _mm_loadu_si128((const void *)(addresses))
#include "kernels/preprocess/convert_wide.h"

enum { BLOCK = 64, HALF = BLOCK / 2 }; /* columns in the vertical pass: one cache line at once */

/* Must be inlined, so that sums and constants stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

static __m256i load(const void *from) {
    return _mm256_loadu_si256(from);
}

/* Two samples or weights side by side. */
INLINE int32_t load_two(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof both);
    return both;
}

/* Two rows' weights in every 32 bits. */
INLINE __m256i weight_pair(const int16_t *weights) {
    return _mm256_set1_epi32(load_two(weights));
}

/* A row's weight without another beside it. */
INLINE __m256i last_weight(const int16_t *weight) {
    return _mm256_set1_epi32((uint16_t)*weight);
}

/* Sums for 32 columns, in the order in which unpacking leaves them. */
typedef struct sums {
    __m256i part[4];
} sums;

INLINE sums weigh_columns(sums sum, __m256i a, __m256i b, __m256i weights) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    sum.part[0] = _mm256_add_epi32(sum.part[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weights));
    sum.part[1] = _mm256_add_epi32(sum.part[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weights));
    sum.part[2] = _mm256_add_epi32(sum.part[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weights));
    sum.part[3] = _mm256_add_epi32(sum.part[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weights));
    return sum;
}

INLINE void store_columns(int16_t *dst, sums sum, __m128i count) {
    __m256i first = _mm256_packs_epi32(_mm256_sra_epi32(sum.part[0], count), _mm256_sra_epi32(sum.part[1], count));
    __m256i second = _mm256_packs_epi32(_mm256_sra_epi32(sum.part[2], count), _mm256_sra_epi32(sum.part[3], count));
    _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256((void *)(dst + 16), _mm256_permute2x128_si256(first, second, 0x31));
}

/* A block's columns: the first 32, and 32 from `second`. */
INLINE void vertical8_block(int16_t *dst, const uint8_t *src, int second, ptrdiff_t stride, const int16_t *weights,
                            int taps, int shift) {
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (shift - 1));
    sums left = {{half, half, half, half}}, right = left;
    int t = 0;
    for (; t + 2 <= taps; t += 2, src += 2 * stride) {
        __m256i pair = weight_pair(weights + t);
        left = weigh_columns(left, load(src), load(src + stride), pair);
        right = weigh_columns(right, load(src + second), load(src + stride + second), pair);
    }
    if (t < taps) {
        __m256i last = last_weight(weights + t);
        left = weigh_columns(left, load(src), zero, last);
        right = weigh_columns(right, load(src + second), zero, last);
    }
    store_columns(dst, left, _mm_cvtsi32_si128(shift));
    store_columns(dst + second, right, _mm_cvtsi32_si128(shift));
}

/* For two rows a and b whose weights add up to 1: b plus the rounded product of a - b and a's weight, for which one
 * instruction exists. 16 bits can hold all that. It equals the rounded sum, since no bits of b are shifted away. */
INLINE void blend_sixteen(int16_t *dst, const uint8_t *src, ptrdiff_t stride, __m256i weight, __m128i up) {
    __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)src));
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(src + stride)));
    __m256i part = _mm256_mulhrs_epi16(_mm256_sll_epi16(_mm256_sub_epi16(a, b), up), weight);
    _mm256_storeu_si256((void *)dst, _mm256_add_epi16(_mm256_slli_epi16(b, MR_SAMPLE_BITS), part));
}

/* Whether there are two rows that can be blended: a difference of bytes, shifted up, must fit 16 bits. */
static bool blends(const int16_t *weights, int taps, int shift) {
    return taps == 2 && shift >= 8 && shift <= 15 && weights[0] >= 0 && weights[1] >= 0 &&
           weights[0] + weights[1] == 1 << (shift + MR_SAMPLE_BITS);
}

/* Where a row's last block begins: it can overlap the block before, and the two halves can overlap. */
INLINE int begin_last(int width) {
    return width < BLOCK ? 0 : width - BLOCK;
}

INLINE int second_half(int width) {
    return width < BLOCK ? width - HALF : HALF;
}

INLINE void blend_block(int16_t *dst, const uint8_t *src, int second, ptrdiff_t stride, __m256i weight, __m128i up) {
    blend_sixteen(dst, src, stride, weight, up);
    blend_sixteen(dst + 16, src + 16, stride, weight, up);
    blend_sixteen(dst + second, src + second, stride, weight, up);
    blend_sixteen(dst + second + 16, src + second + 16, stride, weight, up);
}

static void blend_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int width, int shift,
                      mr_prefetch *ahead) {
    const __m256i weight = _mm256_set1_epi16(weights[0]);
    const __m128i up = _mm_cvtsi32_si128(15 - shift);
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        mr_fetch(ahead, x / BLOCK);
        blend_block(dst + x, src + x, HALF, stride, weight, up);
    }
    int last = begin_last(width);
    if (x < width)
        blend_block(dst + last, src + last, second_half(width), stride, weight, up);
}

static void weigh_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                      int shift, mr_prefetch *ahead) {
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        mr_fetch(ahead, x / BLOCK);
        vertical8_block(dst + x, src + x, HALF, stride, weights, taps, shift);
    }
    int last = begin_last(width);
    if (x < width)
        vertical8_block(dst + last, src + last, second_half(width), stride, weights, taps, shift);
}

void mr_vertical8_avx2(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                       int shift, mr_prefetch *ahead) {
    for (int x = 0; width < HALF && x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
    if (width >= HALF && blends(weights, taps, shift))
        blend_row(dst, src, stride, weights, width, shift, ahead);
    else if (width >= HALF)
        weigh_row(dst, src, stride, weights, taps, width, shift, ahead);
}

INLINE void vertical16_block(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int shift, mr_word word) {
    const __m256i start = _mm256_set1_epi32((1 << (shift - 1)) + word.offset);
    const __m256i flip = _mm256_set1_epi16((int16_t)(uint16_t)word.flip);
    const __m128i count = _mm_cvtsi32_si128(shift), down = _mm_cvtsi32_si128(word.down);
    __m256i low = start, high = start;
    for (int t = 0; t < taps; t += 2) {
        __m256i pair = t + 1 < taps ? weight_pair(weights + t) : last_weight(weights + t);
        __m256i a = load(src + t * stride), b = load(src + (t + 1 < taps ? t + 1 : t) * stride);
        a = _mm256_xor_si256(_mm256_srl_epi16(a, down), flip);
        b = _mm256_xor_si256(_mm256_srl_epi16(b, down), flip);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), pair));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), pair));
    }
    __m256i row = _mm256_packs_epi32(_mm256_sra_epi32(low, count), _mm256_sra_epi32(high, count));
    _mm256_storeu_si256((void *)dst, row);
}

static void vertical16_avx2(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                            int width, int shift, mr_word word, mr_prefetch *ahead) {
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        if (x % HALF == 0)
            mr_fetch(ahead, x / HALF);
        vertical16_block(dst + x, src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
    }
    if (x < width && width >= 16) {
        vertical16_block(dst + width - 16, src + 2 * ((ptrdiff_t)width - 16), stride, weights, taps, shift, word);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh16(src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
}

/* Where eight results' samples begin; in registers, unlike an array. */
typedef struct places {
    ptrdiff_t a, b, c, d, e, f, g, h;
} places;

INLINE places load_places(const int32_t *first) {
    return (places){first[0], first[1], first[2], first[3], first[4], first[5], first[6], first[7]};
}

/* Two results' 8 samples each, weighed. */
INLINE __m256i weigh_two(const int16_t *low, const int16_t *high, const int16_t *weights) {
    __m256i both = _mm256_set_m128i(_mm_loadu_si128((const void *)high), _mm_loadu_si128((const void *)low));
    return _mm256_madd_epi16(both, _mm256_load_si256((const void *)weights));
}

/* Sums for results j and j + 4, for each j. */
typedef struct eight {
    __m256i a, b, c, d;
} eight;

INLINE eight weigh_chunk(const int16_t *src, const places *at, const int16_t *weights) {
    return (eight){weigh_two(src + at->a, src + at->e, weights), weigh_two(src + at->b, src + at->f, weights + 32),
                   weigh_two(src + at->c, src + at->g, weights + 64),
                   weigh_two(src + at->d, src + at->h, weights + 96)};
}

/* Eight results in a group: 0..7, or 8..15 if the places and `weights` begin there. */
INLINE __m256i weigh_chunks(const int16_t *src, const places *at, const int16_t *weights, int chunks) {
    eight sum = weigh_chunk(src, at, weights);
    for (int chunk = 1; chunk < chunks; chunk++) {
        const eight more = weigh_chunk(src + 8 * chunk, at, weights + 128 * chunk);
        sum.a = _mm256_add_epi32(sum.a, more.a);
        sum.b = _mm256_add_epi32(sum.b, more.b);
        sum.c = _mm256_add_epi32(sum.c, more.c);
        sum.d = _mm256_add_epi32(sum.d, more.d);
    }
    return _mm256_hadd_epi32(_mm256_hadd_epi32(sum.a, sum.b), _mm256_hadd_epi32(sum.c, sum.d));
}

INLINE __m128i four_pairs(const int16_t *src, ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d) {
    __m128i pairs = _mm_cvtsi32_si128(load_two(src + a));
    pairs = _mm_insert_epi32(pairs, load_two(src + b), 1);
    pairs = _mm_insert_epi32(pairs, load_two(src + c), 2);
    return _mm_insert_epi32(pairs, load_two(src + d), 3);
}

/* Eight results with two taps. */
INLINE __m256i weigh_pairs(const int16_t *src, const places *at, const int16_t *weights) {
    __m128i low = four_pairs(src, at->a, at->b, at->c, at->d), high = four_pairs(src, at->e, at->f, at->g, at->h);
    return _mm256_madd_epi16(_mm256_set_m128i(high, low), load(weights));
}

static void store_sixteen(int16_t *dst, __m256i a, __m256i b, const mr_filter *filter, int limit) {
    const __m256i half = _mm256_set1_epi32(1 << (filter->bits - 1));
    const __m128i count = _mm_cvtsi32_si128(filter->bits);
    a = _mm256_sra_epi32(_mm256_add_epi32(a, half), count);
    b = _mm256_sra_epi32(_mm256_add_epi32(b, half), count);
    __m256i row = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    row = _mm256_min_epi16(_mm256_max_epi16(row, _mm256_setzero_si256()), _mm256_set1_epi16((int16_t)limit));
    _mm256_storeu_si256((void *)dst, row);
}

/* Eight results in each of `rows` rows; loads places once for all. */
INLINE void weigh_eight(__m256i sum[4], const int16_t *src, ptrdiff_t stride, int rows, const int32_t *first,
                        const int16_t *weights, int chunks) {
    const places at = load_places(first);
    for (int r = 0; r < rows; r++, src += stride)
        sum[r] = chunks ? weigh_chunks(src, &at, weights, chunks) : weigh_pairs(src, &at, weights);
}

/* `rows` is constant, at most 4. */
INLINE void horizontal_rows(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                            const mr_filter *filter, int limit, int chunks, mr_prefetch *ahead) {
    const int16_t *weights = filter->weights;
    __m256i low[4], high[4];
    for (int i = 0; i < filter->count; i += 16, weights += chunks ? chunks * 128 : 32) {
        mr_fetch(ahead, 0);
        weigh_eight(low, src, src_stride, rows, filter->first + i, weights, chunks);
        weigh_eight(high, src, src_stride, rows, filter->first + i + 8, weights + 16, chunks);
        for (int r = 0; r < rows; r++)
            store_sixteen(dst + r * dst_stride + i, low[r], high[r], filter, limit);
    }
}

/* If `chunks` is constant, the loop within a result is unrolled. */
INLINE void horizontal(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                       const mr_filter *filter, int limit, int chunks, mr_prefetch *ahead) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        horizontal_rows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, 4, filter, limit, chunks,
                        ahead);
    for (; r < rows; r++)
        horizontal_rows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, 1, filter, limit, chunks,
                        ahead);
}

void mr_horizontal_avx2(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                        const mr_filter *filter, int limit, mr_prefetch *ahead) {
    if (filter->chunks == 0)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 0, ahead);
    else if (filter->chunks == 1)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 1, ahead);
    else if (filter->chunks == 2)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 2, ahead);
    else if (filter->chunks == 3)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 3, ahead);
    else
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, filter->chunks, ahead);
}

/* For 8 results with one component: the byte shuffle for vector k of `step` vectors. */
static __m128i split_mask(int step, int offset, int k) {
    uint8_t mask[16];
    for (int i = 0; i < 8; i++) {
        int at = i * step + offset - 8 * k;
        bool here = at >= 0 && at < 8;
        mask[2 * i] = here ? (uint8_t)(2 * at) : 0x80;
        mask[2 * i + 1] = here ? (uint8_t)(2 * at + 1) : 0x80;
    }
    return _mm_loadu_si128((const void *)mask);
}

static void split_one(int16_t *dst, const int16_t *src, int step, int offset, int width) {
    __m128i mask[4];
    for (int k = 0; k < step; k++)
        mask[k] = split_mask(step, offset, k);
    for (int x = 0; x < width; x += 8) {
        __m128i row = _mm_setzero_si128();
        for (int k = 0; k < step; k++) {
            __m128i part = _mm_loadu_si128((const void *)(src + x * step + 8 * k));
            row = _mm_or_si128(row, _mm_shuffle_epi8(part, mask[k]));
        }
        _mm_storeu_si128((void *)(dst + x), row);
    }
}

static void split_avx2(int16_t *const dst[3], const int16_t *src, int step, const int offset[3], int parts,
                       int width) {
    for (int c = 0; c < parts; c++)
        split_one(dst[c], src, step, offset[c], width);
}

static __m256i round_eight(const float *src) {
    __m256 held = _mm256_min_ps(_mm256_max_ps(_mm256_loadu_ps(src), _mm256_setzero_ps()), _mm256_set1_ps(255.0f));
    return _mm256_cvttps_epi32(_mm256_add_ps(held, _mm256_set1_ps(0.5f)));
}

static void to_u8_avx2(uint8_t *dst, const float *src, int width) {
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        __m256i words = _mm256_packs_epi32(round_eight(src + x), round_eight(src + x + 8));
        words = _mm256_permute4x64_epi64(words, 0xd8);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((void *)(dst + x), bytes);
    }
    for (; x < width; x++)
        dst[x] = mr_float_to_u8(src[x]);
}

static void to_f16_avx2(uint16_t *dst, const float *src, int width) {
    int x = 0;
    for (; x + 8 <= width; x += 8)
        _mm_storeu_si128((void *)(dst + x), _mm256_cvtps_ph(_mm256_loadu_ps(src + x), _MM_FROUND_TO_NEAREST_INT));
    for (; x < width; x++)
        dst[x] = mr_float_to_half(src[x]);
}

void mr_preprocess_rows_fill_avx2(mr_preprocess_rows *table) {
    table->vertical8 = mr_vertical8_avx2;
    table->vertical16 = vertical16_avx2;
    table->horizontal = mr_horizontal_avx2;
    table->split = split_avx2;
    table->convert = convert_wide;
    table->to_u8 = to_u8_avx2;
    table->to_f16 = to_f16_avx2;
}

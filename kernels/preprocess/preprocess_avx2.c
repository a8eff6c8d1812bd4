/* The row operations with AVX2. The same integer arithmetic as the C reference and the same float operations in the
 * same order, so results are equal bit for bit. */
#include <immintrin.h>

#include "kernels/kernels.h"

typedef __m256 wide;
#define WIDE_LANES               8
#define WIDE_INTEGERS            __m256i
#define WIDE(operation)          _mm256_##operation
#define WIDE_LOAD_I16(addresses) _mm_loadu_si128((const void *)(addresses))
#include "kernels/convert_wide.h"

enum { BLOCK = 64, HALF = BLOCK / 2 }; /* columns of the vertical pass: one cache line of bytes at once */

/* Inlined whatever the compiler thinks: sums and constants have to stay in registers. */
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

/* Weights of two rows in every 32 bits. */
INLINE __m256i weight_pair(const int16_t *weights) {
    return _mm256_set1_epi32(load_two(weights));
}

/* The weight of a row that has no other beside it. */
INLINE __m256i last_weight(const int16_t *weight) {
    return _mm256_set1_epi32((uint16_t)*weight);
}

static void fetch(mr_ahead ahead, ptrdiff_t stride, int offset) {
    for (int i = 0; i < ahead.rows; i++)
        _mm_prefetch((const char *)ahead.data + i * stride + offset, _MM_HINT_T1);
}

/* Sums of 32 columns, in the order in which unpacking leaves them. */
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

/* Columns of a block: 32 from its beginning and 32 from `second` on. */
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

/* Of two rows a and b whose weights add up to 1: b, and a's difference to it times a's weight, rounded, for which there
 * is one instruction. 16 bits hold all of that. It equals the rounded sum: b's whole share has no bits that are shifted
 * away. */
INLINE void blend_sixteen(int16_t *dst, const uint8_t *src, ptrdiff_t stride, __m256i weight, __m128i up) {
    __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)src));
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(src + stride)));
    __m256i part = _mm256_mulhrs_epi16(_mm256_sll_epi16(_mm256_sub_epi16(a, b), up), weight);
    _mm256_storeu_si256((void *)dst, _mm256_add_epi16(_mm256_slli_epi16(b, MR_SAMPLE_BITS), part));
}

/* Whether the rows are two that can be blended: a difference of bytes, shifted up, fits into 16 bits. */
static bool blends(const int16_t *weights, int taps, int shift) {
    return taps == 2 && shift >= 8 && shift <= 15 && weights[0] >= 0 && weights[1] >= 0 &&
           weights[0] + weights[1] == 1 << (shift + MR_SAMPLE_BITS);
}

/* Where the last block of a row begins: it may overlap the one before it, and its own halves each other. */
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
                      mr_ahead ahead) {
    const __m256i weight = _mm256_set1_epi16(weights[0]);
    const __m128i up = _mm_cvtsi32_si128(15 - shift);
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        fetch(ahead, stride, x);
        blend_block(dst + x, src + x, HALF, stride, weight, up);
    }
    int last = begin_last(width);
    if (x < width)
        blend_block(dst + last, src + last, second_half(width), stride, weight, up);
}

static void weigh_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                      int shift, mr_ahead ahead) {
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        fetch(ahead, stride, x);
        vertical8_block(dst + x, src + x, HALF, stride, weights, taps, shift);
    }
    int last = begin_last(width);
    if (x < width)
        vertical8_block(dst + last, src + last, second_half(width), stride, weights, taps, shift);
}

void mr_vertical8_avx2(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                       int shift, mr_ahead ahead) {
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
                            int width, int shift, mr_word word, mr_ahead ahead) {
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        if (x % 32 == 0)
            fetch(ahead, stride, 2 * x);
        vertical16_block(dst + x, src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
    }
    if (x < width && width >= 16) {
        vertical16_block(dst + width - 16, src + 2 * ((ptrdiff_t)width - 16), stride, weights, taps, shift, word);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh16(src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
}

/* 8 samples each from two positions, weighed. */
INLINE __m256i weigh_two(const int16_t *src, int i, int k, __m256i weights) {
    __m128i low = _mm_loadu_si128((const void *)(src + i)), high = _mm_loadu_si128((const void *)(src + k));
    return _mm256_madd_epi16(_mm256_set_m128i(high, low), weights);
}

/* Sums of results j and j + 4 in two rows: positions and weights are loaded once for both. */
typedef struct pair {
    __m256i row[2];
} pair;

INLINE pair weigh_pair(pair sum, const int16_t *src, ptrdiff_t stride, const int32_t *first, const int16_t *weights) {
    const __m256i weight = _mm256_load_si256((const void *)weights);
    sum.row[0] = _mm256_add_epi32(sum.row[0], weigh_two(src, first[0], first[4], weight));
    sum.row[1] = _mm256_add_epi32(sum.row[1], weigh_two(src + stride, first[0], first[4], weight));
    return sum;
}

/* Eight results of a group in two rows: 0..7, or 8..15 where `first` and `weights` begin there. */
INLINE pair horizontal_eight(const int16_t *src, ptrdiff_t stride, const int32_t *first, const int16_t *weights,
                             int chunks) {
    const __m256i zero = _mm256_setzero_si256();
    pair a = {{zero, zero}}, b = a, c = a, d = a;
    for (int chunk = 0; chunk < chunks; chunk++, src += 8, weights += 128) {
        a = weigh_pair(a, src, stride, first, weights);
        b = weigh_pair(b, src, stride, first + 1, weights + 32);
        c = weigh_pair(c, src, stride, first + 2, weights + 64);
        d = weigh_pair(d, src, stride, first + 3, weights + 96);
    }
    for (int r = 0; r < 2; r++)
        a.row[r] = _mm256_hadd_epi32(_mm256_hadd_epi32(a.row[r], b.row[r]), _mm256_hadd_epi32(c.row[r], d.row[r]));
    return a;
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

INLINE __m128i four_pairs(const int16_t *src, ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d) {
    __m128i pairs = _mm_cvtsi32_si128(load_two(src + a));
    pairs = _mm_insert_epi32(pairs, load_two(src + b), 1);
    pairs = _mm_insert_epi32(pairs, load_two(src + c), 2);
    return _mm_insert_epi32(pairs, load_two(src + d), 3);
}

/* Eight results of two taps, rounded, in each of `rows` rows: positions are loaded once for all. */
INLINE void weigh_pairs(__m256i result[4], const int16_t *src, ptrdiff_t stride, int rows, const int32_t *first,
                        const int16_t *weights) {
    const ptrdiff_t a = first[0], b = first[1], c = first[2], d = first[3];
    const ptrdiff_t e = first[4], f = first[5], g = first[6], h = first[7];
    const __m256i weight = load(weights);
    for (int r = 0; r < rows; r++, src += stride)
        result[r] = _mm256_madd_epi16(_mm256_set_m128i(four_pairs(src, e, f, g, h), four_pairs(src, a, b, c, d)), weight);
}

/* `rows` is constant, at most 4. */
INLINE void horizontal_pairs(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                             const mr_filter *filter, int limit) {
    __m256i low[4], high[4];
    for (int i = 0; i < filter->count; i += 16) {
        const int16_t *weights = filter->weights + 2 * i;
        weigh_pairs(low, src, src_stride, rows, filter->first + i, weights);
        weigh_pairs(high, src, src_stride, rows, filter->first + i + 8, weights + 16);
        for (int r = 0; r < rows; r++)
            store_sixteen(dst + r * dst_stride + i, low[r], high[r], filter, limit);
    }
}

/* Two rows at a time; of an odd number the last one is done with itself. */
void mr_horizontal_avx2(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                        const mr_filter *filter, int limit) {
    int r = 0;
    for (; filter->chunks == 0 && r + 4 <= rows; r += 4)
        horizontal_pairs(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, 4, filter, limit);
    for (; filter->chunks == 0 && r < rows; r++)
        horizontal_pairs(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, 1, filter, limit);
    for (; r < rows; r += 2) {
        const int16_t *from = src + r * src_stride, *weights = filter->weights;
        int16_t *to = dst + r * dst_stride;
        ptrdiff_t next = r + 1 < rows ? src_stride : 0, next_to = r + 1 < rows ? dst_stride : 0;
        for (int i = 0; i < filter->count; i += 16, weights += filter->chunks * 128) {
            pair a = horizontal_eight(from, next, filter->first + i, weights, filter->chunks);
            pair b = horizontal_eight(from, next, filter->first + i + 8, weights + 16, filter->chunks);
            store_sixteen(to + i, a.row[0], b.row[0], filter, limit);
            store_sixteen(to + next_to + i, a.row[1], b.row[1], filter, limit);
        }
    }
}

/* For 8 results of one component: which bytes of vector k of `step` vectors go where. */
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

void mr_kernels_fill_preprocess_avx2(mr_kernels *kernels) {
    kernels->vertical8 = mr_vertical8_avx2;
    kernels->vertical16 = vertical16_avx2;
    kernels->horizontal = mr_horizontal_avx2;
    kernels->split = split_avx2;
    kernels->convert = convert_wide;
    kernels->to_u8 = to_u8_avx2;
    kernels->to_f16 = to_f16_avx2;
}

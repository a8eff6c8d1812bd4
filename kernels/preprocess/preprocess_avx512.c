/* The row operations that gain from AVX-512; the others stay AVX2. Results must equal the C reference bit for bit. */
#include <immintrin.h>

#include "kernels/preprocess/preprocess_rows.h"

typedef __m512 wide;
#define WIDE_LANES               16
#define WIDE_INTEGERS            __m512i
#define WIDE(operation)          _mm512_##operation
#define WIDE_LOAD_I16(addresses) _mm256_loadu_si256((const void *)(addresses))
#include "kernels/preprocess/convert_wide.h"

enum { BLOCK = 64 }; /* columns in the vertical pass that are computed at once: one cache line */

/* Must be inlined, so that sums, positions and constants stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

static __m512i load(const void *from) {
    return _mm512_loadu_si512(from);
}

/* Adds int16 products to the sums, two neighbours to one sum: AVX-512 needs two instructions, AVX-512 VNNI one. Code
 * for both takes one of these functions as a parameter, which is inlined. */
typedef __m512i add_products_function(__m512i sum, __m512i a, __m512i b);
#define VNNI __attribute__((target("avx512vnni")))

INLINE __m512i add_products(__m512i sum, __m512i a, __m512i b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}

VNNI INLINE __m512i add_products_vnni(__m512i sum, __m512i a, __m512i b) {
    return _mm512_dpwssd_epi32(sum, a, b);
}

/* Two rows' weights side by side in every 32 bits; one row's if it is the last. */
static __m512i weight_pair(const int16_t *weights, int left) {
    int32_t pair = left > 1 ? (int32_t)((uint32_t)(uint16_t)weights[1] << 16 | (uint16_t)weights[0])
                            : (int32_t)(uint16_t)weights[0];
    return _mm512_set1_epi32(pair);
}

/* The upper half of each 32 bits in `odd` and the lower half in `even`, with `shift` bits rounded away: at most 16, as
 * vertical byte filters have. */
INLINE __m512i narrow(__m512i even, __m512i odd, int shift) {
    const __mmask32 upper_words = 0xaaaaaaaa;
    const __m512i low = _mm512_srl_epi32(even, _mm_cvtsi32_si128(shift));
    return _mm512_mask_blend_epi16(upper_words, low, _mm512_sll_epi32(odd, _mm_cvtsi32_si128(16 - shift)));
}

/* `pairs`: two rows' weights each, or NULL. Rows are paired by words, so that each pair gives even and odd columns:
 * fewer shuffles than pairing and widening bytes. */
INLINE void vertical8_block(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights,
                            const __m512i *pairs, int taps, int shift, add_products_function *add) {
    const __m512i byte = _mm512_set1_epi16(0xff), half = _mm512_set1_epi32(1 << (shift - 1));
    const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i even[2] = {half, half}, odd[2] = {half, half};
#pragma GCC unroll 6
    for (int t = 0; t < taps; t += 2) {
        __m512i pair = pairs ? pairs[t / 2] : weight_pair(weights + t, taps - t);
        __m512i a = load(src + t * stride), b = load(src + (t + 1 < taps ? t + 1 : t) * stride);
        __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
        even[0] = add(even[0], _mm512_and_si512(low, byte), pair);
        odd[0] = add(odd[0], _mm512_srli_epi16(low, 8), pair);
        even[1] = add(even[1], _mm512_and_si512(high, byte), pair);
        odd[1] = add(odd[1], _mm512_srli_epi16(high, 8), pair);
    }
    const __m512i first = narrow(even[0], odd[0], shift), second = narrow(even[1], odd[1], shift);
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi64(first, front, second));
    _mm512_storeu_si512(dst + 32, _mm512_permutex2var_epi64(first, back, second));
}

enum { MOST_FEW = 12 }; /* twice the pairs that the loops unroll */

/* A nonzero `few` must be a constant, equal `taps` and be at most MOST_FEW: the weights can then stay in registers. */
INLINE void weigh_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int few,
                      int width, int shift, mr_prefetch *ahead, add_products_function *add) {
    __m512i pairs[MOST_FEW / 2];
    const __m512i *given = few ? pairs : NULL;
    const int count = few ? few : taps;
    int x = 0;
#pragma GCC unroll 6
    for (int t = 0; t < few; t += 2)
        pairs[t / 2] = weight_pair(weights + t, few - t);
    for (; x + BLOCK <= width; x += BLOCK) {
        mr_fetch(ahead, x / BLOCK);
        vertical8_block(dst + x, src + x, stride, weights, given, count, shift, add);
    }
    if (x < width && width >= BLOCK) {
        vertical8_block(dst + width - BLOCK, src + width - BLOCK, stride, weights, given, count, shift, add);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
}

INLINE void weigh_any(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                      int shift, mr_prefetch *ahead, add_products_function *add) {
    switch (taps) {
#define FEW(taps)                                                                                                      \
    case taps:                                                                                                         \
        weigh_row(dst, src, stride, weights, taps, taps, width, shift, ahead, add);                                    \
        break;
        FEW(3) FEW(4) FEW(5) FEW(6) FEW(7) FEW(8) FEW(9) FEW(10) FEW(11) FEW(12)
#undef FEW
    default:
        weigh_row(dst, src, stride, weights, taps, 0, width, shift, ahead, add);
    }
}

/* The narrower variant blends two rows, which is faster than weighing. For usual sizes, area filters need three to six
 * taps, and antialiasing ones up to twelve. */
static void vertical8_avx512(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int width, int shift, mr_prefetch *ahead) {
    if (taps <= 2)
        mr_vertical8_avx2(dst, src, stride, weights, taps, width, shift, ahead);
    else
        weigh_any(dst, src, stride, weights, taps, width, shift, ahead, add_products);
}

VNNI static void vertical8_vnni(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                                int width, int shift, mr_prefetch *ahead) {
    if (taps <= 2)
        mr_vertical8_avx2(dst, src, stride, weights, taps, width, shift, ahead);
    else
        weigh_any(dst, src, stride, weights, taps, width, shift, ahead, add_products_vnni);
}

/* A window's samples in one row. */
typedef struct window {
    __m512i front, back;
} window;

INLINE window load_window(const int16_t *src) {
    return (window){load(src), load(src + MR_WINDOW_SLOTS)};
}

INLINE __m512i find_samples(window samples, __m512i places, bool even) {
    return even ? _mm512_permutex2var_epi32(samples.front, places, samples.back)
                : _mm512_permutex2var_epi16(samples.front, places, samples.back);
}

/* Two rows' sums: each is in two halves, which are added. */
INLINE __m512i add_halves(__m512i row0, __m512i row1) {
    return _mm512_add_epi32(_mm512_shuffle_i64x2(row0, row1, 0x44), _mm512_shuffle_i64x2(row0, row1, 0xee));
}

/* A window's rounded means in four rows. */
INLINE void store_window(int16_t *dst, ptrdiff_t stride, const __m512i sum[4], const mr_filter *filter, int limit) {
    const __m128i count = _mm_cvtsi32_si128(filter->bits);
    const __m512i by_row = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i first = _mm512_sra_epi32(add_halves(sum[0], sum[1]), count);
    __m512i second = _mm512_sra_epi32(add_halves(sum[2], sum[3]), count);
    __m512i all = _mm512_max_epi16(_mm512_packs_epi32(first, second), _mm512_setzero_si512());
    all = _mm512_permutexvar_epi64(by_row, _mm512_min_epi16(all, _mm512_set1_epi16((int16_t)limit)));
    _mm_storeu_si128((void *)dst, _mm512_castsi512_si128(all));
    _mm_storeu_si128((void *)(dst + stride), _mm512_extracti32x4_epi32(all, 1));
    _mm_storeu_si128((void *)(dst + 2 * stride), _mm512_extracti32x4_epi32(all, 2));
    _mm_storeu_si128((void *)(dst + 3 * stride), _mm512_extracti32x4_epi32(all, 3));
}

/* Four rows, for which places and weights are loaded once. */
INLINE void horizontal_windows(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride,
                               const mr_filter *filter, bool even, int limit, mr_prefetch *ahead,
                               add_products_function *add) {
    const mr_windows *w = &filter->windows;
    const __m512i next = even ? _mm512_set1_epi32(MR_WINDOW_TAPS / 2) : _mm512_set1_epi16(MR_WINDOW_TAPS);
    const __m512i half = _mm512_maskz_set1_epi32(0xff, 1 << (filter->bits - 1));
    const int16_t *weights = w->weights;
    for (int k = 0; k < w->count; k++) {
        mr_fetch(ahead, k);
        const int16_t *from = src + w->from[k];
        const window row0 = load_window(from), row1 = load_window(from + src_stride);
        const window row2 = load_window(from + 2 * src_stride), row3 = load_window(from + 3 * src_stride);
        __m512i places = even ? load(w->pairs + k * MR_WINDOW_SLOTS / 2) : load(w->places + k * MR_WINDOW_SLOTS);
        __m512i sum[4] = {half, half, half, half};
        for (int v = 0; v < w->vectors; v++, weights += MR_WINDOW_SLOTS) {
            const __m512i weight = load(weights);
            sum[0] = add(sum[0], find_samples(row0, places, even), weight);
            sum[1] = add(sum[1], find_samples(row1, places, even), weight);
            sum[2] = add(sum[2], find_samples(row2, places, even), weight);
            sum[3] = add(sum[3], find_samples(row3, places, even), weight);
            places = even ? _mm512_add_epi32(places, next) : _mm512_add_epi16(places, next);
        }
        store_window(dst + w->result[k], dst_stride, sum, filter, limit);
    }
}

/* Four rows at a time; the rest, and filters without windows, by the narrower variant. */
INLINE void horizontal_any(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int count,
                           const mr_filter *filter, int limit, mr_prefetch *ahead,
                           add_products_function *add) {
    int r = 0;
    for (; filter->windows.count && r + 4 <= count; r += 4)
        if (filter->windows.even)
            horizontal_windows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, filter, true, limit,
                               ahead, add);
        else
            horizontal_windows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, filter, false,
                               limit, ahead, add);
    if (r < count)
        mr_horizontal_avx2(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride, count - r, filter,
                           limit, ahead);
}

static void horizontal_avx512(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int count,
                              const mr_filter *filter, int limit, mr_prefetch *ahead) {
    horizontal_any(dst, dst_stride, src, src_stride, count, filter, limit, ahead, add_products);
}

VNNI static void horizontal_vnni(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride,
                                 int count, const mr_filter *filter, int limit, mr_prefetch *ahead) {
    horizontal_any(dst, dst_stride, src, src_stride, count, filter, limit, ahead, add_products_vnni);
}

/* ---- two rows and two columns at once: AVX-512 VBMI ------------------------------------------------------------ */

#define VBMI __attribute__((target("avx512vbmi")))

/* Samples for 16 results in one row, as int16. `single` is constant. */
VBMI INLINE __m512i find_pairs(const uint8_t *src, const int32_t *from, __m512i places, bool single) {
    const __mmask64 low_bytes = 0x5555555555555555;
    return single ? _mm512_maskz_permutexvar_epi8(low_bytes, places, load(src + from[0]))
                  : _mm512_maskz_permutex2var_epi8(low_bytes, load(src + from[0]), places, load(src + from[1]));
}

/* Blends as blend_sixteen of the narrower variant does, but only the samples that a result needs. */
VBMI INLINE void blend_pairs(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int shift, const mr_filter *filter, int limit, mr_prefetched_rows ahead, bool single) {
    const mr_column_pairs *p = &filter->pairs;
    const uint8_t *second = taps > 1 ? src + stride : src;
    const __m512i weight = _mm512_set1_epi16(weights[0]), half = _mm512_set1_epi32(1 << (filter->bits - 1));
    const __m128i up = _mm_cvtsi32_si128(15 - shift), count = _mm_cvtsi32_si128(filter->bits);
    const __m256i most = _mm256_set1_epi16((int16_t)limit);
    for (int k = 0, fetched = 0; k < p->count; k++) {
        const int32_t *from = p->from + 2 * k;
        for (; fetched < from[1] + MR_WINDOW; fetched += MR_PREFETCH_LINE)
            mr_fetch_column(&ahead);
        const __m512i places = load(p->places + k * MR_WINDOW_SLOTS);
        const __m512i a = find_pairs(src, from, places, single), b = find_pairs(second, from, places, single);
        const __m512i part = _mm512_mulhrs_epi16(_mm512_sll_epi16(_mm512_sub_epi16(a, b), up), weight);
        const __m512i both = _mm512_add_epi16(_mm512_slli_epi16(b, MR_SAMPLE_BITS), part);
        const __m512i sum = _mm512_madd_epi16(both, load(filter->weights + k * MR_WINDOW_SLOTS));
        const __m256i row = _mm512_cvtepi32_epi16(_mm512_sra_epi32(_mm512_add_epi32(sum, half), count));
        _mm256_storeu_si256((void *)(dst + k * 16), _mm256_min_epi16(row, most));
    }
}

VBMI static void blend8_avx512(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                               int shift, const mr_filter *filter, int limit, mr_prefetched_rows ahead) {
    if (filter->pairs.single)
        blend_pairs(dst, src, stride, weights, taps, shift, filter, limit, ahead, true);
    else
        blend_pairs(dst, src, stride, weights, taps, shift, filter, limit, ahead, false);
}

void mr_preprocess_rows_fill_avx512(mr_preprocess_rows *table) {
    table->vertical8 = vertical8_avx512;
    table->horizontal = horizontal_avx512;
    if (__builtin_cpu_supports("avx512vbmi"))
        table->blend8 = blend8_avx512;
    table->convert = convert_wide;
}

void mr_preprocess_rows_fill_vnni(mr_preprocess_rows *table) {
    if (!__builtin_cpu_supports("avx512vnni"))
        return;
    table->vertical8 = vertical8_vnni;
    table->horizontal = horizontal_vnni;
}

/* The row operations of the classical features with AVX2, equal to the C reference bit for bit: integers because they
 * are exact, floats because each is computed by the same operations in the same order. */
#include <immintrin.h>
#include <string.h>

#include "kernels/classical/classical_pixel.h"
#include "kernels/classical/classical_rows.h"

/* Must be inlined, so that sums stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

static __m256i load(const void *from) {
    return _mm256_loadu_si256(from);
}

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

static __m256i widen(const uint8_t *from) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)from));
}

/* Laplacian for 16 samples, within -1020..1020. */
INLINE __m256i laplacian_of_16(const uint8_t *above, const uint8_t *row, const uint8_t *below) {
    __m256i vertical = _mm256_add_epi16(widen(above), widen(below));
    __m256i horizontal = _mm256_add_epi16(widen(row - 1), widen(row + 1));
    __m256i middle = _mm256_slli_epi16(widen(row), 2);
    return _mm256_sub_epi16(_mm256_add_epi16(vertical, horizontal), middle);
}

static int64_t add_lanes(__m256i lanes) {
    int32_t lane[8];
    int64_t sum = 0;
    _mm256_storeu_si256((void *)lane, lanes);
    for (int i = 0; i < 8; i++)
        sum += lane[i];
    return sum;
}

/* A pair's squares stay below 2^21, so this many pairs fit a 32-bit lane. */
enum { MOST_STEPS = 1000 };

/* Handles the samples between the first and the last in whole vectors; returns the next sample. */
static int laplacian_inside(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below,
                            int width) {
    const __m256i ones = _mm256_set1_epi16(1);
    int x = 1;
    while (x + 16 <= width - 1) {
        __m256i sum = _mm256_setzero_si256(), squares = sum;
        for (int step = 0; step < MOST_STEPS && x + 16 <= width - 1; step++, x += 16) {
            __m256i value = laplacian_of_16(above + x, row + x, below + x);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(value, ones));
            squares = _mm256_add_epi32(squares, _mm256_madd_epi16(value, value));
        }
        sums[0] += add_lanes(sum);
        sums[1] += add_lanes(squares);
    }
    return x;
}

static void laplacian_avx2(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below,
                           int width) {
    int end = laplacian_inside(sums, above, row, below, width);
    for (int x = 0; x < width; x = x == 0 ? end : x + 1) {
        int32_t left = row[mr_mirrored(x - 1, width)], right = row[mr_mirrored(x + 1, width)];
        int32_t value = mr_laplacian(above[x], left, row[x], right, below[x]);
        sums[0] += value;
        sums[1] += value * value;
    }
}

/* ---- change --------------------------------------------------------------------------------------------------- */

static size_t differing_avx2(const uint8_t *a, const uint8_t *b, size_t count, int noise) {
    const __m256i zero = _mm256_setzero_si256(), limit = _mm256_set1_epi8((char)noise);
    size_t same = 0, i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i x = load(a + i), y = load(b + i);
        __m256i apart = _mm256_or_si256(_mm256_subs_epu8(x, y), _mm256_subs_epu8(y, x));
        __m256i within = _mm256_cmpeq_epi8(_mm256_subs_epu8(apart, limit), zero);
        same += (size_t)__builtin_popcount((unsigned)_mm256_movemask_epi8(within));
    }
    size_t found = i - same;
    for (; i < count; i++)
        found += (a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) > noise;
    return found;
}

/* ---- colours -------------------------------------------------------------------------------------------------- */

static __m256i widen_eight(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
}

static void store_eight(uint8_t *to, __m256i values) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    _mm_storel_epi64((void *)to, _mm_packus_epi16(words, words));
}

INLINE __m256i round_shift(__m256i value) {
    return _mm256_srai_epi32(_mm256_add_epi32(value, _mm256_set1_epi32(1 << (MR_HSV_SHIFT - 1))), MR_HSV_SHIFT);
}

INLINE void hsv_of_8(uint8_t *const dst[3], const uint8_t *const src[3], int x, const int32_t *saturation,
                     const int32_t *hue) {
    __m256i r = widen_eight(src[0] + x), g = widen_eight(src[1] + x), b = widen_eight(src[2] + x);
    __m256i most = _mm256_max_epi32(_mm256_max_epi32(r, g), b);
    __m256i spread = _mm256_sub_epi32(most, _mm256_min_epi32(_mm256_min_epi32(r, g), b));
    __m256i from_green = _mm256_add_epi32(_mm256_sub_epi32(b, r), _mm256_slli_epi32(spread, 1));
    __m256i from_blue = _mm256_add_epi32(_mm256_sub_epi32(r, g), _mm256_slli_epi32(spread, 2));
    __m256i sixths = _mm256_blendv_epi8(from_blue, from_green, _mm256_cmpeq_epi32(most, g));
    sixths = _mm256_blendv_epi8(sixths, _mm256_sub_epi32(g, b), _mm256_cmpeq_epi32(most, r));
    __m256i angle = round_shift(_mm256_mullo_epi32(sixths, _mm256_i32gather_epi32(hue, spread, 4)));
    __m256i below = _mm256_and_si256(_mm256_srai_epi32(angle, 31), _mm256_set1_epi32(MR_HUES));
    store_eight(dst[0] + x, _mm256_add_epi32(angle, below));
    store_eight(dst[1] + x, round_shift(_mm256_mullo_epi32(spread, _mm256_i32gather_epi32(saturation, most, 4))));
    store_eight(dst[2] + x, most);
}

static void to_hsv_avx2(uint8_t *const dst[3], const uint8_t *const src[3], const int32_t *saturation,
                        const int32_t *hue, int width) {
    int x = 0;
    for (; x + 8 <= width; x += 8)
        hsv_of_8(dst, src, x, saturation, hue);
    for (; x < width; x++) {
        mr_hsv pixel = mr_to_hsv(src[0][x], src[1][x], src[2][x], saturation, hue);
        dst[0][x] = pixel.h;
        dst[1][x] = pixel.s;
        dst[2][x] = pixel.v;
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

INLINE __m256 squared(__m256 dx, __m256 dy) {
    return _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
}

static void gradients_avx2(float *dx, float *dy, const float *const rows[3], int width, bool longer) {
    int x = 0;
    for (; x + 8 <= width; x += 8) {
        __m256 across = _mm256_sub_ps(_mm256_loadu_ps(rows[1] + x + 1), _mm256_loadu_ps(rows[1] + x - 1));
        __m256 down = _mm256_sub_ps(_mm256_loadu_ps(rows[2] + x), _mm256_loadu_ps(rows[0] + x));
        if (longer) {
            __m256 a = _mm256_loadu_ps(dx + x), b = _mm256_loadu_ps(dy + x);
            __m256 keep = _mm256_cmp_ps(squared(across, down), squared(a, b), _CMP_LT_OQ);
            across = _mm256_blendv_ps(across, a, keep);
            down = _mm256_blendv_ps(down, b, keep);
        }
        _mm256_storeu_ps(dx + x, across);
        _mm256_storeu_ps(dy + x, down);
    }
    for (; x < width; x++) {
        mr_gradient here = {rows[1][x + 1] - rows[1][x - 1], rows[2][x] - rows[0][x]};
        if (longer)
            here = mr_longer_gradient((mr_gradient){dx[x], dy[x]}, here);
        dx[x] = here.dx;
        dy[x] = here.dy;
    }
}

INLINE __m256 step(__m256 sum, __m256 s, float next) {
    return _mm256_add_ps(_mm256_mul_ps(sum, s), _mm256_set1_ps(next));
}

/* mr_quarter_turns for eight. */
INLINE __m256 quarter_turns(__m256 dx, __m256 dy) {
    const __m256 sign = _mm256_set1_ps(-0.0f), zero = _mm256_setzero_ps();
    __m256 ax = _mm256_andnot_ps(sign, dx), ay = _mm256_andnot_ps(sign, dy);
    __m256 steep = _mm256_cmp_ps(ax, ay, _CMP_GT_OQ);
    __m256 most = _mm256_blendv_ps(ay, ax, steep), least = _mm256_blendv_ps(ax, ay, steep);
    __m256 q = _mm256_div_ps(least, _mm256_max_ps(most, _mm256_set1_ps(1e-30f))), s = _mm256_mul_ps(q, q);
    __m256 t = _mm256_set1_ps(-0.00258125196f);
    t = step(t, s, 0.0139185603f);
    t = step(t, s, -0.0355952253f);
    t = step(t, s, 0.0613844698f);
    t = step(t, s, -0.0885452689f);
    t = step(t, s, 0.126983833f);
    t = step(t, s, -0.212184491f);
    t = step(t, s, 0.63661935f);
    t = _mm256_mul_ps(t, q);
    t = _mm256_blendv_ps(t, _mm256_sub_ps(_mm256_set1_ps(1.0f), t), _mm256_cmp_ps(ay, ax, _CMP_GT_OQ));
    t = _mm256_blendv_ps(t, _mm256_sub_ps(_mm256_set1_ps(2.0f), t), _mm256_cmp_ps(dx, zero, _CMP_LT_OQ));
    return _mm256_blendv_ps(t, _mm256_sub_ps(_mm256_set1_ps(4.0f), t), _mm256_cmp_ps(dy, zero, _CMP_LT_OQ));
}

INLINE __m256i wrapped(__m256i bin, int bins) {
    const __m256i all = _mm256_set1_epi32(bins), last = _mm256_set1_epi32(bins - 1);
    __m256i below = _mm256_and_si256(_mm256_srai_epi32(bin, 31), all);
    __m256i above = _mm256_and_si256(_mm256_cmpgt_epi32(bin, last), all);
    return _mm256_sub_epi32(_mm256_add_epi32(bin, below), above);
}

static void votes_avx2(const mr_votes *votes, const float *dx, const float *dy, int width, float scale, int bins) {
    int x = 0;
    for (; x + 8 <= width; x += 8) {
        __m256 a = _mm256_loadu_ps(dx + x), b = _mm256_loadu_ps(dy + x);
        __m256 length = _mm256_sqrt_ps(squared(a, b));
        __m256 position = _mm256_sub_ps(_mm256_mul_ps(quarter_turns(a, b), _mm256_set1_ps(scale)),
                                        _mm256_set1_ps(0.5f));
        __m256 low = _mm256_floor_ps(position), rest = _mm256_sub_ps(position, low);
        _mm256_storeu_si256((void *)(votes->bin + x), wrapped(_mm256_cvttps_epi32(low), bins));
        _mm256_storeu_ps(votes->first + x, _mm256_mul_ps(length, _mm256_sub_ps(_mm256_set1_ps(1.0f), rest)));
        _mm256_storeu_ps(votes->second + x, _mm256_mul_ps(length, rest));
    }
    for (; x < width; x++) {
        mr_pixel_vote vote = mr_hog_vote(dx[x], dy[x], scale, bins);
        votes->bin[x] = vote.bin;
        votes->first[x] = vote.first;
        votes->second[x] = vote.second;
    }
}

INLINE void add_share(float *sums, const float *weights, __m128 vote) {
    _mm_store_ps(sums, _mm_add_ps(_mm_load_ps(sums), _mm_mul_ps(_mm_load_ps(weights), vote)));
}

static void gather_avx2(float *sums, const mr_votes *votes, ptrdiff_t stride, const float *weights, int lanes,
                        int width, int height, int bins) {
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, weights += lanes) {
            ptrdiff_t at = y * stride + x;
            int bin = votes->bin[at], next = bin + 1 < bins ? bin + 1 : 0;
            __m128 first = _mm_set1_ps(votes->first[at]), second = _mm_set1_ps(votes->second[at]);
            for (int i = 0; i < lanes; i += 4) {
                add_share(sums + bin * lanes + i, weights + i, first);
                add_share(sums + next * lanes + i, weights + i, second);
            }
        }
}

void mr_classical_rows_fill_avx2(mr_classical_rows *table) {
    table->laplacian = laplacian_avx2;
    table->differing = differing_avx2;
    table->to_hsv = to_hsv_avx2;
    table->gradients = gradients_avx2;
    table->votes = votes_avx2;
    table->gather = gather_avx2;
}

/* Float sums with AVX2, in the order that lanes.h defines. */
#include <immintrin.h>

#include "kernels/vector/vector_rows.h"

/* The last elements in their lanes, followed by zeros: adding +0 cannot change a sum that began at +0. */
static __m256 load_rest(const float *src, int count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(src, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
}

static float join_lanes(__m256 lanes) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static float sum_avx2(const float *src, int count) {
    __m256 lanes = _mm256_setzero_ps();
    int i = 0;
    for (; i + 8 <= count; i += 8)
        lanes = _mm256_add_ps(lanes, _mm256_loadu_ps(src + i));
    return join_lanes(_mm256_add_ps(lanes, load_rest(src + i, count - i)));
}

static float sum_of_squares_avx2(const float *src, int count) {
    __m256 lanes = _mm256_setzero_ps();
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 value = _mm256_loadu_ps(src + i);
        lanes = _mm256_add_ps(lanes, _mm256_mul_ps(value, value));
    }
    __m256 rest = load_rest(src + i, count - i);
    return join_lanes(_mm256_add_ps(lanes, _mm256_mul_ps(rest, rest)));
}

static float dot_avx2(const float *a, const float *b, int count) {
    __m256 lanes = _mm256_setzero_ps();
    int i = 0;
    for (; i + 8 <= count; i += 8)
        lanes = _mm256_add_ps(lanes, _mm256_mul_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    return join_lanes(_mm256_add_ps(lanes, _mm256_mul_ps(load_rest(a + i, count - i), load_rest(b + i, count - i))));
}

void mr_vector_rows_fill_avx2(mr_vector_rows *table) {
    table->sum = sum_avx2;
    table->sum_of_squares = sum_of_squares_avx2;
    table->dot = dot_avx2;
}

/* The row operations for reduced JPEG pictures with AVX2. The integer arithmetic must be the C reference's, so that
 * results are equal bit for bit. */
#include <immintrin.h>

#include "kernels/jpeg/jpeg_rows.h"

/* Two blocks' four samples, each in a half, in 32 bits: a sum of four 16-bit numbers needs 18. */
static __m256i four_samples(const int16_t *blocks, __m256i factors) {
    const __m256i half = _mm256_setr_epi16(4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0);
    const __m256i first_two = _mm256_set1_epi32(0x03020100), others = _mm256_set1_epi32(0x09080504);
    const __m256i signs = _mm256_set1_epi64x((long long)0xffff000100010001); /* 1, 1, 1, -1 */
    const __m256i signs_of_others = _mm256_setr_epi16(1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1, 1);
    __m256i two = _mm256_mullo_epi16(_mm256_loadu_si256((const void *)blocks), factors);
    two = _mm256_add_epi16(two, half);
    __m256i mean = _mm256_madd_epi16(_mm256_shuffle_epi8(two, first_two), signs);
    __m256i rest = _mm256_madd_epi16(_mm256_shuffle_epi8(two, others), signs_of_others);
    return _mm256_srai_epi32(_mm256_add_epi32(mean, rest), 3);
}

/* Eight blocks: the even ones are in the lower half of the vectors, the odd ones in the upper. */
static void put_eight(uint8_t *const rows[2], int at, const int16_t *blocks, __m256i factors) {
    const __m256i by_row = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12,
                                            13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i front = _mm256_packs_epi32(four_samples(blocks, factors), four_samples(blocks + 16, factors));
    __m256i back = _mm256_packs_epi32(four_samples(blocks + 32, factors), four_samples(blocks + 48, factors));
    __m256i samples = _mm256_shuffle_epi8(_mm256_packus_epi16(front, back), by_row);
    __m128i even = _mm256_castsi256_si128(samples), odd = _mm256_extracti128_si256(samples, 1);
    _mm_storeu_si128((void *)(rows[0] + at), _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128((void *)(rows[1] + at), _mm_unpackhi_epi16(even, odd));
}

static void fours_avx2(uint8_t *const rows[2], const int16_t *blocks, int count, const int16_t factors[MR_JPEG_LOW]) {
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)factors));
    for (int i = 0; i < count; i += MR_JPEG_AT_ONCE)
        put_eight(rows, MR_JPEG_FOUR * i, blocks + MR_JPEG_LOW * i, both);
}

void mr_jpeg_rows_fill_avx2(mr_jpeg_rows *table) {
    table->fours = fours_avx2;
}

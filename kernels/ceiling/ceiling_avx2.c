#include <immintrin.h>

#include "kernels/ceiling/ceiling_rows.h"

enum { LANES = 8, CHAINS = 12 };

static void run_chains(uint32_t *dst, const uint32_t *src, int rounds) {
    const __m256i weights = _mm256_set1_epi32((int)((uint32_t)MR_PRODUCT_HIGH << 16 | (MR_PRODUCT_LOW & 0xffff)));
    __m256i x[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm256_loadu_si256((const __m256i *)(const void *)(src + c * LANES));
    for (int round = 0; round < rounds; round++)
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm256_add_epi32(x[c], _mm256_madd_epi16(x[c], weights));
    for (int c = 0; c < CHAINS; c++)
        _mm256_storeu_si256((__m256i *)(void *)(dst + c * LANES), x[c]);
}

void mr_products_avx2(uint32_t *dst, const uint32_t *src, int rounds) {
    for (int i = 0; i < MR_PRODUCT_LANES; i += LANES * CHAINS)
        run_chains(dst + i, src + i, rounds);
}

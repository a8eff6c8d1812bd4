#include <immintrin.h>

#include "kernels/ceiling/ceiling_rows.h"

enum { LANES = 16, CHAINS = MR_PRODUCT_LANES / LANES };

void mr_products_avx512(uint32_t *dst, const uint32_t *src, int rounds) {
    const __m512i weights = _mm512_set1_epi32((int)((uint32_t)MR_PRODUCT_HIGH << 16 | (MR_PRODUCT_LOW & 0xffff)));
    __m512i x[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm512_loadu_si512(src + c * LANES);
    for (int round = 0; round < rounds; round++)
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm512_add_epi32(x[c], _mm512_madd_epi16(x[c], weights));
    for (int c = 0; c < CHAINS; c++)
        _mm512_storeu_si512(dst + c * LANES, x[c]);
}

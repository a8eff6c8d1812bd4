#include "kernels/ceiling/ceiling_rows.h"

void mr_products_c(uint32_t *dst, const uint32_t *src, int rounds) {
    for (int i = 0; i < MR_PRODUCT_LANES; i++) {
        uint32_t x = src[i];
        for (int round = 0; round < rounds; round++)
            x = mr_product_round(x);
        dst[i] = x;
    }
}

mr_products_function *mr_products_up_to(mr_isa most) {
    static mr_products_function *const variants[MR_ISA_COUNT] = {mr_products_c, mr_products_avx2, mr_products_avx512};
    return variants[mr_isa_up_to(most)];
}

mr_products_function *mr_products_best(void) {
    mr_isa named = mr_isa_named();
    return mr_products_up_to(named < MR_ISA_COUNT ? named : MR_ISA_AVX512);
}

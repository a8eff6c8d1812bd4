/* The variants of mr_products that this processor can run (isa.h). A table must not change once filled; any thread. */
#pragma once

#include <stdint.h>

#include "kernels/isa.h"
#include "kernels/pixel.h"

/* Numbers computed side by side: enough vectors that none must wait for its own result. */
enum { MR_PRODUCT_LANES = 192, MR_PRODUCT_LOW = 3, MR_PRODUCT_HIGH = -5 };

/* One round for a number: weighs both halves, as signed 16-bit integers, and adds them, modulo 2^32. */
MR_PIXEL_INLINE uint32_t mr_product_round(uint32_t x) {
    int32_t low = (int16_t)(uint16_t)x, high = (int16_t)(uint16_t)(x >> 16);
    return x + (uint32_t)(low * MR_PRODUCT_LOW + high * MR_PRODUCT_HIGH);
}

/* `rounds` rounds for MR_PRODUCT_LANES numbers. */
typedef void mr_products_function(uint32_t *dst, const uint32_t *src, int rounds);

/* The best variant up to `most` that this processor can run; the same, but MILLRACE_KERNELS can name another. */
mr_products_function *mr_products_up_to(mr_isa most);
mr_products_function *mr_products_best(void);

/* For ceiling_rows.c. */
void mr_products_c(uint32_t *dst, const uint32_t *src, int rounds);
void mr_products_avx2(uint32_t *dst, const uint32_t *src, int rounds);
void mr_products_avx512(uint32_t *dst, const uint32_t *src, int rounds);

/* The row operations for reduced JPEG pictures with NEON. The integer arithmetic must be the C reference's, so that
 * results are equal bit for bit. */
#include <arm_neon.h>

#include "kernels/jpeg/jpeg_rows.h"

/* One number of each of eight blocks, times its factor, in two halves. */
typedef struct numbers {
    int32x4_t low, high;
} numbers;

static numbers widen(int16x8_t value) {
    return (numbers){vmovl_s16(vget_low_s16(value)), vmovl_high_s16(value)};
}

static numbers add(numbers a, numbers b) {
    return (numbers){vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)};
}

static numbers subtract(numbers a, numbers b) {
    return (numbers){vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)};
}

/* One sample of each block. The narrowing cuts at 0..255 like the C reference: first at 16 bits, which changes no
 * number that the second leaves alone. */
static uint8x8_t sample(numbers sum) {
    return vqmovun_s16(vcombine_s16(vqmovn_s32(vshrq_n_s32(sum.low, 3)), vqmovn_s32(vshrq_n_s32(sum.high, 3))));
}

/* Eight blocks. Loads put each block's numbers k and k + 4 side by side. */
static void put_eight(uint8_t *const rows[2], int at, const int16_t *blocks, const int16_t factors[MR_JPEG_LOW]) {
    const int16x8x4_t front = vld4q_s16(blocks), back = vld4q_s16(blocks + 32);
    const int16x8_t mean_of_all = vmulq_n_s16(vuzp1q_s16(front.val[0], back.val[0]), factors[0]);
    const numbers mean = widen(vaddq_s16(mean_of_all, vdupq_n_s16(4)));
    const numbers across = widen(vmulq_n_s16(vuzp1q_s16(front.val[1], back.val[1]), factors[1]));
    const numbers down = widen(vmulq_n_s16(vuzp1q_s16(front.val[2], back.val[2]), factors[2]));
    const numbers corner = widen(vmulq_n_s16(vuzp2q_s16(front.val[0], back.val[0]), factors[4]));
    const numbers left = add(mean, across), right = subtract(mean, across);
    const numbers outer = add(down, corner), inner = subtract(down, corner);
    vst2_u8(rows[0] + at, ((uint8x8x2_t){{sample(add(left, outer)), sample(add(right, inner))}}));
    vst2_u8(rows[1] + at, ((uint8x8x2_t){{sample(subtract(left, outer)), sample(subtract(right, inner))}}));
}

static void fours_neon(uint8_t *const rows[2], const int16_t *blocks, int count, const int16_t factors[MR_JPEG_LOW]) {
    for (int i = 0; i < count; i += MR_JPEG_AT_ONCE)
        put_eight(rows, MR_JPEG_FOUR * i, blocks + MR_JPEG_LOW * i, factors);
}

void mr_jpeg_rows_fill_neon(mr_jpeg_rows *table) {
    table->fours = fours_neon;
}

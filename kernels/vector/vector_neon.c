/* Float sums with NEON, in the order that lanes.h defines. */
#include <arm_neon.h>

#include "kernels/vector/vector_rows.h"

/* Eight lanes in two vectors. */
typedef struct lanes {
    float32x4_t low, high;
} lanes;

static lanes load(const float *src) {
    return (lanes){vld1q_f32(src), vld1q_f32(src + 4)};
}

/* The last elements in their lanes, followed by zeros: adding +0 cannot change a sum that began at +0. */
static lanes load_rest(const float *src, int count) {
    float rest[8] = {0};
    for (int i = 0; i < count; i++)
        rest[i] = src[i];
    return load(rest);
}

static lanes add(lanes sum, lanes value) {
    return (lanes){vaddq_f32(sum.low, value.low), vaddq_f32(sum.high, value.high)};
}

static lanes product(lanes a, lanes b) {
    return (lanes){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

static lanes squared(lanes value) {
    return product(value, value);
}

static float join_lanes(lanes sum) {
    float32x4_t four = vaddq_f32(sum.low, sum.high);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static float sum_neon(const float *src, int count) {
    lanes sum = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int i = 0;
    for (; i + 8 <= count; i += 8)
        sum = add(sum, load(src + i));
    return join_lanes(i < count ? add(sum, load_rest(src + i, count - i)) : sum);
}

static float sum_of_squares_neon(const float *src, int count) {
    lanes sum = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int i = 0;
    for (; i + 8 <= count; i += 8)
        sum = add(sum, squared(load(src + i)));
    return join_lanes(i < count ? add(sum, squared(load_rest(src + i, count - i))) : sum);
}

static float dot_neon(const float *a, const float *b, int count) {
    lanes sum = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int i = 0;
    for (; i + 8 <= count; i += 8)
        sum = add(sum, product(load(a + i), load(b + i)));
    if (i < count)
        sum = add(sum, product(load_rest(a + i, count - i), load_rest(b + i, count - i)));
    return join_lanes(sum);
}

void mr_vector_rows_fill_neon(mr_vector_rows *table) {
    table->sum = sum_neon;
    table->sum_of_squares = sum_of_squares_neon;
    table->dot = dot_neon;
}

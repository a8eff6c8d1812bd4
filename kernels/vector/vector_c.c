/* Sums of floats in C, in the order that lanes.h defines. */
#include "kernels/kernels.h"
#include "kernels/lanes.h"

static float sum_c(const float *src, int count) {
    float lane[MR_LANES] = {0};
    for (int i = 0; i < count; i++)
        lane[i % MR_LANES] += src[i];
    return mr_join_lanes(lane);
}

static float sum_of_squares_c(const float *src, int count) {
    float lane[MR_LANES] = {0};
    for (int i = 0; i < count; i++)
        lane[i % MR_LANES] += src[i] * src[i];
    return mr_join_lanes(lane);
}

void mr_kernels_fill_vector_c(mr_kernels *kernels) {
    kernels->sum = sum_c;
    kernels->sum_of_squares = sum_of_squares_c;
}

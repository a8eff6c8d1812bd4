/* Sums of floats in C. The order is part of the result: eight lanes, lane i taking elements i, i + 8, ...; then
 * lanes i and i + 4, then i and i + 2, then the last two. Every variant keeps it. */
#include "kernels/kernels.h"

static float join_lanes(float lane[8]) {
    for (int half = 4; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static float sum_c(const float *src, int count) {
    float lane[8] = {0};
    for (int i = 0; i < count; i++)
        lane[i % 8] += src[i];
    return join_lanes(lane);
}

static float sum_of_squares_c(const float *src, int count) {
    float lane[8] = {0};
    for (int i = 0; i < count; i++)
        lane[i % 8] += src[i] * src[i];
    return join_lanes(lane);
}

void mr_kernels_fill_vector_c(mr_kernels *kernels) {
    kernels->sum = sum_c;
    kernels->sum_of_squares = sum_of_squares_c;
}

/* The cost of the classical features of one small picture on a GPU: for plans that expect frame rates of cards that are
 * not at hand. Launches and memory traffic are counted by the stage. Pure functions. */
#ifndef MILLRACE_KERNELS_CLASSICAL_CLASSICAL_COST_H
#define MILLRACE_KERNELS_CLASSICAL_CLASSICAL_COST_H

#include "kernels/classical/classical.h"

typedef struct mr_classical_cost {
    double pixels;       /* times that warps work on up to 32 pixels: MR_COUNT(pixel) in classical_cuda.cu */
    double votes;        /* times that warps add one pixel to up to 32 numbers: MR_COUNT(vote) */
    double values;       /* times that warps finish up to 32 numbers: MR_COUNT(value); gradients by one lane */
    double instructions; /* of threads; lanes that idle are counted */
} mr_classical_cost;

mr_classical_cost mr_histogram_count(const mr_histogram_params *params);
mr_classical_cost mr_hog_count(const mr_hog_layout *layout);
mr_classical_cost mr_phash_count(void);
mr_classical_cost mr_sharpness_count(int64_t width, int64_t height);
mr_classical_cost mr_change_count(int64_t pixels);

#endif

/* What the classical features of one small picture cost a GPU: for plans that expect frame rates of cards that are not at
 * hand. Launches, and the memory that they go through, are the stage's to say. Pure functions. */
#ifndef MILLRACE_KERNELS_CLASSICAL_CLASSICAL_COST_H
#define MILLRACE_KERNELS_CLASSICAL_CLASSICAL_COST_H

#include "kernels/classical/classical.h"

typedef struct mr_classical_cost {
    double pixels;       /* how often warps work on up to 32 pixels: MR_COUNT(pixel) in kernels/classical/classical_cuda.cu */
    double votes;        /* how often warps add one pixel to up to 32 numbers: MR_COUNT(vote) */
    double values;       /* how often warps finish up to 32 numbers: MR_COUNT(value); of gradients one lane does, one by one */
    double instructions; /* of threads; lanes that idle are counted */
} mr_classical_cost;

mr_classical_cost mr_histogram_count(const mr_histogram_params *params);
mr_classical_cost mr_hog_count(const mr_hog_layout *layout);
mr_classical_cost mr_phash_count(void);
mr_classical_cost mr_sharpness_count(int64_t width, int64_t height);
mr_classical_cost mr_change_count(int64_t pixels);

#endif

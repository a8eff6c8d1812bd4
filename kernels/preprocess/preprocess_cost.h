/* The cost of one picture of a preprocess plan: on a GPU, for plans that expect frame rates of cards that are not at
 * hand, and whatever computes it, for `millrace bench ops`. Pure functions. */
#pragma once

#include "kernels/preprocess/preprocess.h"

typedef struct mr_preprocess_cost {
    double read_bytes; /* of the picture: those that the region needs, each once */
    double operations; /* additions, multiplications and comparisons of values; two for each weight of a sample */
} mr_preprocess_cost;

mr_preprocess_cost mr_preprocess_count(const mr_preprocess *plan);

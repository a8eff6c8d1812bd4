/* What one picture costs in a preprocess plan. The planner needs it for GPU frame rates on absent cards; `millrace
 * bench ops` for any device. Pure functions. */
#pragma once

#include "kernels/preprocess/preprocess.h"

typedef struct mr_preprocess_cost {
    double read_bytes; /* the picture's: those that the region needs, each once */
    double operations; /* additions, multiplications and comparisons; two for each sample weight */
} mr_preprocess_cost;

mr_preprocess_cost mr_preprocess_count(const mr_preprocess *plan);

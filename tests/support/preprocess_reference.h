/* The whole preprocess chain in double precision, one destination pixel at a time, directly from the definitions in
 * kernels/preprocess/preprocess.h and kernels/preprocess/filter.h and the standards' matrices. It must not share code
 * with the kernels. */
#pragma once

#include "kernels/preprocess/preprocess.h"

/* out: 3 x height x width doubles, R, G, B, normalised; a gray result has only the first third. */
void preprocess_reference(double *out, const mr_preprocess_params *params, const mr_format *format,
                          const mr_picture *source);

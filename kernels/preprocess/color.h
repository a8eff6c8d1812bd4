/* A colour conversion's constants, from a picture's format. */
#pragma once

#include "kernels/pixel.h"
#include "millrace/format.h"

/* mean and std are for R, G, B in 0..255. Unknown colour is decided as in kernels/preprocess/preprocess.h. */
mr_color mr_color_plan(const mr_format *source, const mr_pixel_info *info, const double mean[3],
                       const double std[3]);

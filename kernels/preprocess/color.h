/* The constants of a colour conversion, from what a picture says of itself. */
#ifndef MILLRACE_KERNELS_PREPROCESS_COLOR_H
#define MILLRACE_KERNELS_PREPROCESS_COLOR_H

#include "kernels/pixel.h"
#include "millrace/format.h"

/* mean and std are of R, G, B in 0..255. Unknown colour is decided as kernels/preprocess/preprocess.h says. */
mr_color mr_color_plan(const mr_format *source, const mr_pixel_info *info, const double mean[3],
                       const double std[3]);

#endif

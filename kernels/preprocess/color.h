/* Colours of a picture's format: a conversion's constants, and the codes of one colour. */
#pragma once

#include "kernels/pixel.h"
#include "millrace/format.h"

/* mean and std are for R, G, B in 0..255. Unknown colour is decided as in kernels/preprocess/preprocess.h. */
mr_color mr_color_plan(const mr_format *source, const mr_pixel_info *info, const double mean[3],
                       const double std[3]);

/* A colour's codes in a picture: Y, U, V, or R, G, B, or gray's Y, at the depth of its samples. */
void mr_color_codes(const mr_format *picture, const uint8_t rgb[3], uint16_t codes[3]);

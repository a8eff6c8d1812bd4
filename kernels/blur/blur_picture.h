/* Describes pictures and their areas to the work in blur.h. Threads: any. */
#pragma once

#include "kernels/blur/blur.h"
#include "millrace/frame.h"

/* Fills in the components of a picture. */
void mr_blur_describe(mr_blur_work *work, const mr_format *format, const mr_plane *plane);
/* Adds a rectangle in the picture's pixels, rounded outward to whole chroma samples and clipped. Its longer side has at
 * most `cells` cells, which may be MR_BLUR_CELLS. Adds nothing if no part of it lies in the picture. `areas` must have
 * room for it. */
void mr_blur_add(mr_blur_areas *areas, const mr_format *format, int32_t cells, const double corner[2],
                 const double opposite[2]);

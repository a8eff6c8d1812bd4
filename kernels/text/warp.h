/* Upright pictures of quadrilaterals: each pixel is where a projective map leads.
 *
 * Values between pixels are bicubic (Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981, with a
 * = -0.75 as OpenCV has it). Beyond the source's edges its outermost pixels continue. Nothing is averaged: a
 * quadrilateral should be about as large in the result. Chroma planes with fewer samples are warped by the same map.
 *
 * Any pixel layout. Ownership: the caller owns all memory. Errors: none. Any thread. */
#pragma once

#include "kernels/plane/plane.h"
#include "millrace/format.h"
#include "millrace/frame.h"

/* Fills the planes of a picture with the format `to`, which has the pixel layout of `from`. `map` leads from its pixels
 * to those of `from`; both are continuous (millrace/geometry.h). */
void mr_warp(const mr_plane_map *map, const mr_format *from, const mr_plane *source, const mr_format *to,
             const mr_plane *target);

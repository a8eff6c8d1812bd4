/* Float sums, written once as C and as CUDA. The order is part of the result: eight lanes, where lane i takes elements
 * i, i + 8, ...; then lanes i and i + 4, then i and i + 2, then the last two. Every variant must keep it. */
#pragma once

#include <math.h>

#include "kernels/pixel.h"

enum { MR_LANES = 8 };

MR_PIXEL_INLINE float mr_join_lanes(float lane[MR_LANES]) {
    for (int half = MR_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The factor that scales a vector to length 1, from the sum of squares: see mr_normalize_work. */
MR_PIXEL_INLINE float mr_unit_factor(float squares) {
    return (float)(1.0 / fmax(sqrt((double)squares), 1e-12));
}

/* Small picture pixels to R, G and B, written once for every vector width. A source that includes this must first
 * define `wide`, with WIDE_LANES floats; WIDE_INTEGERS, with as many; WIDE(operation), the intrinsic; WIDE_LOAD_I16,
 * which loads as many int16. */
#pragma once

#include "kernels/pixel.h"

static wide widen(const int16_t *src, int less) {
    WIDE_INTEGERS integers = WIDE(cvtepi16_epi32)(WIDE_LOAD_I16(src));
    return WIDE(cvtepi32_ps)(WIDE(sub_epi32)(integers, WIDE(set1_epi32)(less)));
}

static wide times(float factor, wide value) {
    return WIDE(mul_ps)(WIDE(set1_ps)(factor), value);
}

static void finish(float *dst, wide value, const mr_color *color, int channel) {
    wide held = WIDE(min_ps)(WIDE(max_ps)(value, WIDE(setzero_ps)()), WIDE(set1_ps)(255.0f));
    wide centered = WIDE(sub_ps)(held, WIDE(set1_ps)(color->mean[channel]));
    WIDE(storeu_ps)(dst, times(color->scale[channel], centered));
}

static void convert_wide(float *const dst[3], const int16_t *const src[3], const mr_color *given, int width) {
    const mr_color local = *given, *color = &local; /* a copy, which the stores cannot change */
    const wide black = WIDE(set1_ps)(color->black);
    for (int x = 0; x < width; x += WIDE_LANES) {
        wide y = WIDE(sub_ps)(times(color->luma, widen(src[0] + x, 0)), black), g, b, r;
        if (color->rgb) {
            r = y;
            g = WIDE(sub_ps)(times(color->luma, widen(src[1] + x, 0)), black);
            b = WIDE(sub_ps)(times(color->luma, widen(src[2] + x, 0)), black);
        } else {
            wide u = widen(src[1] + x, 8192), v = widen(src[2] + x, 8192);
            r = WIDE(add_ps)(y, times(color->rv, v));
            g = WIDE(sub_ps)(WIDE(sub_ps)(y, times(color->gu, u)), times(color->gv, v));
            b = WIDE(add_ps)(y, times(color->bu, u));
        }
        finish(dst[0] + x, r, color, 0);
        finish(dst[1] + x, g, color, 1);
        finish(dst[2] + x, b, color, 2);
    }
}

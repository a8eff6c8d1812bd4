/* Arithmetic of the classical features, written once: inline functions that compile as C and as CUDA. Integer results
 * are equal in every variant. Floats are too: additions, products, quotients and square roots are rounded as in IEEE
 * 754 and never contracted, and every sum has one order. */
#pragma once

#include <math.h>

#include "kernels/pixel.h"

/* Position `at` in 0..count-1, mirrored at the ends without repeating them: -1 is 1, `count` is count - 2 (OpenCV's
 * BORDER_REFLECT_101). It must be at most one step beyond an end. */
MR_PIXEL_INLINE int32_t mr_mirrored(int32_t at, int32_t count) {
    int32_t inside = at < 0 ? -at : at >= count ? 2 * count - 2 - at : at;
    return inside < 0 || inside >= count ? 0 : inside;
}

/* ---- colours -------------------------------------------------------------------------------------------------- */

enum { MR_HUES = 180, MR_HSV_SHIFT = 12 };
enum { MR_SATURATION_WHOLE = 255 << MR_HSV_SHIFT, MR_HUE_WHOLE = 30 << MR_HSV_SHIFT };

typedef struct mr_hsv {
    uint8_t h, s, v;
} mr_hsv;

/* `whole` / `part` rounded; 0 if part is 0. No quotient of the two wholes above lies half way. */
MR_PIXEL_INLINE int32_t mr_hsv_quotient(int32_t whole, int32_t part) {
    return part ? (2 * whole + part) / (2 * part) : 0;
}

/* Hue in 2 degree steps, 0..179, saturation and value in 0..255: the 8-bit HSV from OpenCV's cvtColor, in its fixed
 * point. The two tables hold mr_hsv_quotient for MR_SATURATION_WHOLE and MR_HUE_WHOLE, 0..255. */
MR_PIXEL_INLINE mr_hsv mr_to_hsv(int32_t r, int32_t g, int32_t b, const int32_t *saturation, const int32_t *hue) {
    const int32_t half = 1 << (MR_HSV_SHIFT - 1);
    int32_t most = r > g ? r : g, least = r < g ? r : g;
    most = most > b ? most : b;
    least = least < b ? least : b;
    int32_t spread = most - least;
    int32_t sixths = most == r ? g - b : most == g ? b - r + 2 * spread : r - g + 4 * spread;
    int32_t angle = (sixths * hue[spread] + half) >> MR_HSV_SHIFT;
    mr_hsv result;
    result.h = (uint8_t)(angle < 0 ? angle + MR_HUES : angle);
    result.s = (uint8_t)((spread * saturation[most] + half) >> MR_HSV_SHIFT);
    result.v = (uint8_t)most;
    return result;
}

/* The index of the part that holds a value, if 0..levels-1 has `bins` equal parts. */
MR_PIXEL_INLINE int32_t mr_bin_of(int32_t value, int32_t bins, int32_t levels) {
    return value * bins / levels;
}

MR_PIXEL_INLINE float mr_share_of(uint32_t count, uint32_t all) {
    return (float)((double)count / (double)all);
}

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

MR_PIXEL_INLINE int32_t mr_laplacian(int32_t above, int32_t left, int32_t middle, int32_t right, int32_t below) {
    return above + left + right + below - 4 * middle;
}

/* The variance of `count` numbers from their sum and their squares' sum, times the square of `scale`. */
MR_PIXEL_INLINE float mr_variance(int64_t sum, int64_t squares, int64_t count, double scale) {
    double mean = (double)sum / (double)count;
    double variance = (double)squares / (double)count - mean * mean;
    return (float)(variance * (scale * scale));
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

/* One pixel's votes in the gradient histograms: `first` for bin `bin`, `second` for the next one. */
typedef struct mr_pixel_vote {
    int32_t bin;
    float first, second;
} mr_pixel_vote;

MR_PIXEL_INLINE float mr_hog_value(uint8_t sample, int32_t gamma) {
    return gamma ? sqrtf((float)sample) : (float)sample;
}

typedef struct mr_gradient {
    float dx, dy;
} mr_gradient;

/* If both are equally long, must take `b`: OpenCV takes the last among red, green and blue. */
MR_PIXEL_INLINE mr_gradient mr_longer_gradient(mr_gradient a, mr_gradient b) {
    return b.dx * b.dx + b.dy * b.dy >= a.dx * a.dx + a.dy * a.dy ? b : a;
}

/* Direction of (dx, dy) in quarter turns, 0 to 4, counted from the first axis towards the second. The arctangent on
 * 0..1 is an odd polynomial, fitted for the smallest greatest error: 2.4e-8 quarter turns. */
MR_PIXEL_INLINE float mr_quarter_turns(float dx, float dy) {
    float ax = fabsf(dx), ay = fabsf(dy);
    float most = ax > ay ? ax : ay, least = ax > ay ? ay : ax;
    float q = least / (most > 1e-30f ? most : 1e-30f), s = q * q;
    float t = -0.00258125196f;
    t = t * s + 0.0139185603f;
    t = t * s + -0.0355952253f;
    t = t * s + 0.0613844698f;
    t = t * s + -0.0885452689f;
    t = t * s + 0.126983833f;
    t = t * s + -0.212184491f;
    t = t * s + 0.63661935f;
    t = t * q;
    t = ay > ax ? 1.0f - t : t;
    t = dx < 0.0f ? 2.0f - t : t;
    return dy < 0.0f ? 4.0f - t : t;
}

/* `scale`: bins in a quarter turn. A direction half way between two bins' centres votes equally for both. */
MR_PIXEL_INLINE mr_pixel_vote mr_hog_vote(float dx, float dy, float scale, int32_t bins) {
    float length = sqrtf(dx * dx + dy * dy);
    float position = mr_quarter_turns(dx, dy) * scale - 0.5f;
    float low = floorf(position), rest = position - low;
    int32_t bin = (int32_t)low;
    mr_pixel_vote vote;
    vote.bin = bin < 0 ? bin + bins : bin >= bins ? bin - bins : bin;
    vote.first = length * (1.0f - rest);
    vote.second = length * rest;
    return vote;
}

/* A pixel's share in its block's cell `cell`, on one axis: 1 at the cell's centre, 0 one cell away. */
MR_PIXEL_INLINE float mr_hog_nearness(int32_t pixel, int32_t cell, int32_t cell_size) {
    float distance = fabsf(((float)pixel + 0.5f) / (float)cell_size - ((float)cell + 0.5f));
    return distance < 1.0f ? 1.0f - distance : 0.0f;
}

/* A vote's weight in one cell: the Gaussian over the block, times the nearness to the cell's centre on both axes. */
MR_PIXEL_INLINE float mr_hog_weight(float bell, float near_x, float near_y) {
    return bell * (near_x * near_y);
}

/* L2-hys: scales to length 1, cuts at `clip`, scales again, with OpenCV's small additions so that nothing can divide by
 * 0. */
MR_PIXEL_INLINE void mr_hog_normalize(float *values, int32_t count, float clip) {
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++)
        sum = sum + values[i] * values[i];
    float scale = 1.0f / (sqrtf(sum) + 0.1f * (float)count);
    sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        float scaled = values[i] * scale;
        values[i] = scaled < clip ? scaled : clip;
        sum = sum + values[i] * values[i];
    }
    scale = 1.0f / (sqrtf(sum) + 1e-3f);
    for (int32_t i = 0; i < count; i++)
        values[i] = values[i] * scale;
}

/* ---- perceptual hash ------------------------------------------------------------------------------------------ */

enum { MR_PHASH_SIDE = 32, MR_PHASH_LOW = 8, MR_PHASH_BITS = 64, MR_PHASH_COSINE_BITS = 20 };

/* Whether value `i` among 64 is one of the middle two. A number's rank counts those before it; equal ones are ordered
 * by position, so there are always two. */
MR_PIXEL_INLINE int mr_is_median(const int64_t *values, int32_t i) {
    int32_t rank = 0;
    for (int32_t k = 0; k < MR_PHASH_BITS; k++)
        rank += values[k] < values[i] || (values[k] == values[i] && k < i);
    return rank == MR_PHASH_BITS / 2 - 1 || rank == MR_PHASH_BITS / 2;
}

/* Twice the median of 64 numbers below 2^61: the two in the middle added. */
MR_PIXEL_INLINE int64_t mr_twice_median(const int64_t *values) {
    int64_t sum = 0;
    for (int32_t i = 0; i < MR_PHASH_BITS; i++)
        if (mr_is_median(values, i))
            sum += values[i];
    return sum;
}

/* Arithmetic of single pixels, written once: inline functions that compile as C and as CUDA.
 *
 * Between the passes a sample is an int16 in units of 1/64 of an 8-bit code, whatever the source depth: 8-bit sample
 * 255 is 16320, 10-bit sample 1023 is 16368. Filters can overshoot to -48..303 codes, which still fits; after the last
 * pass samples must be clamped to the depth's codes.
 *
 * Colour: ITU-R BT.601-7, BT.709-6 and BT.2020-2 (non-constant luminance), from the luma coefficients Kr and Kb:
 *   R = Y + 2 (1 - Kr) Cr,  B = Y + 2 (1 - Kb) Cb,  G = Y - (2 Kb (1 - Kb) Cb + 2 Kr (1 - Kr) Cr) / (1 - Kr - Kb)
 * where Y is 0..1 and Cb, Cr are -0.5..0.5. Limited range: Y = (code - 16) / 219, C = (code - 128) / 224 in 8-bit
 * codes; full range of n bits: Y = code / (2^n - 1), C = (code - 2^(n-1)) / (2^n - 1). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define MR_PIXEL_INLINE static __host__ __device__ inline
#else
#define MR_PIXEL_INLINE static inline
#endif

/* A sample's bits after the point between the passes; gray's chroma sample, 128. */
enum { MR_SAMPLE_BITS = 6, MR_SAMPLE_CENTER = 128 << MR_SAMPLE_BITS };

/* Converts a 16-bit word to a signed sample. 16-bit depths must be shifted by half the range to fit an int16; `offset`
 * corrects the weighted sum. */
typedef struct mr_word {
    int32_t down;   /* bits to shift right (P010: 6) */
    int32_t flip;   /* 0x8000 for 16-bit depths, else 0 */
    int32_t offset; /* added to the weighted sum before it is shifted */
} mr_word;

/* From samples to finished floats. With Y, U, V in 1/64 codes:
 *   y = Y * luma - black;  u = U - 8192;  v = V - 8192
 *   R = y + rv v;  G = (y - gu u) - gv v;  B = y + bu u, each held within 0..255,
 *   result = (value - mean) * scale.
 * rgb: the three samples are R, G, B already and only `luma` and `black` apply to each. */
typedef struct mr_color {
    int32_t rgb;
    float luma, black;
    float rv, gu, gv, bu;
    float mean[3], scale[3]; /* for R, G, B */
} mr_color;

MR_PIXEL_INLINE int32_t mr_word_sample(uint16_t word, mr_word how) {
    return (int16_t)(uint16_t)((word >> how.down) ^ how.flip);
}

/* A 16-bit word at any address. A GPU can read a word at once only if it is aligned, which it nearly always is. */
MR_PIXEL_INLINE uint16_t mr_load16(const uint8_t *src) {
    uint16_t word;
#ifdef __CUDA_ARCH__
    if (((uintptr_t)src & 1) == 0)
        return *(const uint16_t *)(const void *)src;
#endif
    memcpy(&word, src, sizeof word);
    return word;
}

/* One vertical result; see preprocess_rows.h. */
MR_PIXEL_INLINE int16_t mr_weigh8(const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int shift) {
    int32_t sum = 1 << (shift - 1);
    for (int t = 0; t < taps; t++)
        sum += weights[t] * src[t * stride];
    return (int16_t)(sum >> shift);
}

MR_PIXEL_INLINE int16_t mr_weigh16(const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int shift,
                                   mr_word how) {
    int32_t sum = (1 << (shift - 1)) + how.offset;
    for (int t = 0; t < taps; t++)
        sum += weights[t] * mr_word_sample(mr_load16(src + t * stride), how);
    return (int16_t)(sum >> shift);
}

/* Sample `x` in a row without filtering, for `nearest`. */
MR_PIXEL_INLINE int16_t mr_pick(const uint8_t *row, int x, int depth, mr_word how) {
    if (depth <= 8)
        return (int16_t)(row[x] << MR_SAMPLE_BITS);
    uint16_t word = mr_load16(row + 2 * (ptrdiff_t)x);
    return (int16_t)((uint32_t)(word >> how.down) << (8 + MR_SAMPLE_BITS) >> depth);
}

/* On a GPU, fmaxf returns 0 for -0 and for a NaN, and so do these comparisons: both branches must give equal bits. */
MR_PIXEL_INLINE float mr_hold_255(float value) {
#ifdef __CUDA_ARCH__
    return fminf(fmaxf(value, 0.0f), 255.0f);
#else
    float low = value > 0.0f ? value : 0.0f;
    return low < 255.0f ? low : 255.0f;
#endif
}

/* R, G, B, not yet clamped to 0..255, from luma and chroma samples; chroma less MR_SAMPLE_CENTER. */
MR_PIXEL_INLINE void mr_color_from_yuv(const mr_color *color, int32_t luma, int32_t blue, int32_t red, float out[3]) {
    float y = (float)luma * color->luma - color->black, u = (float)blue, v = (float)red;
    out[0] = y + color->rv * v;
    out[1] = (y - color->gu * u) - color->gv * v;
    out[2] = y + color->bu * u;
}

/* Clamps and normalises. */
MR_PIXEL_INLINE void mr_color_finish(const mr_color *color, float out[3]) {
    for (int i = 0; i < 3; i++)
        out[i] = (mr_hold_255(out[i]) - color->mean[i]) * color->scale[i];
}

MR_PIXEL_INLINE void mr_color_convert(const mr_color *color, int16_t a, int16_t b, int16_t c, float out[3]) {
    if (color->rgb) {
        out[0] = (float)a * color->luma - color->black;
        out[1] = (float)b * color->luma - color->black;
        out[2] = (float)c * color->luma - color->black;
    } else {
        mr_color_from_yuv(color, a, b - MR_SAMPLE_CENTER, c - MR_SAMPLE_CENTER, out);
    }
    mr_color_finish(color, out);
}

/* Luma of R, G, B (ITU-R BT.601-7), as in OpenCV's and Pillow's conversions to gray. */
MR_PIXEL_INLINE float mr_luma(float r, float g, float b) {
    return (0.299f * r + 0.587f * g) + 0.114f * b;
}

MR_PIXEL_INLINE uint8_t mr_float_to_u8(float value) {
    return (uint8_t)(mr_hold_255(value) + 0.5f);
}

/* IEEE 754 binary32 -> binary16, round to nearest even; overflow becomes infinity, NaN stays a quiet NaN (a GPU has one
 * NaN only; pixels never are). */
MR_PIXEL_INLINE uint16_t mr_float_to_half(float value) {
#ifdef __CUDA_ARCH__
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000001u)
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23;
    if (exponent < 113) { /* subnormal: the mantissa with its hidden bit is shifted into place */
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u, shift = 126 - exponent;
        uint32_t half = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
        return (uint16_t)(sign | (half + (rest > middle || (rest == middle && (half & 1)))));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded - (112u << 23)) >> 13));
#endif
}

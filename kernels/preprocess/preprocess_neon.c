/* The row operations with NEON. Integer arithmetic, and the order of float operations, must be the C reference's, so
 * that results are equal bit for bit. */
#include <arm_neon.h>

#include "kernels/preprocess/preprocess_rows.h"

enum { BLOCK = 64 }; /* columns in the vertical pass: one cache line at once */

/* Must be inlined, so that sums and constants stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

/* ---- vertical -------------------------------------------------------------------------------------------------- */

/* The lower halves of 32-bit lanes. */
INLINE int16x8_t narrow(int32x4_t low, int32x4_t high) {
    return vuzp1q_s16(vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high));
}

INLINE int16x8_t widen(uint8x8_t samples) {
    return vreinterpretq_s16_u16(vmovl_u8(samples));
}

/* Sums for 16 columns. */
typedef struct sums {
    int32x4_t a, b, c, d;
} sums;

INLINE sums start_sums(int32_t value) {
    const int32x4_t all = vdupq_n_s32(value);
    return (sums){all, all, all, all};
}

INLINE sums weigh(sums sum, int16x8_t low, int16x8_t high, int16x8_t weight) {
    sum.a = vmlal_s16(sum.a, vget_low_s16(low), vget_low_s16(weight));
    sum.b = vmlal_high_s16(sum.b, low, weight);
    sum.c = vmlal_s16(sum.c, vget_low_s16(high), vget_low_s16(weight));
    sum.d = vmlal_high_s16(sum.d, high, weight);
    return sum;
}

INLINE sums weigh_sixteen(sums sum, const uint8_t *src, int16x8_t weight) {
    const uint8x16_t row = vld1q_u8(src);
    return weigh(sum, widen(vget_low_u8(row)), vreinterpretq_s16_u16(vmovl_high_u8(row)), weight);
}

INLINE void store_sixteen(int16_t *dst, sums sum, int32x4_t down) {
    vst1q_s16(dst, narrow(vshlq_s32(sum.a, down), vshlq_s32(sum.b, down)));
    vst1q_s16(dst + 8, narrow(vshlq_s32(sum.c, down), vshlq_s32(sum.d, down)));
}

/* Columns 0 to 15, and 16 from `second`, which can overlap them. */
INLINE void vertical8_block(int16_t *dst, const uint8_t *src, int second, ptrdiff_t stride, const int16_t *weights,
                            int taps, int shift) {
    sums left = start_sums(1 << (shift - 1)), right = left;
    for (int t = 0; t < taps; t++, src += stride) {
        const int16x8_t weight = vld1q_dup_s16(weights + t);
        left = weigh_sixteen(left, src, weight);
        right = weigh_sixteen(right, src + second, weight);
    }
    store_sixteen(dst, left, vdupq_n_s32(-shift));
    store_sixteen(dst + second, right, vdupq_n_s32(-shift));
}

/* For two rows a and b whose weights add up to 1: b plus the rounded product of a - b and a's weight, for which one
 * instruction exists. 16 bits can hold all that. It equals the rounded sum, since no bits of b are shifted away. */
INLINE int16x8_t blend_eight(uint8x8_t a, uint8x8_t b, int16x8_t weight, int16x8_t up) {
    const int16x8_t apart = vshlq_s16(vreinterpretq_s16_u16(vsubl_u8(a, b)), up);
    return vaddq_s16(vreinterpretq_s16_u16(vshll_n_u8(b, MR_SAMPLE_BITS)), vqrdmulhq_s16(apart, weight));
}

INLINE void blend_sixteen(int16_t *dst, const uint8_t *src, ptrdiff_t stride, int16x8_t weight, int16x8_t up) {
    const uint8x16_t a = vld1q_u8(src), b = vld1q_u8(src + stride);
    vst1q_s16(dst, blend_eight(vget_low_u8(a), vget_low_u8(b), weight, up));
    vst1q_s16(dst + 8, blend_eight(vget_high_u8(a), vget_high_u8(b), weight, up));
}

/* Whether there are two rows that can be blended: a difference of bytes, shifted up, must fit 16 bits. */
static bool blends(const int16_t *weights, int taps, int shift) {
    return taps == 2 && shift >= 8 && shift <= 15 && weights[0] >= 0 && weights[1] >= 0 &&
           weights[0] + weights[1] == 1 << (shift + MR_SAMPLE_BITS);
}

static void blend_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int width, int shift,
                      mr_prefetch *ahead) {
    const int16x8_t weight = vdupq_n_s16(weights[0]), up = vdupq_n_s16((int16_t)(15 - shift));
    int x = 0;
    for (; x + BLOCK <= width; x += BLOCK) {
        mr_fetch(ahead, x / BLOCK);
        for (int i = 0; i < BLOCK; i += 16)
            blend_sixteen(dst + x + i, src + x + i, stride, weight, up);
    }
    for (; x + 16 <= width; x += 16)
        blend_sixteen(dst + x, src + x, stride, weight, up);
    if (x < width)
        blend_sixteen(dst + width - 16, src + width - 16, stride, weight, up);
}

static void weigh_row(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps, int width,
                      int shift, mr_prefetch *ahead) {
    int x = 0;
    for (; x + 32 <= width; x += 32) {
        if (x % BLOCK == 0)
            mr_fetch(ahead, x / BLOCK);
        vertical8_block(dst + x, src + x, 16, stride, weights, taps, shift);
    }
    int last = width < 32 ? 0 : width - 32;
    if (x < width)
        vertical8_block(dst + last, src + last, width - 16 - last, stride, weights, taps, shift);
}

static void vertical8_neon(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                           int width, int shift, mr_prefetch *ahead) {
    for (int x = 0; width < 16 && x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
    if (width >= 16 && blends(weights, taps, shift))
        blend_row(dst, src, stride, weights, width, shift, ahead);
    else if (width >= 16)
        weigh_row(dst, src, stride, weights, taps, width, shift, ahead);
}

/* Eight words at any address, as samples. */
INLINE int16x8_t load_words(const uint8_t *src, int16x8_t down, uint16x8_t flip) {
    return vreinterpretq_s16_u16(veorq_u16(vshlq_u16(vreinterpretq_u16_u8(vld1q_u8(src)), down), flip));
}

INLINE void vertical16_block(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int shift, mr_word word) {
    const int16x8_t down = vdupq_n_s16((int16_t)-word.down);
    const uint16x8_t flip = vdupq_n_u16((uint16_t)word.flip);
    sums sum = start_sums((1 << (shift - 1)) + word.offset);
    for (int t = 0; t < taps; t++, src += stride)
        sum = weigh(sum, load_words(src, down, flip), load_words(src + 16, down, flip), vld1q_dup_s16(weights + t));
    store_sixteen(dst, sum, vdupq_n_s32(-shift));
}

static void vertical16_neon(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                            int width, int shift, mr_word word, mr_prefetch *ahead) {
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        if (x % (BLOCK / 2) == 0)
            mr_fetch(ahead, x / (BLOCK / 2));
        vertical16_block(dst + x, src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
    }
    if (x < width && width >= 16) {
        vertical16_block(dst + width - 16, src + 2 * ((ptrdiff_t)width - 16), stride, weights, taps, shift, word);
        return;
    }
    for (; x < width; x++)
        dst[x] = mr_weigh16(src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
}

/* ---- horizontal ------------------------------------------------------------------------------------------------ */

/* Where four results' samples begin; in registers, unlike an array. */
typedef struct places {
    ptrdiff_t a, b, c, d;
} places;

INLINE places load_places(const int32_t *first) {
    return (places){first[0], first[1], first[2], first[3]};
}

/* Adds a result's 8 samples, weighed. */
INLINE int32x4_t weigh_along(int32x4_t sum, const int16_t *src, const int16_t *weights) {
    const int16x8_t samples = vld1q_s16(src), weight = vld1q_s16(weights);
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(samples), vget_low_s16(weight)), samples, weight);
}

/* Four neighbouring results in a group: weights for each are a vector of 32 apart. */
INLINE int32x4_t weigh_chunks(const int16_t *src, places at, const int16_t *weights, int chunks) {
    sums sum = start_sums(0);
    for (int chunk = 0; chunk < chunks; chunk++, src += 8, weights += 128) {
        sum.a = weigh_along(sum.a, src + at.a, weights);
        sum.b = weigh_along(sum.b, src + at.b, weights + 32);
        sum.c = weigh_along(sum.c, src + at.c, weights + 64);
        sum.d = weigh_along(sum.d, src + at.d, weights + 96);
    }
    return vpaddq_s32(vpaddq_s32(sum.a, sum.b), vpaddq_s32(sum.c, sum.d));
}

/* Two samples side by side. */
INLINE int32_t load_two(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof both);
    return both;
}

/* Four results with two taps. */
INLINE int32x4_t weigh_pairs(const int16_t *src, places at, const int16_t *weights) {
    int32x4_t pairs = vdupq_n_s32(load_two(src + at.a));
    pairs = vsetq_lane_s32(load_two(src + at.b), pairs, 1);
    pairs = vsetq_lane_s32(load_two(src + at.c), pairs, 2);
    pairs = vsetq_lane_s32(load_two(src + at.d), pairs, 3);
    const int16x8_t samples = vreinterpretq_s16_s32(pairs), weight = vld1q_s16(weights);
    return vpaddq_s32(vmull_s16(vget_low_s16(samples), vget_low_s16(weight)), vmull_high_s16(samples, weight));
}

/* Rounds eight sums to samples. Narrowing cuts at 0. */
INLINE void store_eight(int16_t *dst, int32x4_t low, int32x4_t high, int32x4_t down, uint16x8_t limit) {
    const uint16x4_t half = vqmovun_s32(vrshlq_s32(low, down));
    vst1q_s16(dst, vreinterpretq_s16_u16(vminq_u16(vqmovun_high_s32(half, vrshlq_s32(high, down)), limit)));
}

/* Eight results in each of `rows` rows, at most 4; loads places once for all. */
INLINE void weigh_eight(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                        const int32_t *first, const int16_t *weights, int chunks, int32x4_t down, uint16x8_t limit) {
    const places at = load_places(first), then = load_places(first + 4);
    for (int r = 0; r < rows; r++, src += src_stride, dst += dst_stride) {
        const int32x4_t low = chunks ? weigh_chunks(src, at, weights, chunks) : weigh_pairs(src, at, weights);
        const int32x4_t high = chunks ? weigh_chunks(src, then, weights + 8, chunks)
                                      : weigh_pairs(src, then, weights + 8);
        store_eight(dst, low, high, down, limit);
    }
}

/* If `chunks` is constant, the loop within a result is unrolled. */
INLINE void horizontal_rows(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                            const mr_filter *filter, int limit, int chunks, mr_prefetch *ahead) {
    const int32x4_t down = vdupq_n_s32(-filter->bits);
    const uint16x8_t most = vdupq_n_u16((uint16_t)limit);
    const int16_t *weights = filter->weights;
    const int32_t *first = filter->first;
    /* The two halves of a group lie 16 weights apart. */
    for (int i = 0; i < filter->count; i += 16, weights += chunks ? chunks * 128 : 32) {
        mr_fetch(ahead, 0);
        weigh_eight(dst + i, dst_stride, src, src_stride, rows, first + i, weights, chunks, down, most);
        weigh_eight(dst + i + 8, dst_stride, src, src_stride, rows, first + i + 8, weights + 16, chunks, down, most);
    }
}

INLINE void horizontal(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                       const mr_filter *filter, int limit, int chunks, mr_prefetch *ahead) {
    for (int r = 0; r < rows; r += 4)
        horizontal_rows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride,
                        rows - r < 4 ? rows - r : 4, filter, limit, chunks, ahead);
}

static void horizontal_neon(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                            const mr_filter *filter, int limit, mr_prefetch *ahead) {
    if (filter->chunks == 0)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 0, ahead);
    else if (filter->chunks == 1)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 1, ahead);
    else if (filter->chunks == 2)
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, 2, ahead);
    else
        horizontal(dst, dst_stride, src, src_stride, rows, filter, limit, filter->chunks, ahead);
}

/* ---- components ------------------------------------------------------------------------------------------------ */

/* The part at `offset` of 8 times `step` samples. Both are constant. */
INLINE int16x8_t load_part(const int16_t *src, int step, int offset) {
    if (step == 1)
        return vld1q_s16(src);
    if (step == 2)
        return vld2q_s16(src).val[offset];
    if (step == 3)
        return vld3q_s16(src).val[offset];
    return vld4q_s16(src).val[offset];
}

INLINE void split_as(int16_t *dst, const int16_t *src, int step, int offset, int width) {
    for (int x = 0; x < width; x += 8, src += 8 * step)
        vst1q_s16(dst + x, load_part(src, step, offset));
}

static void split_one(int16_t *dst, const int16_t *src, int step, int offset, int width) {
    switch (4 * step + offset) {
    case 4: split_as(dst, src, 1, 0, width); break;
    case 8: split_as(dst, src, 2, 0, width); break;
    case 9: split_as(dst, src, 2, 1, width); break;
    case 12: split_as(dst, src, 3, 0, width); break;
    case 13: split_as(dst, src, 3, 1, width); break;
    case 14: split_as(dst, src, 3, 2, width); break;
    case 16: split_as(dst, src, 4, 0, width); break;
    case 17: split_as(dst, src, 4, 1, width); break;
    case 18: split_as(dst, src, 4, 2, width); break;
    default: split_as(dst, src, 4, 3, width); break;
    }
}

static void split_neon(int16_t *const dst[3], const int16_t *src, int step, const int offset[3], int parts,
                       int width) {
    for (int c = 0; c < parts; c++)
        split_one(dst[c], src, step, offset[c], width);
}

/* ---- colours --------------------------------------------------------------------------------------------------- */

INLINE float32x4_t load_samples(const int16_t *src, int less) {
    return vcvtq_f32_s32(vsubq_s32(vmovl_s16(vld1_s16(src)), vdupq_n_s32(less)));
}

INLINE float32x4_t hold_255(float32x4_t value) {
    return vminnmq_f32(vmaxnmq_f32(value, vdupq_n_f32(0.0f)), vdupq_n_f32(255.0f));
}

INLINE void finish(float *dst, float32x4_t value, const mr_color *color, int channel) {
    float32x4_t centered = vsubq_f32(hold_255(value), vdupq_n_f32(color->mean[channel]));
    vst1q_f32(dst, vmulq_n_f32(centered, color->scale[channel]));
}

INLINE float32x4_t load_luma(const int16_t *src, const mr_color *color) {
    return vsubq_f32(vmulq_n_f32(load_samples(src, 0), color->luma), vdupq_n_f32(color->black));
}

static void convert_neon(float *const dst[3], const int16_t *const src[3], const mr_color *given, int width) {
    const mr_color local = *given, *color = &local; /* a copy, which the stores cannot change */
    for (int x = 0; x < width; x += 4) {
        float32x4_t r = load_luma(src[0] + x, color), g, b;
        if (color->rgb) {
            g = load_luma(src[1] + x, color);
            b = load_luma(src[2] + x, color);
        } else {
            const float32x4_t y = r, u = load_samples(src[1] + x, MR_SAMPLE_CENTER);
            const float32x4_t v = load_samples(src[2] + x, MR_SAMPLE_CENTER);
            r = vaddq_f32(y, vmulq_n_f32(v, color->rv));
            g = vsubq_f32(vsubq_f32(y, vmulq_n_f32(u, color->gu)), vmulq_n_f32(v, color->gv));
            b = vaddq_f32(y, vmulq_n_f32(u, color->bu));
        }
        finish(dst[0] + x, r, color, 0);
        finish(dst[1] + x, g, color, 1);
        finish(dst[2] + x, b, color, 2);
    }
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

INLINE uint16x8_t round_eight(const float *src) {
    const float32x4_t half = vdupq_n_f32(0.5f);
    uint32x4_t low = vcvtq_u32_f32(vaddq_f32(hold_255(vld1q_f32(src)), half));
    uint32x4_t high = vcvtq_u32_f32(vaddq_f32(hold_255(vld1q_f32(src + 4)), half));
    return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}

static void to_u8_neon(uint8_t *dst, const float *src, int width) {
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        uint16x8_t low = round_eight(src + x), high = round_eight(src + x + 8);
        vst1q_u8(dst + x, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
    }
    for (; x < width; x++)
        dst[x] = mr_float_to_u8(src[x]);
}

static void to_f16_neon(uint16_t *dst, const float *src, int width) {
    int x = 0;
    for (; x + 8 <= width; x += 8) {
        float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(src + x)), vld1q_f32(src + x + 4));
        vst1q_u16(dst + x, vreinterpretq_u16_f16(halves));
    }
    for (; x < width; x++)
        dst[x] = mr_float_to_half(src[x]);
}

void mr_preprocess_rows_fill_neon(mr_preprocess_rows *table) {
    table->vertical8 = vertical8_neon;
    table->vertical16 = vertical16_neon;
    table->horizontal = horizontal_neon;
    table->split = split_neon;
    table->convert = convert_neon;
    table->to_u8 = to_u8_neon;
    table->to_f16 = to_f16_neon;
}

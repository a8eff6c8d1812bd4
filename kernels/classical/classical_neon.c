/* The row operations of the classical features with NEON, equal to the C reference bit for bit: integers because they
 * are exact, floats because each is computed by the same operations in the same order. */
#include <arm_neon.h>
#include <string.h>

#include "kernels/classical/classical_pixel.h"
#include "kernels/classical/classical_rows.h"

/* Must be inlined, so that sums stay in registers. */
#define INLINE __attribute__((always_inline)) static inline

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

/* Laplacian for 8 samples, within -1020..1020. Sums of unsigned numbers wrap to the right negative ones. */
INLINE int16x8_t laplacian_of_8(uint8x8_t above, uint8x8_t left, uint8x8_t middle, uint8x8_t right, uint8x8_t below) {
    uint16x8_t around = vaddq_u16(vaddl_u8(above, below), vaddl_u8(left, right));
    return vreinterpretq_s16_u16(vsubq_u16(around, vshll_n_u8(middle, 2)));
}

/* Four squares stay below 2^22, so this many steps fit a 32-bit lane. */
enum { MOST_STEPS = 500 };

INLINE int32x4_t add_squares(int32x4_t sum, int16x8_t value) {
    sum = vmlal_s16(sum, vget_low_s16(value), vget_low_s16(value));
    return vmlal_high_s16(sum, value, value);
}

/* Handles the samples between the first and the last in whole vectors; returns the next sample. */
static int laplacian_inside(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below,
                            int width) {
    int x = 1;
    while (x + 16 <= width - 1) {
        int32x4_t sum = vdupq_n_s32(0), squares = sum;
        for (int step = 0; step < MOST_STEPS && x + 16 <= width - 1; step++, x += 16) {
            const uint8x16_t a = vld1q_u8(above + x), b = vld1q_u8(below + x), middle = vld1q_u8(row + x);
            const uint8x16_t left = vld1q_u8(row + x - 1), right = vld1q_u8(row + x + 1);
            int16x8_t low = laplacian_of_8(vget_low_u8(a), vget_low_u8(left), vget_low_u8(middle), vget_low_u8(right),
                                           vget_low_u8(b));
            int16x8_t high = laplacian_of_8(vget_high_u8(a), vget_high_u8(left), vget_high_u8(middle),
                                            vget_high_u8(right), vget_high_u8(b));
            sum = vpadalq_s16(sum, vaddq_s16(low, high));
            squares = add_squares(add_squares(squares, low), high);
        }
        sums[0] += vaddlvq_s32(sum);
        sums[1] += vaddlvq_s32(squares);
    }
    return x;
}

static void laplacian_neon(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below,
                           int width) {
    int end = laplacian_inside(sums, above, row, below, width);
    for (int x = 0; x < width; x = x == 0 ? end : x + 1) {
        int32_t left = row[mr_mirrored(x - 1, width)], right = row[mr_mirrored(x + 1, width)];
        int32_t value = mr_laplacian(above[x], left, row[x], right, below[x]);
        sums[0] += value;
        sums[1] += value * value;
    }
}

/* ---- change --------------------------------------------------------------------------------------------------- */

/* Bytes count up to this. */
enum { MOST_COUNTED = 255 };

static size_t differing_neon(const uint8_t *a, const uint8_t *b, size_t count, int noise) {
    const uint8x16_t limit = vdupq_n_u8((uint8_t)noise);
    size_t found = 0, i = 0;
    while (i + 16 <= count) {
        uint8x16_t lanes = vdupq_n_u8(0);
        for (int step = 0; step < MOST_COUNTED && i + 16 <= count; step++, i += 16)
            lanes = vsubq_u8(lanes, vcgtq_u8(vabdq_u8(vld1q_u8(a + i), vld1q_u8(b + i)), limit));
        found += vaddlvq_u8(lanes);
    }
    for (; i < count; i++)
        found += (a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) > noise;
    return found;
}

/* ---- colours -------------------------------------------------------------------------------------------------- */

/* Entries of a table; the processor cannot gather. */
INLINE int32x4_t look_up(const int32_t *table, uint32x4_t at) {
    int32x4_t found = vdupq_n_s32(table[vgetq_lane_u32(at, 0)]);
    found = vsetq_lane_s32(table[vgetq_lane_u32(at, 1)], found, 1);
    found = vsetq_lane_s32(table[vgetq_lane_u32(at, 2)], found, 2);
    return vsetq_lane_s32(table[vgetq_lane_u32(at, 3)], found, 3);
}

/* Hue before it wraps, and saturation, for four. The shift rounds as the C reference does. */
INLINE int32x4_t scaled(int16x4_t value, const int32_t *table, uint16x4_t at) {
    return vrshrq_n_s32(vmulq_s32(vmovl_s16(value), look_up(table, vmovl_u16(at))), MR_HSV_SHIFT);
}

INLINE int16x8_t scaled_eight(int16x8_t value, const int32_t *table, uint16x8_t at) {
    return vcombine_s16(vmovn_s32(scaled(vget_low_s16(value), table, vget_low_u16(at))),
                        vmovn_s32(scaled(vget_high_s16(value), table, vget_high_u16(at))));
}

INLINE void hsv_of_8(uint8_t *const dst[3], const uint8_t *const src[3], int x, const int32_t *saturation,
                     const int32_t *hue) {
    const uint8x8_t red = vld1_u8(src[0] + x), green = vld1_u8(src[1] + x), blue = vld1_u8(src[2] + x);
    const uint8x8_t most = vmax_u8(vmax_u8(red, green), blue);
    const uint8x8_t apart = vsub_u8(most, vmin_u8(vmin_u8(red, green), blue));
    const uint16x8_t spread = vmovl_u8(apart);
    const int16x8_t from_red = vreinterpretq_s16_u16(vsubl_u8(green, blue));
    const int16x8_t from_green = vreinterpretq_s16_u16(vaddq_u16(vsubl_u8(blue, red), vshlq_n_u16(spread, 1)));
    const int16x8_t from_blue = vreinterpretq_s16_u16(vaddq_u16(vsubl_u8(red, green), vshlq_n_u16(spread, 2)));
    const uint16x8_t is_red = vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(vceq_u8(most, red))));
    const uint16x8_t is_green = vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(vceq_u8(most, green))));
    const int16x8_t sixths = vbslq_s16(is_red, from_red, vbslq_s16(is_green, from_green, from_blue));
    const int16x8_t angle = scaled_eight(sixths, hue, spread);
    const int16x8_t below = vandq_s16(vshrq_n_s16(angle, 15), vdupq_n_s16(MR_HUES));
    vst1_u8(dst[0] + x, vreinterpret_u8_s8(vmovn_s16(vaddq_s16(angle, below))));
    vst1_u8(dst[1] + x, vreinterpret_u8_s8(vmovn_s16(scaled_eight(vreinterpretq_s16_u16(spread), saturation,
                                                                  vmovl_u8(most)))));
    vst1_u8(dst[2] + x, most);
}

static void to_hsv_neon(uint8_t *const dst[3], const uint8_t *const src[3], const int32_t *saturation,
                        const int32_t *hue, int width) {
    int x = 0;
    for (; x + 8 <= width; x += 8)
        hsv_of_8(dst, src, x, saturation, hue);
    for (; x < width; x++) {
        mr_hsv pixel = mr_to_hsv(src[0][x], src[1][x], src[2][x], saturation, hue);
        dst[0][x] = pixel.h;
        dst[1][x] = pixel.s;
        dst[2][x] = pixel.v;
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

INLINE float32x4_t squared(float32x4_t dx, float32x4_t dy) {
    return vaddq_f32(vmulq_f32(dx, dx), vmulq_f32(dy, dy));
}

INLINE void gradients_of_4(float *dx, float *dy, const float *above, const float *row, const float *below,
                           bool longer) {
    float32x4_t across = vsubq_f32(vld1q_f32(row + 1), vld1q_f32(row - 1));
    float32x4_t down = vsubq_f32(vld1q_f32(below), vld1q_f32(above));
    if (longer) {
        float32x4_t a = vld1q_f32(dx), b = vld1q_f32(dy);
        uint32x4_t keep = vcltq_f32(squared(across, down), squared(a, b));
        across = vbslq_f32(keep, a, across);
        down = vbslq_f32(keep, b, down);
    }
    vst1q_f32(dx, across);
    vst1q_f32(dy, down);
}

/* `longer` is constant. Returns the next value. */
INLINE int gradients_in_eights(float *dx, float *dy, const float *const rows[3], int width, bool longer) {
    const float *above = rows[0], *row = rows[1], *below = rows[2];
    int x = 0;
    for (; x + 8 <= width; x += 8, above += 8, row += 8, below += 8, dx += 8, dy += 8) {
        gradients_of_4(dx, dy, above, row, below, longer);
        gradients_of_4(dx + 4, dy + 4, above + 4, row + 4, below + 4, longer);
    }
    return x;
}

static void gradients_neon(float *dx, float *dy, const float *const rows[3], int width, bool longer) {
    int x = longer ? gradients_in_eights(dx, dy, rows, width, true) : gradients_in_eights(dx, dy, rows, width, false);
    for (; x < width; x++) {
        mr_gradient here = {rows[1][x + 1] - rows[1][x - 1], rows[2][x] - rows[0][x]};
        if (longer)
            here = mr_longer_gradient((mr_gradient){dx[x], dy[x]}, here);
        dx[x] = here.dx;
        dy[x] = here.dy;
    }
}

INLINE float32x4_t step(float32x4_t sum, float32x4_t s, float next) {
    return vaddq_f32(vmulq_f32(sum, s), vdupq_n_f32(next));
}

/* `whole` - t where `where` is set. */
INLINE float32x4_t turned(float32x4_t t, float whole, uint32x4_t where) {
    return vbslq_f32(where, vsubq_f32(vdupq_n_f32(whole), t), t);
}

/* mr_quarter_turns for four. */
INLINE float32x4_t quarter_turns(float32x4_t dx, float32x4_t dy) {
    const float32x4_t ax = vabsq_f32(dx), ay = vabsq_f32(dy);
    const uint32x4_t steep = vcgtq_f32(ax, ay);
    const float32x4_t most = vbslq_f32(steep, ax, ay), least = vbslq_f32(steep, ay, ax);
    const float32x4_t q = vdivq_f32(least, vmaxnmq_f32(most, vdupq_n_f32(1e-30f))), s = vmulq_f32(q, q);
    float32x4_t t = vdupq_n_f32(-0.00258125196f);
    t = step(t, s, 0.0139185603f);
    t = step(t, s, -0.0355952253f);
    t = step(t, s, 0.0613844698f);
    t = step(t, s, -0.0885452689f);
    t = step(t, s, 0.126983833f);
    t = step(t, s, -0.212184491f);
    t = step(t, s, 0.63661935f);
    t = vmulq_f32(t, q);
    t = turned(t, 1.0f, vcgtq_f32(ay, ax));
    t = turned(t, 2.0f, vcltzq_f32(dx));
    return turned(t, 4.0f, vcltzq_f32(dy));
}

INLINE int32x4_t wrapped(int32x4_t bin, int bins) {
    const int32x4_t all = vdupq_n_s32(bins);
    int32x4_t below = vandq_s32(vshrq_n_s32(bin, 31), all);
    int32x4_t above = vandq_s32(vreinterpretq_s32_u32(vcgeq_s32(bin, all)), all);
    return vsubq_s32(vaddq_s32(bin, below), above);
}

static void votes_neon(const mr_votes *votes, const float *dx, const float *dy, int width, float scale, int bins) {
    int x = 0;
    for (; x + 4 <= width; x += 4) {
        float32x4_t a = vld1q_f32(dx + x), b = vld1q_f32(dy + x), length = vsqrtq_f32(squared(a, b));
        float32x4_t position = vsubq_f32(vmulq_n_f32(quarter_turns(a, b), scale), vdupq_n_f32(0.5f));
        float32x4_t low = vrndmq_f32(position), rest = vsubq_f32(position, low);
        vst1q_s32(votes->bin + x, wrapped(vcvtq_s32_f32(low), bins));
        vst1q_f32(votes->first + x, vmulq_f32(length, vsubq_f32(vdupq_n_f32(1.0f), rest)));
        vst1q_f32(votes->second + x, vmulq_f32(length, rest));
    }
    for (; x < width; x++) {
        mr_pixel_vote vote = mr_hog_vote(dx[x], dy[x], scale, bins);
        votes->bin[x] = vote.bin;
        votes->first[x] = vote.first;
        votes->second[x] = vote.second;
    }
}

INLINE void add_share(float *sums, float32x4_t weights, float32x4_t vote) {
    vst1q_f32(sums, vaddq_f32(vld1q_f32(sums), vmulq_f32(weights, vote)));
}

/* One pixel's votes: `bin` and `next` are the sums for both. */
INLINE void add_votes(float *bin, float *next, const float *weights, float32x4_t first, float32x4_t second, int lanes) {
    for (int i = 0; i < lanes; i += 4) {
        const float32x4_t four = vld1q_f32(weights + i);
        add_share(bin + i, four, first);
        add_share(next + i, four, second);
    }
}

/* If `lanes` is constant, the loop within a pixel is unrolled. */
INLINE void gather(float *sums, const mr_votes at, ptrdiff_t stride, const float *weights, int lanes, int width,
                   int height, int bins) {
    for (ptrdiff_t y = 0; y < height; y++)
        for (ptrdiff_t i = y * stride; i < y * stride + width; i++, weights += lanes) {
            const int bin = at.bin[i], next = bin + 1 < bins ? bin + 1 : 0;
            add_votes(sums + bin * lanes, sums + next * lanes, weights, vld1q_dup_f32(at.first + i),
                      vld1q_dup_f32(at.second + i), lanes);
        }
}

static void gather_neon(float *sums, const mr_votes *votes, ptrdiff_t stride, const float *weights, int lanes,
                        int width, int height, int bins) {
    if (lanes == 4)
        gather(sums, *votes, stride, weights, 4, width, height, bins);
    else
        gather(sums, *votes, stride, weights, lanes, width, height, bins);
}

void mr_classical_rows_fill_neon(mr_classical_rows *table) {
    table->laplacian = laplacian_neon;
    table->differing = differing_neon;
    table->to_hsv = to_hsv_neon;
    table->gradients = gradients_neon;
    table->votes = votes_neon;
    table->gather = gather_neon;
}

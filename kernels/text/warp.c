#include "kernels/text/warp.h"

#include <math.h>
#include <string.h>

/* One component of a picture's pixels, in one of its planes. */
typedef struct samples {
    const uint8_t *source;
    uint8_t *target;
    ptrdiff_t source_stride, target_stride;
    int32_t source_width, source_height, target_width, target_height; /* samples */
    int step, bytes, shift; /* as in mr_component and mr_pixel_info */
    float most;
    double across, down;    /* pixels that a sample stands for */
    double left, above;     /* how far its centre is from theirs, pixels */
} samples;

static void weigh(double t, float weight[4]) {
    const double a = -0.75, s = 1 - t;
    weight[0] = (float)(a * t * s * s);
    weight[1] = (float)(((a + 2) * t - (a + 3)) * t * t + 1);
    weight[2] = (float)(((a + 2) * s - (a + 3)) * s * s + 1);
    weight[3] = 1 - weight[0] - weight[1] - weight[2];
}

static int32_t within(int32_t value, int32_t end) {
    return value < 0 ? 0 : value < end ? value : end - 1;
}

static float load(const samples *of, int32_t x, int32_t y) {
    const uint8_t *at = of->source + y * of->source_stride + (ptrdiff_t)x * of->step;
    return of->bytes == 1 ? (float)*at : (float)((at[0] | at[1] << 8) >> of->shift);
}

static void store(const samples *of, float value, int32_t x, int32_t y) {
    uint8_t *at = of->target + y * of->target_stride + (ptrdiff_t)x * of->step;
    const int whole = (int)(fminf(fmaxf(value, 0), of->most) + 0.5f) << (of->bytes == 1 ? 0 : of->shift);
    at[0] = (uint8_t)whole;
    if (of->bytes == 2)
        at[1] = (uint8_t)(whole >> 8);
}

/* The value at a place in samples; the first sample's centre is at 0, 0. */
static float value_at(const samples *of, double x, double y) {
    const double column = floor(fmin(fmax(x, -2), of->source_width + 1));
    const double row = floor(fmin(fmax(y, -2), of->source_height + 1));
    float across[4], down[4], sum = 0;
    weigh(fmin(fmax(x - column, 0), 1), across);
    weigh(fmin(fmax(y - row, 0), 1), down);
    for (int32_t j = 0; j < 4; j++)
        for (int32_t i = 0; i < 4; i++)
            sum += across[i] * down[j] * load(of, within((int32_t)column + i - 1, of->source_width),
                                              within((int32_t)row + j - 1, of->source_height));
    return sum;
}

/* Beyond the horizon of the map there is nothing: black, or what 0 means. */
static void warp_samples(const mr_plane_map *map, const samples *of) {
    for (int32_t y = 0; y < of->target_height; y++)
        for (int32_t x = 0; x < of->target_width; x++) {
            const double from[2] = {(x + 0.5) * of->across + of->left, (y + 0.5) * of->down + of->above};
            double to[2];
            float value = 0;
            if (mr_plane_map_apply(map, from, to))
                value = value_at(of, (to[0] - of->left) / of->across - 0.5, (to[1] - of->above) / of->down - 0.5);
            store(of, value, x, y);
        }
}

static samples samples_of(const mr_format *from, const mr_plane *source, const mr_format *to, const mr_plane *target,
                          int which) {
    const mr_pixel_info *info = mr_pixel_describe(from->pixel);
    const mr_component *component = &info->component[which];
    const bool chroma = which > 0 && !info->rgb;
    const int w = chroma ? info->chroma_w : 0, h = chroma ? info->chroma_h : 0;
    const int plane = component->plane;
    samples of = {.source = source[plane].data + component->offset, .target = target[plane].data + component->offset,
                  .source_stride = source[plane].stride, .target_stride = target[plane].stride,
                  .source_width = (from->width + (1 << w) - 1) >> w,
                  .source_height = mr_plane_rows(from->pixel, plane, from->height),
                  .target_width = (to->width + (1 << w) - 1) >> w,
                  .target_height = mr_plane_rows(to->pixel, plane, to->height),
                  .step = component->step, .bytes = info->depth > 8 ? 2 : 1, .shift = info->shift,
                  .most = (float)((1 << info->depth) - 1), .across = 1 << w, .down = 1 << h};
    /* A sample at the left of two pixels has its centre half a pixel before theirs. */
    const mr_siting siting = from->siting != MR_SITING_ANY ? from->siting
                             : mr_format_range(from) == MR_RANGE_FULL ? MR_SITING_CENTER : MR_SITING_LEFT;
    of.left = w == 1 && siting != MR_SITING_CENTER ? -0.5 : 0;
    of.above = h == 1 && siting == MR_SITING_TOPLEFT ? -0.5 : 0;
    return of;
}

void mr_warp(const mr_plane_map *map, const mr_format *from, const mr_plane *source, const mr_format *to,
             const mr_plane *target) {
    const mr_pixel_info *info = mr_pixel_describe(from->pixel);
    /* Alpha, which is no component, becomes opaque. */
    for (mr_row row = {0}; mr_next_row(to, &row);)
        memset(mr_row_at(target, &row), 255, row.bytes);
    for (int i = 0; i < info->components; i++) {
        const samples of = samples_of(from, source, to, target, i);
        warp_samples(map, &of);
    }
}

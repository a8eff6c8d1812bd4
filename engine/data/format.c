#include <assert.h>
#include <math.h>

#include "millrace/format_set.h"
#include "millrace/frame.h"

/* Where a layout keeps its samples: {plane, step, offset} for each component. */
#define GRAY(name, depth, step) {name, 1, 1, 0, 0, depth, 0, false, {{0, step, 0}}}
#define PLANAR(name, w, h, depth, step)                                                                              \
    {name, 3, 3, w, h, depth, 0, false, {{0, step, 0}, {1, step, 0}, {2, step, 0}}}
#define SEMIPLANAR(name, depth, shift, bytes)                                                                        \
    {name, 2, 3, 1, 1, depth, shift, false, {{0, bytes, 0}, {1, 2 * bytes, 0}, {1, 2 * bytes, bytes}}}
#define PACKED_RGB(name, step, r, g, b) {name, 1, 3, 0, 0, 8, 0, true, {{0, step, r}, {0, step, g}, {0, step, b}}}
#define PLANAR_GBR(name, depth, step) {name, 3, 3, 0, 0, depth, 0, true, {{2, step, 0}, {0, step, 0}, {1, step, 0}}}

static const mr_pixel_info pixels[MR_PIXEL_COUNT] = {
    [MR_PIXEL_ANY] = {.name = "any"},
    [MR_PIXEL_GRAY8] = GRAY("GRAY8", 8, 1),
    [MR_PIXEL_GRAY10] = GRAY("GRAY10", 10, 2),
    [MR_PIXEL_GRAY12] = GRAY("GRAY12", 12, 2),
    [MR_PIXEL_GRAY16] = GRAY("GRAY16", 16, 2),
    [MR_PIXEL_YA8] = GRAY("YA8", 8, 2),
    [MR_PIXEL_I420] = PLANAR("I420", 1, 1, 8, 1),
    [MR_PIXEL_I422] = PLANAR("I422", 1, 0, 8, 1),
    [MR_PIXEL_I440] = PLANAR("I440", 0, 1, 8, 1),
    [MR_PIXEL_I444] = PLANAR("I444", 0, 0, 8, 1),
    [MR_PIXEL_I420_10] = PLANAR("I420_10", 1, 1, 10, 2),
    [MR_PIXEL_I422_10] = PLANAR("I422_10", 1, 0, 10, 2),
    [MR_PIXEL_I444_10] = PLANAR("I444_10", 0, 0, 10, 2),
    [MR_PIXEL_I420_12] = PLANAR("I420_12", 1, 1, 12, 2),
    [MR_PIXEL_I422_12] = PLANAR("I422_12", 1, 0, 12, 2),
    [MR_PIXEL_I444_12] = PLANAR("I444_12", 0, 0, 12, 2),
    [MR_PIXEL_NV12] = SEMIPLANAR("NV12", 8, 0, 1),
    [MR_PIXEL_P010] = SEMIPLANAR("P010", 10, 6, 2),
    [MR_PIXEL_RGB24] = PACKED_RGB("RGB24", 3, 0, 1, 2),
    [MR_PIXEL_BGR24] = PACKED_RGB("BGR24", 3, 2, 1, 0),
    [MR_PIXEL_RGBA] = PACKED_RGB("RGBA", 4, 0, 1, 2),
    [MR_PIXEL_BGRA] = PACKED_RGB("BGRA", 4, 2, 1, 0),
    [MR_PIXEL_ARGB] = PACKED_RGB("ARGB", 4, 1, 2, 3),
    [MR_PIXEL_ABGR] = PACKED_RGB("ABGR", 4, 3, 2, 1),
    [MR_PIXEL_GBR] = PLANAR_GBR("GBR", 8, 1),
    [MR_PIXEL_GBR_10] = PLANAR_GBR("GBR_10", 10, 2),
    [MR_PIXEL_GBR_12] = PLANAR_GBR("GBR_12", 12, 2),
};

const mr_pixel_info *mr_pixel_describe(mr_pixel pixel) {
    assert((unsigned)pixel < MR_PIXEL_COUNT);
    return &pixels[pixel];
}

mr_matrix mr_format_matrix(const mr_format *format) {
    if (format->matrix != MR_MATRIX_ANY)
        return format->matrix;
    int32_t width = format->reduced ? format->whole_width : format->width;
    int32_t height = format->reduced ? format->whole_height : format->height;
    return width >= 1280 || height >= 720 ? MR_MATRIX_BT709 : MR_MATRIX_BT601;
}

mr_range mr_format_range(const mr_format *format) {
    if (format->range != MR_RANGE_ANY)
        return format->range;
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    return info->rgb || info->components == 1 ? MR_RANGE_FULL : MR_RANGE_LIMITED;
}

size_t mr_dtype_bytes(mr_dtype dtype) {
    static const uint8_t bytes[] = {
        [MR_DTYPE_U8] = 1, [MR_DTYPE_F16] = 2, [MR_DTYPE_F32] = 4, [MR_DTYPE_I32] = 4, [MR_DTYPE_I64] = 8};
    return bytes[dtype];
}

const char *mr_dtype_name(mr_dtype dtype) {
    static const char *const names[] = {
        [MR_DTYPE_ANY] = "any",  [MR_DTYPE_U8] = "u8",   [MR_DTYPE_F16] = "f16",
        [MR_DTYPE_F32] = "f32",  [MR_DTYPE_I32] = "i32", [MR_DTYPE_I64] = "i64"};
    return names[dtype];
}

float mr_half_to_float(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float value = exponent == 0    ? ldexpf((float)fraction, -24)
                        : exponent == 31 ? (fraction ? NAN : INFINITY)
                                         : ldexpf((float)(1024 + fraction), exponent - 25);
    return half & 0x8000 ? -value : value;
}

const char *mr_payload_name(mr_payload payload) {
    static const char *const names[] = {
        [MR_PAYLOAD_ANY] = "anything",  [MR_PAYLOAD_PACKET] = "packet",   [MR_PAYLOAD_PICTURE] = "picture",
        [MR_PAYLOAD_TENSOR] = "tensor", [MR_PAYLOAD_RESULTS] = "results"};
    return names[payload];
}

bool mr_format_same_picture(const mr_format *a, const mr_format *b) {
    return a->pixel == b->pixel && a->width == b->width && a->height == b->height && a->matrix == b->matrix &&
           a->range == b->range && a->siting == b->siting && a->sar_num == b->sar_num && a->sar_den == b->sar_den &&
           a->rotation == b->rotation && a->flip == b->flip && a->reduced == b->reduced &&
           a->whole_width == b->whole_width && a->whole_height == b->whole_height;
}

size_t mr_tensor_count(const mr_format *format) {
    if (format->rank <= 0 || format->rank > MR_MAX_RANK)
        return 0;
    size_t count = 1;
    for (int i = 0; i < format->rank; i++)
        if (format->dims[i] <= 0 || __builtin_mul_overflow(count, (size_t)format->dims[i], &count))
            return 0;
    return count;
}

size_t mr_tensor_bytes(const mr_format *format) {
    size_t bytes;
    if (__builtin_mul_overflow(mr_tensor_count(format), mr_dtype_bytes(format->dtype), &bytes))
        return 0;
    return bytes;
}

mr_format mr_tensor_format(mr_dtype dtype, mr_layout layout, int32_t rank, const int64_t *dims) {
    assert(rank >= 0 && rank <= MR_MAX_RANK);
    mr_format format = {.payload = MR_PAYLOAD_TENSOR, .dtype = dtype, .layout = layout, .rank = rank};
    for (int i = 0; i < rank; i++)
        format.dims[i] = dims[i];
    return format;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

size_t mr_format_bytes(const mr_format *format) {
    return mr_lay_out(format, MR_ROW_ALIGNMENT, NULL, NULL);
}

const char *mr_format_print(const mr_format *format, char *text, size_t bytes) {
    const mr_format_set only = mr_format_set_of(format);
    return mr_format_set_print(&only, text, bytes);
}

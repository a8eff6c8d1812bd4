#include "kernels/preprocess/color.h"

#include <math.h>

static void luma_coefficients(const mr_format *source, double *kr, double *kb) {
    const mr_matrix matrix = mr_format_matrix(source);
    *kr = matrix == MR_MATRIX_BT709 ? 0.2126 : matrix == MR_MATRIX_BT2020 ? 0.2627 : 0.299;
    *kb = matrix == MR_MATRIX_BT709 ? 0.0722 : matrix == MR_MATRIX_BT2020 ? 0.0593 : 0.114;
}

mr_color mr_color_plan(const mr_format *source, const mr_pixel_info *info, const double mean[3],
                       const double std[3]) {
    bool yuv = !info->rgb && info->components == 3;
    bool limited = mr_format_range(source) == MR_RANGE_LIMITED;
    double unit = 1 << MR_SAMPLE_BITS;
    /* The largest code in 8-bit code units: 255 for 8 bits, 255.75 for 10. */
    double most = ((1 << info->depth) - 1) * 256.0 / (1 << info->depth);
    double luma = 255.0 / (limited ? 219.0 : most) / unit, chroma = 255.0 / (limited ? 224.0 : most) / unit;
    double kr, kb;
    luma_coefficients(source, &kr, &kb);
    double kg = 1.0 - kr - kb;
    mr_color color = {.rgb = !yuv,
                      .luma = (float)luma,
                      .black = (float)(limited ? 16.0 * unit * luma : 0.0),
                      .rv = (float)(2.0 * (1.0 - kr) * chroma),
                      .gu = (float)(2.0 * kb * (1.0 - kb) / kg * chroma),
                      .gv = (float)(2.0 * kr * (1.0 - kr) / kg * chroma),
                      .bu = (float)(2.0 * (1.0 - kb) * chroma)};
    for (int i = 0; i < 3; i++) {
        color.mean[i] = (float)mean[i];
        color.scale[i] = (float)(1.0 / std[i]);
    }
    return color;
}

static uint16_t code_of(double value, double most) {
    return (uint16_t)floor(fmin(fmax(value, 0), most) + 0.5);
}

void mr_color_codes(const mr_format *picture, const uint8_t rgb[3], uint16_t codes[3]) {
    const mr_pixel_info *info = mr_pixel_describe(picture->pixel);
    const bool limited = mr_format_range(picture) == MR_RANGE_LIMITED;
    const double most = (double)((1 << info->depth) - 1), unit = (double)(1 << info->depth) / 256;
    double kr, kb;
    luma_coefficients(picture, &kr, &kb);
    const double r = rgb[0] / 255.0, g = rgb[1] / 255.0, b = rgb[2] / 255.0;
    const double y = kr * r + (1 - kr - kb) * g + kb * b, u = (b - y) / 2 / (1 - kb), v = (r - y) / 2 / (1 - kr);
    for (int i = 0; i < 3; i++)
        codes[i] = code_of(limited ? (16 + 219 * (rgb[i] / 255.0)) * unit : rgb[i] / 255.0 * most, most);
    if (info->rgb)
        return;
    codes[0] = code_of(limited ? (16 + 219 * y) * unit : y * most, most);
    codes[1] = code_of(128 * unit + u * (limited ? 224 * unit : most), most);
    codes[2] = code_of(128 * unit + v * (limited ? 224 * unit : most), most);
}

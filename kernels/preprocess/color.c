#include "kernels/preprocess/color.h"

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

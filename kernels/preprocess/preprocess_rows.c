/* The row operations in C, the reference that every other variant must equal bit for bit; and the table. */
#include "kernels/preprocess/preprocess_rows.h"

static void vertical8_c(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                        int width, int shift, mr_prefetch *ahead) {
    for (int x = 0; x < width; x++)
        dst[x] = mr_weigh8(src + x, stride, weights, taps, shift);
}

static void vertical16_c(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                         int width, int shift, mr_word word, mr_prefetch *ahead) {
    for (int x = 0; x < width; x++)
        dst[x] = mr_weigh16(src + 2 * (ptrdiff_t)x, stride, weights, taps, shift, word);
}

static void horizontal_c(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int rows,
                         const mr_filter *filter, int limit, mr_prefetch *ahead) {
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < filter->count; i++)
            dst[r * dst_stride + i] = mr_weigh_along(src + r * src_stride + filter->first[i], 1, filter, i, limit);
}

static void split_c(int16_t *const dst[3], const int16_t *src, int step, const int offset[3], int parts, int width) {
    for (int c = 0; c < parts; c++)
        for (int x = 0; x < width; x++)
            dst[c][x] = src[x * step + offset[c]];
}

static void convert_c(float *const dst[3], const int16_t *const src[3], const mr_color *color, int width) {
    for (int x = 0; x < width; x++) {
        float out[3];
        mr_color_convert(color, src[0][x], src[1][x], src[2][x], out);
        for (int c = 0; c < 3; c++)
            dst[c][x] = out[c];
    }
}

static void to_u8_c(uint8_t *dst, const float *src, int width) {
    for (int x = 0; x < width; x++)
        dst[x] = mr_float_to_u8(src[x]);
}

static void to_f16_c(uint16_t *dst, const float *src, int width) {
    for (int x = 0; x < width; x++)
        dst[x] = mr_float_to_half(src[x]);
}

static void fill_c(mr_preprocess_rows *table) {
    table->vertical8 = vertical8_c;
    table->vertical16 = vertical16_c;
    table->horizontal = horizontal_c;
    table->blend8 = NULL;
    table->split = split_c;
    table->convert = convert_c;
    table->to_u8 = to_u8_c;
    table->to_f16 = to_f16_c;
}

void mr_preprocess_rows_init(mr_preprocess_rows *table, mr_isa most) {
    mr_isa isa = mr_isa_up_to(most);
    fill_c(table);
    MR_ROWS_FILL(preprocess, table, isa);
#if defined(__x86_64__)
    if (isa >= MR_ISA_AVX512) {
        mr_preprocess_rows_fill_avx512(table);
        mr_preprocess_rows_fill_vnni(table);
    }
#endif
    table->isa = isa;
}

MR_ROWS_OF_PROCESS(preprocess)

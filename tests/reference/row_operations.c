/* Runs one row operation of the kernels again and again, so that instructions.py can count its instructions.
 *
 *     row_operations OPERATION c|neon|avx2|avx512 TIMES
 *     row_operations                                 prints the operations */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/classical/classical_rows.h"
#include "kernels/jpeg/jpeg_rows.h"
#include "kernels/preprocess/preprocess_rows.h"
#include "kernels/vector/vector_rows.h"

enum { WIDTH = 1280, ROWS = 8, RESULTS = 320, BINS = 9, LANES = 4 };

static mr_preprocess_rows preprocess;
static mr_classical_rows classical;
static mr_jpeg_rows jpeg;
static mr_vector_rows vector;

static uint8_t bytes[ROWS][2 * WIDTH], out_bytes[3][WIDTH];
static int16_t samples[ROWS][4 * WIDTH + 4 * MR_ROW_SLACK], out_samples[ROWS][WIDTH + 2 * MR_ROW_SLACK];
static float floats[3][WIDTH + 16], out_floats[3][WIDTH + 16];
static uint16_t halves[WIDTH];
static int32_t table[256], bins[WIDTH];
static _Alignas(64) float weights[WIDTH * LANES], sums[BINS * LANES];
static mr_filter two_taps, eight_taps;
static const int16_t six[] = {-100, 1000, 7292, 7292, 1000, -100}, pair[] = {5000, 11384};
static mr_prefetch nothing;

static void vertical8(void) {
    preprocess.vertical8(out_samples[0], bytes[0], 2 * WIDTH, six, 6, WIDTH, 8, &nothing);
}

static void vertical8_pair(void) {
    preprocess.vertical8(out_samples[0], bytes[0], 2 * WIDTH, pair, 2, WIDTH, 8, &nothing);
}

static void vertical16(void) {
    preprocess.vertical16(out_samples[0], bytes[0], 2 * WIDTH, six, 6, WIDTH, 8, (mr_word){.down = 6}, &nothing);
}

static void horizontal(void) {
    preprocess.horizontal(out_samples[0], WIDTH + 2 * MR_ROW_SLACK, samples[0], 4 * WIDTH + 4 * MR_ROW_SLACK, 4,
                          &eight_taps, 16320, &nothing);
}

static void horizontal_pair(void) {
    preprocess.horizontal(out_samples[0], WIDTH + 2 * MR_ROW_SLACK, samples[0], 4 * WIDTH + 4 * MR_ROW_SLACK, 4,
                          &two_taps, 16320, &nothing);
}

static void split(void) {
    preprocess.split((int16_t *const[]){out_samples[0], out_samples[1], out_samples[2]}, samples[0], 3,
                     (const int[]){0, 1, 2}, 3, WIDTH);
}

static void convert(void) {
    const mr_color color = {.luma = 0.018f, .black = 18.6f, .rv = 0.028f, .gu = 0.003f, .gv = 0.008f, .bu = 0.033f,
                            .mean = {127, 127, 127}, .scale = {0.008f, 0.008f, 0.008f}};
    preprocess.convert((float *const[]){out_floats[0], out_floats[1], out_floats[2]},
                       (const int16_t *const[]){samples[0], samples[1], samples[2]}, &color, WIDTH);
}

static void to_u8(void) {
    preprocess.to_u8(out_bytes[0], floats[0], WIDTH);
}

static void to_f16(void) {
    preprocess.to_f16(halves, floats[0], WIDTH);
}

static void laplacian(void) {
    int64_t both[2] = {0};
    classical.laplacian(both, bytes[0], bytes[1], bytes[2], WIDTH);
}

static void differing(void) {
    out_bytes[0][0] = (uint8_t)classical.differing(bytes[0], bytes[1], WIDTH, 15);
}

static void to_hsv(void) {
    classical.to_hsv((uint8_t *const[]){out_bytes[0], out_bytes[1], out_bytes[2]},
                     (const uint8_t *const[]){bytes[0], bytes[1], bytes[2]}, table, table, WIDTH);
}

static void gradients(void) {
    classical.gradients(out_floats[0], out_floats[1],
                        (const float *const[]){floats[0] + 1, floats[1] + 1, floats[2] + 1}, WIDTH, true);
}

static void votes(void) {
    classical.votes(&(mr_votes){bins, out_floats[0], out_floats[1]}, floats[0], floats[1], WIDTH, 2.25f, BINS);
}

static void gather(void) {
    classical.gather(sums, &(mr_votes){bins, out_floats[0], out_floats[1]}, 16, weights, LANES, 16, 16, BINS);
}

static void sum(void) {
    out_floats[2][0] = vector.sum(floats[0], WIDTH);
}

static void sum_of_squares(void) {
    out_floats[2][0] = vector.sum_of_squares(floats[0], WIDTH);
}

static void dot(void) {
    out_floats[2][0] = vector.dot(floats[0], floats[1], WIDTH);
}

static void fours(void) {
    static const int16_t factors[MR_JPEG_LOW] = {1, 2, 3, 0, 5};
    jpeg.fours((uint8_t *const[]){out_bytes[0], out_bytes[1]}, samples[0], WIDTH / MR_JPEG_LOW, factors);
}

static const struct operation {
    const char *name;
    void (*run)(void);
} operations[] = {{"vertical8", vertical8}, {"vertical8_pair", vertical8_pair}, {"vertical16", vertical16},
                  {"horizontal", horizontal}, {"horizontal_pair", horizontal_pair}, {"split", split},
                  {"convert", convert}, {"to_u8", to_u8}, {"to_f16", to_f16}, {"laplacian", laplacian},
                  {"differing", differing}, {"to_hsv", to_hsv}, {"gradients", gradients}, {"votes", votes},
                  {"gather", gather}, {"sum", sum}, {"sum_of_squares", sum_of_squares}, {"dot", dot},
                  {"fours", fours}};

static void fill(void) {
    unsigned state = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < sizeof samples / sizeof(int16_t); i++)
        ((int16_t *)samples)[i] = (int16_t)((state = state * 1664525 + 1013904223) >> 18);
    for (size_t i = 0; i < sizeof floats / sizeof(float); i++)
        ((float *)floats)[i] = (float)((state = state * 1664525 + 1013904223) >> 24);
    for (int i = 0; i < 256; i++)
        table[i] = i ? (30 << 12) / i : 0;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
            puts(operations[i].name);
        return argc == 1 ? 0 : 64;
    }
    int isa = 0, times = atoi(argv[3]);
    while (isa < MR_ISA_COUNT && strcmp(argv[2], mr_isa_name((mr_isa)isa)) != 0)
        isa++;
    mr_preprocess_rows_init(&preprocess, (mr_isa)isa);
    mr_classical_rows_init(&classical, (mr_isa)isa);
    mr_jpeg_rows_init(&jpeg, (mr_isa)isa);
    mr_vector_rows_init(&vector, (mr_isa)isa);
    const mr_axis shrunk = {.step = 4, .high = WIDTH, .count = RESULTS, .most_bits = 15, .horizontal = true};
    const mr_axis enlarged = {.step = 0.5, .high = RESULTS / 2, .count = RESULTS, .most_bits = 15, .horizontal = true};
    if (mr_filter_init(&eight_taps, &shrunk, MR_BILINEAR, true) ||
        mr_filter_init(&two_taps, &enlarged, MR_BILINEAR, false))
        return 71;
    fill();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (int n = 0; n < times && strcmp(argv[1], operations[i].name) == 0; n++)
            operations[i].run();
    mr_filter_fini(&two_taps);
    mr_filter_fini(&eight_taps);
    return 0;
}

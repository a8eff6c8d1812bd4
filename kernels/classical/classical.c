#include "kernels/classical/classical.h"

#include <math.h>
#include <string.h>

#include "kernels/classical/classical_pixel.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

/* ---- histograms of colours ------------------------------------------------------------------------------------ */

enum { LEVELS = 256, TURNS = 4 };

int32_t mr_histogram_length(const mr_histogram_params *p) {
    return p->joint ? p->bins * p->bins * p->bins : 3 * p->bins;
}

static void fill_hsv_tables(int32_t saturation[LEVELS], int32_t hue[LEVELS]) {
    for (int32_t i = 0; i < LEVELS; i++) {
        saturation[i] = mr_hsv_quotient(MR_SATURATION_WHOLE, i);
        hue[i] = mr_hsv_quotient(MR_HUE_WHOLE, i);
    }
}

static int32_t levels_of(const mr_histogram_params *p, int channel) {
    return p->space == MR_COLORS_HSV && channel == 0 ? MR_HUES : LEVELS;
}

/* Counts a row's values in TURNS tables in turn: in one table, a repeated value would have to wait for its own count.
 * Reads eight at once. */
static void count_values(uint32_t counts[TURNS][LEVELS], const uint8_t *row, int width) {
    int x = 0;
    for (; x + 8 <= width; x += 8) {
        uint64_t eight;
        memcpy(&eight, row + x, sizeof eight);
        counts[0][eight & 255]++;
        counts[1][eight >> 8 & 255]++;
        counts[2][eight >> 16 & 255]++;
        counts[3][eight >> 24 & 255]++;
        counts[0][eight >> 32 & 255]++;
        counts[1][eight >> 40 & 255]++;
        counts[2][eight >> 48 & 255]++;
        counts[3][eight >> 56]++;
    }
    for (; x < width; x++)
        counts[0][row[x]]++;
}

static void fill_shares(const mr_histogram_params *p, uint32_t counts[3][TURNS][LEVELS], uint32_t *sums, float *dst) {
    uint32_t pixels = (uint32_t)p->width * (uint32_t)p->height;
    for (int c = 0; c < 3; c++)
        for (int32_t v = 0; v < levels_of(p, c); v++) {
            uint32_t *sum = &sums[c * p->bins + mr_bin_of(v, p->bins, levels_of(p, c))];
            for (int t = 0; t < TURNS; t++)
                *sum += counts[c][t][v];
        }
    for (int i = 0; i < 3 * p->bins; i++)
        dst[i] = mr_share_of(sums[i], pixels);
}

/* Where each value's bin begins in a box histogram. */
static void fill_boxes(const mr_histogram_params *p, int32_t box[3][LEVELS]) {
    for (int c = 0; c < 3; c++)
        for (int32_t v = 0; v < levels_of(p, c); v++)
            box[c][v] = mr_bin_of(v, p->bins, levels_of(p, c)) * (c == 0 ? p->bins * p->bins : c == 1 ? p->bins : 1);
}

static void count_boxes(uint32_t *counts, int32_t box[3][LEVELS], const uint8_t *const row[3], int width) {
    for (int x = 0; x < width; x++)
        counts[box[0][row[0][x]] + box[1][row[1][x]] + box[2][row[2][x]]]++;
}

/* A row of the three channels, in the histogram's colour space; `converted` must have room for three rows. */
static void take_row(const mr_histogram_params *p, const uint8_t *src, int y, const int32_t *saturation,
                     const int32_t *hue, uint8_t *converted, const uint8_t *row[3]) {
    size_t width = (size_t)p->width, plane = width * (size_t)p->height;
    const uint8_t *const rgb[3] = {src + (size_t)y * width, src + plane + (size_t)y * width,
                                   src + 2 * plane + (size_t)y * width};
    uint8_t *const hsv[3] = {converted, converted + width, converted + 2 * width};
    if (p->space == MR_COLORS_HSV)
        mr_classical_rows_get()->to_hsv(hsv, rgb, saturation, hue, p->width);
    for (int c = 0; c < 3; c++)
        row[c] = p->space == MR_COLORS_HSV ? hsv[c] : rgb[c];
}

int mr_histogram(const mr_histogram_params *p, const uint8_t *src, float *dst) {
    int32_t saturation[LEVELS], hue[LEVELS], box[3][LEVELS], length = mr_histogram_length(p);
    uint32_t counts[3][TURNS][LEVELS] = {0};
    uint32_t *sums = mr_scratch((size_t)length * sizeof *sums + 3 * (size_t)p->width);
    if (!sums)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a histogram of %d numbers", length);
    uint8_t *converted = (uint8_t *)(sums + length);
    const uint8_t *row[3];
    if (p->space == MR_COLORS_HSV)
        fill_hsv_tables(saturation, hue);
    if (p->joint)
        fill_boxes(p, box);
    memset(sums, 0, (size_t)length * sizeof *sums);
    for (int y = 0; y < p->height; y++) {
        take_row(p, src, y, saturation, hue, converted, row);
        for (int c = 0; c < 3 && !p->joint; c++)
            count_values(counts[c], row[c], p->width);
        if (p->joint)
            count_boxes(sums, box, row, p->width);
    }
    if (!p->joint)
        fill_shares(p, counts, sums, dst);
    for (int i = 0; i < length && p->joint; i++)
        dst[i] = mr_share_of(sums[i], (uint32_t)p->width * (uint32_t)p->height);
    return MR_OK;
}

/* ---- perceptual hash ------------------------------------------------------------------------------------------ */

void mr_phash_cosines(int32_t cosine[8][32]) {
    const double pi = 3.14159265358979323846;
    for (int k = 0; k < MR_PHASH_LOW; k++)
        for (int x = 0; x < MR_PHASH_SIDE; x++)
            cosine[k][x] = (int32_t)lround(ldexp(cos((2 * x + 1) * k * pi / 64.0), MR_PHASH_COSINE_BITS));
}

/* The lowest frequencies: along the columns first, then along the rows. Sums stay below 2^58. */
static void transform(const uint8_t *src, int64_t low[MR_PHASH_BITS]) {
    int32_t cosine[MR_PHASH_LOW][MR_PHASH_SIDE];
    int64_t column[MR_PHASH_SIDE];
    mr_phash_cosines(cosine);
    for (int k = 0; k < MR_PHASH_LOW; k++) {
        memset(column, 0, sizeof column);
        for (int y = 0; y < MR_PHASH_SIDE; y++)
            for (int x = 0; x < MR_PHASH_SIDE; x++)
                column[x] += (int64_t)cosine[k][y] * src[y * MR_PHASH_SIDE + x];
        for (int i = 0; i < MR_PHASH_LOW; i++) {
            int64_t sum = 0;
            for (int x = 0; x < MR_PHASH_SIDE; x++)
                sum += cosine[i][x] * column[x];
            low[k * MR_PHASH_LOW + i] = sum;
        }
    }
}

void mr_phash(const uint8_t *src, uint8_t hash[MR_HASH_BYTES]) {
    int64_t low[MR_PHASH_BITS];
    transform(src, low);
    int64_t twice = mr_twice_median(low);
    memset(hash, 0, MR_HASH_BYTES);
    for (int i = 0; i < MR_PHASH_BITS; i++)
        if (2 * low[i] > twice)
            hash[i / 8] = (uint8_t)(hash[i / 8] | 0x80 >> i % 8);
}

/* ---- sharpness ------------------------------------------------------------------------------------------------ */

void mr_sharpness(const mr_classical_rows *rows, const mr_sharpness_item *item) {
    int64_t sums[2] = {0, 0};
    for (int32_t y = 0; y < item->height; y++) {
        const uint8_t *row = item->src + (ptrdiff_t)y * item->stride;
        const uint8_t *above = item->src + (ptrdiff_t)mr_mirrored(y - 1, item->height) * item->stride;
        const uint8_t *below = item->src + (ptrdiff_t)mr_mirrored(y + 1, item->height) * item->stride;
        rows->laplacian(sums, above, row, below, item->width);
    }
    *item->dst = mr_variance(sums[0], sums[1], (int64_t)item->width * item->height, (double)item->scale);
}

/* ---- change --------------------------------------------------------------------------------------------------- */

void mr_change(const mr_classical_rows *rows, const mr_change_work *work) {
    *work->changed = (uint32_t)rows->differing(work->a, work->b, work->count, work->noise);
}

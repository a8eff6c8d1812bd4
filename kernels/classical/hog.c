/* Histograms of oriented gradients: values derived from the parameters, and one run. */
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/classical/classical.h"
#include "kernels/classical/classical_pixel.h"
#include "millrace/status.h"

struct mr_hog {
    mr_hog_layout layout;
    int lanes;      /* cells per block, up to a multiple of 4 */
    float *weights; /* for each pixel in a block, for each lane */
};

/* ---- parameters ----------------------------------------------------------------------------------------------- */

static int check_sizes(const mr_hog_params *p) {
    if (p->cell_width < 1 || p->cell_height < 1 || p->block_width < 1 || p->block_height < 1 || p->stride_x < 1 ||
        p->stride_y < 1)
        return mr_fail(MR_ERROR_CONFIG, "cells, blocks and strides are at least one pixel wide and high");
    if (p->block_width > MR_HOG_MOST_BLOCK || p->block_height > MR_HOG_MOST_BLOCK)
        return mr_fail(MR_ERROR_CONFIG, "a block of %dx%d is larger than %dx%d, the most there can be",
                       p->block_width, p->block_height, MR_HOG_MOST_BLOCK, MR_HOG_MOST_BLOCK);
    if (p->block_width % p->cell_width || p->block_height % p->cell_height)
        return mr_fail(MR_ERROR_CONFIG, "cells of %dx%d do not fill a block of %dx%d; choose cells that divide it",
                       p->cell_width, p->cell_height, p->block_width, p->block_height);
    if ((p->block_width / p->cell_width) * (p->block_height / p->cell_height) > MR_HOG_MOST_CELLS)
        return mr_fail(MR_ERROR_CONFIG, "a block has %d cells, and at most %d are possible; make the cells larger",
                       (p->block_width / p->cell_width) * (p->block_height / p->cell_height), MR_HOG_MOST_CELLS);
    if (p->block_width > p->width || p->block_height > p->height)
        return mr_fail(MR_ERROR_CONFIG, "a block of %dx%d is larger than the picture of %dx%d; make one of them fit",
                       p->block_width, p->block_height, p->width, p->height);
    return MR_OK;
}

static int check_params(const mr_hog_params *p) {
    int status = check_sizes(p);
    if (status)
        return status;
    if ((p->width - p->block_width) % p->stride_x || (p->height - p->block_height) % p->stride_y)
        return mr_fail(MR_ERROR_CONFIG,
                       "blocks of %dx%d every %dx%d pixels do not end where a picture of %dx%d does; "
                       "one of %dx%d fits",
                       p->block_width, p->block_height, p->stride_x, p->stride_y, p->width, p->height,
                       p->width - (p->width - p->block_width) % p->stride_x,
                       p->height - (p->height - p->block_height) % p->stride_y);
    if (p->bins < 1 || p->bins > MR_HOG_MOST_BINS || (p->channels != 1 && p->channels != 3) || !(p->clip > 0.0f))
        return mr_fail(MR_ERROR_CONFIG, "%d bins of %d channels cut at %g: 1 to %d, 1 or 3, and above 0 are possible",
                       p->bins, p->channels, (double)p->clip, MR_HOG_MOST_BINS);
    return MR_OK;
}

/* One axis of the Gaussian over a block. It is centred at half the block's length, as in OpenCV: half a pixel after the
 * middle pixel. */
static void fill_bell(float *bell, int length, double sigma) {
    for (int i = 0; i < length; i++) {
        double distance = i - length / 2.0;
        bell[i] = (float)exp(-distance * distance / (2.0 * sigma * sigma));
    }
}

int mr_hog_plan(mr_hog_layout *layout, const mr_hog_params *p) {
    int status = check_params(p);
    if (status)
        return status;
    memset(layout, 0, sizeof *layout);
    layout->params = *p;
    layout->blocks_x = (p->width - p->block_width) / p->stride_x + 1;
    layout->blocks_y = (p->height - p->block_height) / p->stride_y + 1;
    layout->cells_x = p->block_width / p->cell_width;
    layout->cells_y = p->block_height / p->cell_height;
    layout->block_length = layout->cells_x * layout->cells_y * p->bins;
    layout->bins_per_quarter = (float)p->bins / (p->full_turn ? 4.0f : 2.0f);
    double sigma = (p->block_width + p->block_height) / 8.0;
    fill_bell(layout->bell_x, p->block_width, sigma);
    fill_bell(layout->bell_y, p->block_height, sigma);
    return MR_OK;
}

int32_t mr_hog_length(const mr_hog_layout *layout) {
    return layout->blocks_x * layout->blocks_y * layout->block_length;
}

/* Weights that a block's pixel x, y has for all cells. */
static void fill_weights(const mr_hog_layout *l, int x, int y, float *weights) {
    const mr_hog_params *p = &l->params;
    for (int cx = 0; cx < l->cells_x; cx++)
        for (int cy = 0; cy < l->cells_y; cy++)
            weights[cx * l->cells_y + cy] = mr_hog_weight(l->bell_x[x] * l->bell_y[y],
                                                          mr_hog_nearness(x, cx, p->cell_width),
                                                          mr_hog_nearness(y, cy, p->cell_height));
}

int mr_hog_create(mr_hog **result, const mr_hog_params *params) {
    mr_hog_layout layout;
    int status = mr_hog_plan(&layout, params);
    if (status)
        return status;
    int width = params->block_width, height = params->block_height;
    size_t lanes = ((size_t)(layout.cells_x * layout.cells_y) + 3) / 4 * 4;
    size_t bytes = ((size_t)(width * height) * lanes * sizeof(float) + 63) / 64 * 64;
    mr_hog *hog = mr_calloc(1, sizeof *hog);
    if (hog)
        hog->weights = mr_alloc_aligned(64, bytes);
    if (!hog || !hog->weights) {
        mr_hog_destroy(&hog);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the weights of a block of %dx%d", width, height);
    }
    hog->layout = layout;
    hog->lanes = (int)lanes;
    memset(hog->weights, 0, bytes);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            fill_weights(&hog->layout, x, y, hog->weights + (size_t)(y * width + x) * lanes);
    *result = hog;
    return MR_OK;
}

void mr_hog_destroy(mr_hog **hog) {
    if (!*hog)
        return;
    mr_free((*hog)->weights);
    mr_free(*hog);
    *hog = NULL;
}

const mr_hog_layout *mr_hog_layout_of(const mr_hog *hog) {
    return &hog->layout;
}

/* ---- one run -------------------------------------------------------------------------------------------------- */

/* The scratch memory's parts, in 4-byte units: votes for all pixels; one block's sums; value rows with one more on both
 * sides, for each channel those above, here and below; one row's gradients. */
typedef struct parts {
    size_t row, bin, first, second, sums, values, gradients, all;
} parts;

static size_t even(size_t count) {
    return (count + 15) / 16 * 16;
}

static parts divide(const mr_hog *hog) {
    const mr_hog_params *p = &hog->layout.params;
    size_t pixels = even((size_t)p->width * (size_t)p->height);
    parts d = {.row = even((size_t)p->width + 2)};
    d.first = d.bin + pixels;
    d.second = d.first + pixels;
    d.sums = d.second + pixels;
    d.values = d.sums + even((size_t)(p->bins * hog->lanes));
    d.gradients = d.values + 3 * (size_t)p->channels * d.row;
    d.all = d.gradients + 2 * d.row;
    return d;
}

size_t mr_hog_scratch_bytes(const mr_hog *hog) {
    return divide(hog).all * sizeof(float);
}

typedef struct run {
    const mr_hog *hog;
    const mr_hog_params *params;
    const mr_classical_rows *rows;
    const uint8_t *src;
    float *values; /* value rows, `row` apart: a channel's row y is number y % 3 among its three */
    size_t row;
    float *dx, *dy;
    mr_votes votes;
    float *sums;
} run;

/* Row y's values; another one comes before the first. */
static float *values_of(const run *r, int channel, int y) {
    return r->values + (size_t)(3 * channel + y % 3) * r->row + 1;
}

static void take_values(const run *r, const float table[256], int channel, int y) {
    size_t width = (size_t)r->params->width;
    const uint8_t *from = r->src + ((size_t)channel * (size_t)r->params->height + (size_t)y) * width;
    float *to = values_of(r, channel, y);
    for (size_t x = 0; x < width; x++)
        to[x] = table[from[x]];
    to[-1] = to[mr_mirrored(-1, (int32_t)width)];
    to[width] = to[mr_mirrored((int32_t)width, (int32_t)width)];
}

/* Computes row y's gradients. The values there and in neighbouring rows must exist. */
static void take_gradients(const run *r, int y) {
    int height = r->params->height;
    for (int c = 0; c < r->params->channels; c++) {
        const float *const rows[3] = {values_of(r, c, mr_mirrored(y - 1, height)), values_of(r, c, y),
                                      values_of(r, c, mr_mirrored(y + 1, height))};
        r->rows->gradients(r->dx, r->dy, rows, r->params->width, c > 0);
    }
}

static void vote(const run *r) {
    const mr_hog_params *p = r->params;
    float table[256];
    int taken = 0;
    for (int i = 0; i < 256; i++)
        table[i] = mr_hog_value((uint8_t)i, p->gamma);
    for (int y = 0; y < p->height; y++) {
        for (; taken < p->height && taken <= y + 1; taken++)
            for (int c = 0; c < p->channels; c++)
                take_values(r, table, c, taken);
        size_t at = (size_t)y * (size_t)p->width;
        const mr_votes row = {r->votes.bin + at, r->votes.first + at, r->votes.second + at};
        take_gradients(r, y);
        r->rows->votes(&row, r->dx, r->dy, p->width, r->hog->layout.bins_per_quarter, p->bins);
    }
}

static void make_block(const run *r, int x, int y, float *dst) {
    const mr_hog_params *p = r->params;
    int lanes = r->hog->lanes, cells = r->hog->layout.cells_x * r->hog->layout.cells_y;
    ptrdiff_t at = (ptrdiff_t)y * p->stride_y * p->width + x * p->stride_x;
    const mr_votes votes = {r->votes.bin + at, r->votes.first + at, r->votes.second + at};
    memset(r->sums, 0, (size_t)(p->bins * lanes) * sizeof(float));
    r->rows->gather(r->sums, &votes, p->width, r->hog->weights, lanes, p->block_width, p->block_height, p->bins);
    for (int cell = 0; cell < cells; cell++)
        for (int bin = 0; bin < p->bins; bin++)
            dst[cell * p->bins + bin] = r->sums[bin * lanes + cell];
    mr_hog_normalize(dst, r->hog->layout.block_length, p->clip);
}

void mr_hog_run(const mr_hog *hog, const mr_classical_rows *rows, const uint8_t *src, float *dst, void *scratch) {
    const parts d = divide(hog);
    float *room = scratch;
    const mr_hog_layout *l = &hog->layout;
    run r = {.hog = hog,
             .params = &l->params,
             .rows = rows,
             .src = src,
             .values = room + d.values,
             .row = d.row,
             .dx = room + d.gradients,
             .dy = room + d.gradients + d.row,
             .votes = {(int32_t *)scratch + d.bin, room + d.first, room + d.second},
             .sums = room + d.sums};
    vote(&r);
    for (int x = 0; x < l->blocks_x; x++)
        for (int y = 0; y < l->blocks_y; y++, dst += l->block_length)
            make_block(&r, x, y, dst);
}

/* Thread instructions of kernels/classical/classical_cuda.cu, counted in its SASS for compute capability 9.0 (CUDA
 * 13.0, cuobjdump -sass): blocks of code on the usual way, for one lane of a warp. Counts, not timings. Slow ways of
 * quotients and roots, and waiting for other threads' atomics, are not in them. */
#include "kernels/classical/classical_cost.h"

#include "kernels/classical/classical_pixel.h"

enum { LANES = 32 };

/* As classical_cuda.cu launches them. */
static const double chunk_threads = 64.0 * 256, share_threads = 256, hog_threads = 128, hash_threads = 64;

static double warps(double threads) {
    return (double)(((int64_t)threads + LANES - 1) / LANES);
}

/* ---- histograms of colours ------------------------------------------------------------------------------------ */

/* For a pixel: its bins, and HSV; for a share. Each thread fills tables, empties counts and adds them up. */
static const double color_pixel = 63, color_hsv = 32, color_share = 30, color_thread = 170, share_thread = 44;

mr_classical_cost mr_histogram_count(const mr_histogram_params *p) {
    mr_classical_cost cost = {.pixels = warps((double)p->width * p->height), .values = warps(mr_histogram_length(p))};
    cost.instructions = LANES * (cost.pixels * (color_pixel + (p->space == MR_COLORS_HSV ? color_hsv : 0)) +
                                 cost.values * color_share) +
                        chunk_threads * color_thread + share_threads * share_thread;
    return cost;
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

/* For a pixel and each of its channels, without roots and with; for a pixel that is added to a number (of a warp's 32
 * numbers one nearly always has that pixel's direction), and each row of pixels; for a number that is normalised, by
 * one lane, and the code before and after that; for each thread. */
static const double hog_pixel = 176, hog_channel = 29, hog_rooted_channel = 62, hog_vote = 46, hog_row = 25,
                    hog_number = 83, hog_value = 11, hog_normalization = 80, hog_thread = 120;

mr_classical_cost mr_hog_count(const mr_hog_layout *l) {
    const mr_hog_params *p = &l->params;
    const double blocks = (double)l->blocks_x * l->blocks_y, pixels = (double)p->block_width * p->block_height;
    const double numbers = warps(l->block_length);
    mr_classical_cost cost = {.pixels = blocks * warps(pixels), .votes = blocks * numbers * pixels,
                              .values = blocks * l->block_length};
    cost.instructions =
        LANES * (cost.pixels * (hog_pixel + p->channels * (p->gamma ? hog_rooted_channel : hog_channel)) +
                 cost.votes * hog_vote + blocks * numbers * (p->block_height * hog_row + hog_number) +
                 cost.values * hog_value + blocks * hog_normalization) +
        blocks * hog_threads * hog_thread;
    return cost;
}

/* ---- perceptual hash ------------------------------------------------------------------------------------------ */

/* For a column of a frequency; for the rows, the median and the bits, once for a thread. */
static const double hash_column = 162, hash_thread = 650;

mr_classical_cost mr_phash_count(void) {
    mr_classical_cost cost = {.pixels = warps(MR_PHASH_LOW * MR_PHASH_SIDE), .values = warps(MR_PHASH_BITS)};
    cost.instructions = LANES * cost.pixels * hash_column + hash_threads * hash_thread;
    return cost;
}

/* ---- sharpness and change ------------------------------------------------------------------------------------- */

/* For a pixel; for a row, which all 8 warps of a block begin; for a thread: lanes add their two sums one after the
 * other. */
static const double sharp_pixel = 55, sharp_row = 53, sharp_warps = 8, sharp_thread = 560;

mr_classical_cost mr_sharpness_count(int64_t width, int64_t height) {
    mr_classical_cost cost = {.pixels = warps((double)width) * (double)height};
    cost.instructions = LANES * (cost.pixels * sharp_pixel + (double)height * sharp_warps * sharp_row) +
                        chunk_threads * sharp_thread;
    return cost;
}

static const double changed_pixel = 17, changed_thread = 42;

mr_classical_cost mr_change_count(int64_t pixels) {
    mr_classical_cost cost = {.pixels = warps((double)pixels)};
    cost.instructions = LANES * cost.pixels * changed_pixel + chunk_threads * changed_thread;
    return cost;
}

/* The row operations for classical features in C, the reference that every other variant must equal bit for bit; and
 * the table. */
#include "kernels/classical/classical_rows.h"

#include "kernels/classical/classical_pixel.h"

static void laplacian_c(int64_t sums[2], const uint8_t *above, const uint8_t *row, const uint8_t *below, int width) {
    for (int x = 0; x < width; x++) {
        int32_t left = row[mr_mirrored(x - 1, width)], right = row[mr_mirrored(x + 1, width)];
        int32_t value = mr_laplacian(above[x], left, row[x], right, below[x]);
        sums[0] += value;
        sums[1] += value * value;
    }
}

static size_t differing_c(const uint8_t *a, const uint8_t *b, size_t count, int noise) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += (a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) > noise;
    return found;
}

static void to_hsv_c(uint8_t *const dst[3], const uint8_t *const src[3], const int32_t *saturation,
                     const int32_t *hue, int width) {
    for (int x = 0; x < width; x++) {
        mr_hsv pixel = mr_to_hsv(src[0][x], src[1][x], src[2][x], saturation, hue);
        dst[0][x] = pixel.h;
        dst[1][x] = pixel.s;
        dst[2][x] = pixel.v;
    }
}

static void gradients_c(float *dx, float *dy, const float *const rows[3], int width, bool longer) {
    for (int x = 0; x < width; x++) {
        mr_gradient here = {rows[1][x + 1] - rows[1][x - 1], rows[2][x] - rows[0][x]};
        if (longer)
            here = mr_longer_gradient((mr_gradient){dx[x], dy[x]}, here);
        dx[x] = here.dx;
        dy[x] = here.dy;
    }
}

static void votes_c(const mr_votes *votes, const float *dx, const float *dy, int width, float scale, int bins) {
    for (int x = 0; x < width; x++) {
        mr_pixel_vote vote = mr_hog_vote(dx[x], dy[x], scale, bins);
        votes->bin[x] = vote.bin;
        votes->first[x] = vote.first;
        votes->second[x] = vote.second;
    }
}

static void gather_c(float *sums, const mr_votes *votes, ptrdiff_t stride, const float *weights, int lanes, int width,
                     int height, int bins) {
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, weights += lanes) {
            ptrdiff_t at = y * stride + x;
            int bin = votes->bin[at], next = bin + 1 < bins ? bin + 1 : 0;
            for (int i = 0; i < lanes; i++)
                sums[bin * lanes + i] += weights[i] * votes->first[at];
            for (int i = 0; i < lanes; i++)
                sums[next * lanes + i] += weights[i] * votes->second[at];
        }
}

static void fill_c(mr_classical_rows *table) {
    table->laplacian = laplacian_c;
    table->differing = differing_c;
    table->to_hsv = to_hsv_c;
    table->gradients = gradients_c;
    table->votes = votes_c;
    table->gather = gather_c;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

void mr_classical_rows_init(mr_classical_rows *table, mr_isa most) {
    fill_c(table);
    MR_ROWS_FILL(classical, table, mr_isa_up_to(most));
}

MR_ROWS_OF_PROCESS(classical)

/* Draws a random HOG layout, with up to `most` steps after the first block on each axis. */
#pragma once

#include "kernels/classical/classical.h"
#include "tests/support/seeded.h"

static inline mr_hog_params draw_hog_layout(int most) {
    mr_hog_params p = {.channels = draw() % 2 ? 1 : 3, .cell_width = between(1, 9), .cell_height = between(1, 9),
                       .bins = between(1, MR_HOG_MOST_BINS), .full_turn = draw() % 2, .gamma = draw() % 2,
                       .clip = 0.2f};
    p.block_width = p.cell_width * between(1, 3);
    p.block_height = p.cell_height * between(1, 3);
    p.stride_x = between(1, 9);
    p.stride_y = between(1, 9);
    p.width = p.block_width + p.stride_x * between(0, most);
    p.height = p.block_height + p.stride_y * between(0, most);
    return p;
}

/* The kernel of grids that are walked (preprocess_grid.h), for 8-bit YUV, the usual output of decoders. */
#pragma once

#include "kernels/preprocess/preprocess_device.h"

/* Launches `count` pictures of a grid of mode MR_GRID_WALKED; else as mr_preprocess_cuda. */
void mr_preprocess_launch_walk(const mr_preprocess_grid *grid, const mr_pictures *pictures, int count, void *stream);

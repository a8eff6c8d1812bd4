/* The kernel for walked grids (preprocess_grid.h), for 8-bit YUV, which decoders usually give. */
#pragma once

#include "kernels/preprocess/preprocess_device.h"

/* Launches `count` pictures with a grid in mode MR_GRID_WALKED; else as mr_preprocess_cuda. */
void mr_preprocess_launch_walk(const mr_preprocess_grid *grid, const mr_pictures *pictures, int count, void *stream);

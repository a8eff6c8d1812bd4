/* preprocess on a CUDA device: the arithmetic of preprocess.h, a whole batch in one launch. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/preprocess/preprocess_grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches `count` (1 to MR_PREPROCESS_LAUNCH) pictures with the grid's plan on `stream`, which must be a cudaStream_t
 * on the thread's current device. `grid`'s tables, and the planes and `dst` in the works, must be in memory that this
 * device can read; the works' plans are ignored. Nothing waits, nothing is allocated. Results must equal the C
 * reference, bit for bit. MR_ERROR_DEVICE. */
MR_CUDA_ONLY int mr_preprocess_cuda(const mr_preprocess_grid *grid, const mr_preprocess_work *works, int count,
                                    void *stream);

#ifdef __cplusplus
}
#endif

/* The operations in vector.h on a CUDA device.
 *
 * All take a `stream`, which must be a cudaStream_t on the calling thread's current device, and only launch on it: they
 * do not wait or allocate. Pointers in the works must be to memory that this device can read. Errors: MR_ERROR_DEVICE.
 *
 * Equal to the processor's bit for bit: top_k's classes, rectify, nearest, normalize and pool_mean. Scores are within
 * MR_SCORE_ULPS units in the last place (the device's exponential differs). linear sums in another order, so it differs
 * by the rounding in sums of `inputs` products. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/vector/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MR_SCORE_ULPS = 8 };

/* The whole product and bias, if there is no cuBLAS. */
MR_CUDA_ONLY int mr_linear_cuda(const mr_linear_work *work, void *stream);
/* Writes only the bias into dst; the products must then be added. */
MR_CUDA_ONLY int mr_bias_cuda(const mr_linear_work *work, void *stream);
MR_CUDA_ONLY int mr_top_k_cuda(const mr_top_k_work *works, int count, void *stream);
MR_CUDA_ONLY int mr_rectify_cuda(const mr_rectify_work *works, int count, void *stream);
/* Two launches for up to 32 works. */
MR_CUDA_ONLY int mr_nearest_cuda(const mr_nearest_work *works, int count, void *stream);
MR_CUDA_ONLY int mr_normalize_cuda(const mr_normalize_work *works, int count, void *stream);
MR_CUDA_ONLY int mr_pool_mean_cuda(const mr_pool_work *works, int count, void *stream);

#ifdef __cplusplus
}
#endif

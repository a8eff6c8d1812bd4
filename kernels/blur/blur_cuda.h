/* The operation in blur.h on a CUDA device.
 *
 * `work` is as for mr_blur_enqueue, except that all its pointers are to device memory. `stream` is a cudaStream_t on
 * the calling thread's current device. Nothing waits. Results equal the processor's, bit for bit. Errors:
 * MR_ERROR_DEVICE. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/blur/blur.h"

#ifdef __cplusplus
extern "C" {
#endif

MR_CUDA_ONLY int mr_blur_cuda(const mr_blur_work *work, void *stream);

#ifdef __cplusplus
}
#endif

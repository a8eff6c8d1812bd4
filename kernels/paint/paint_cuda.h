/* mr_paint_enqueue on a CUDA device. All pointers must be device memory; `stream` is a cudaStream_t on the calling
 * thread's current device. Nothing waits. Errors: MR_ERROR_DEVICE. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/paint/paint.h"

#ifdef __cplusplus
extern "C" {
#endif

MR_CUDA_ONLY int mr_paint_cuda(const mr_paint_work *work, void *stream);

#ifdef __cplusplus
}
#endif

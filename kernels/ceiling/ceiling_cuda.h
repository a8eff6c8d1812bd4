/* The operations in ceiling.h on a CUDA device.
 *
 * `stream` is a cudaStream_t on the calling thread's current device; they only launch on it. Pointers in the works must
 * be to that device's memory. Results equal the processor's, bit for bit. Errors: MR_ERROR_DEVICE. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/ceiling/ceiling.h"

#ifdef __cplusplus
extern "C" {
#endif

MR_CUDA_ONLY int mr_triad_cuda(const mr_triad_work *work, void *stream);
MR_CUDA_ONLY int mr_read_cuda(const mr_read_work *work, void *stream);
MR_CUDA_ONLY int mr_nothing_cuda(void *stream);

#ifdef __cplusplus
}
#endif

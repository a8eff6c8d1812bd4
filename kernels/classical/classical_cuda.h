/* Classical features on a CUDA device: the operations in classical.h, with the same arithmetic, one launch per piece of
 * work.
 *
 * `work` is as for the _enqueue functions, except that src, dst and changed must point to device memory, and that the
 * gradient layout replaces work->hog; it is copied. `stream` must be a cudaStream_t on the calling thread's current
 * device. `scratch` must be device memory with the stated size; the content need not be defined. It must stay until the
 * work is done, and streams must not share it. Nothing waits.
 *
 * Results must equal the processor's, bit for bit: the code is compiled without contraction (-fmad=false), and with
 * IEEE quotients and square roots, nvcc's default. Errors: MR_ERROR_DEVICE if the launch fails; MR_ERROR_CONFIG if a
 * piece has no picture or too many. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/classical/classical.h"

#ifdef __cplusplus
extern "C" {
#endif

MR_CUDA_ONLY size_t mr_histogram_cuda_scratch_bytes(const mr_histogram_work *work);
MR_CUDA_ONLY int mr_histogram_cuda(const mr_histogram_work *work, void *scratch, void *stream);
MR_CUDA_ONLY int mr_hog_cuda(const mr_hog_layout *layout, const mr_hog_work *work, void *stream);
MR_CUDA_ONLY int mr_phash_cuda(const mr_phash_work *work, void *stream);
MR_CUDA_ONLY size_t mr_sharpness_cuda_scratch_bytes(const mr_sharpness_work *work);
MR_CUDA_ONLY int mr_sharpness_cuda(const mr_sharpness_work *work, void *scratch, void *stream);
MR_CUDA_ONLY int mr_change_cuda(const mr_change_work *work, void *stream);

#ifdef __cplusplus
}
#endif

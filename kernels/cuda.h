/* The operations with kernels in CUDA, as functions of plain C. A build without CUDA has none of them (and no CUDA
 * device that would ask for one).
 *
 * All take a `stream` that is a cudaStream_t of the calling thread's current device, and only launch on it: they do not
 * wait and do not allocate. Pointers in the works are to memory that this device reads, unless said otherwise. Errors:
 * MR_ERROR_DEVICE. */
#ifndef MILLRACE_KERNELS_CUDA_H
#define MILLRACE_KERNELS_CUDA_H

#include "kernels/classical/classical_cuda.h"
#include "kernels/preprocess/preprocess_cuda.h"
#include "kernels/vector/vector_cuda.h"

typedef struct mr_cuda_kernels {
    int (*preprocess)(const mr_preprocess_grid *grid, const mr_preprocess_work *works, int count, void *stream);
    int (*linear)(const mr_linear_work *work, void *stream);
    int (*bias)(const mr_linear_work *work, void *stream);
    int (*top_k)(const mr_top_k_work *works, int count, void *stream);
    int (*normalize)(const mr_normalize_work *works, int count, void *stream);
    int (*pool_mean)(const mr_pool_work *works, int count, void *stream);
    size_t (*histogram_scratch_bytes)(const mr_histogram_work *work);
    int (*histogram)(const mr_histogram_work *work, void *scratch, void *stream);
    int (*hog)(const mr_hog_layout *layout, const mr_hog_work *work, void *stream);
    int (*phash)(const mr_phash_work *work, void *stream);
    size_t (*sharpness_scratch_bytes)(const mr_sharpness_work *work);
    int (*sharpness)(const mr_sharpness_work *work, void *scratch, void *stream);
    int (*change)(const mr_change_work *work, void *stream);
} mr_cuda_kernels;

extern const mr_cuda_kernels mr_kernels_cuda;

#endif

/* Launches kernels by macros, so that the same source is compiled by nvcc and, if another cuda_runtime_api.h comes
 * before it, for the host: there tests run every thread of the grid in turn (tests/cuda_host). */
#pragma once

#include <cuda_runtime_api.h>

#include "millrace/status.h"

#ifdef __CUDACC__
/* kernel<<<grid, block, shared_bytes, stream>>>(arguments); `stream` is a cudaStream_t as void *. */
#define MR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>(__VA_ARGS__)
/* The memory of a block whose size is given at the launch; one type in one file. */
#define MR_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

/* After launches: the runtime's error, or the error `before`. */
static inline int mr_launched(const char *what, cudaError_t before) {
    cudaError_t error = before ? before : cudaGetLastError();
    return error ? mr_fail(MR_ERROR_DEVICE, "cannot compute %s: %s", what, cudaGetErrorString(error)) : MR_OK;
}

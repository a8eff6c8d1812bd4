/* Launches kernels through macros, so that nvcc and host compilers can compile the same source. On the host, another
 * cuda_runtime_api.h must come first; tests then run every thread in the grid in turn (tests/cuda_host). */
#pragma once

#include <cuda_runtime_api.h>

#include "millrace/status.h"

#ifdef __CUDACC__
/* kernel<<<grid, block, shared_bytes, stream>>>(arguments); `stream` is a cudaStream_t as void *. */
#define MR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>(__VA_ARGS__)
/* Block memory whose size is set at the launch. A file must use one type only. */
#define MR_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

/* After launches: the runtime's error, or the error `before`. */
static inline int mr_launched(const char *what, cudaError_t before) {
    cudaError_t error = before ? before : cudaGetLastError();
    return error ? mr_fail(MR_ERROR_DEVICE, "cannot compute %s: %s", what, cudaGetErrorString(error)) : MR_OK;
}

/* Counts CUDA runtime calls that allocate, free or wait, made by this program and the libraries linked into it. The
 * linker puts the functions in cuda_calls.c before the real ones (--wrap). Calls from libraries that are opened at run
 * time are not counted. Any thread. */
#pragma once

#include <stdint.h>

/* X(name, parameters, arguments) */
#define CUDA_CALLS(X)                                                                                                  \
    X(cudaMalloc, (void **data, size_t bytes), (data, bytes))                                                          \
    X(cudaFree, (void *data), (data))                                                                                  \
    X(cudaMallocAsync, (void **data, size_t bytes, cudaStream_t stream), (data, bytes, stream))                        \
    X(cudaFreeAsync, (void *data, cudaStream_t stream), (data, stream))                                                \
    X(cudaHostAlloc, (void **data, size_t bytes, unsigned flags), (data, bytes, flags))                                \
    X(cudaFreeHost, (void *data), (data))                                                                              \
    X(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))                             \
    X(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))                                 \
    X(cudaStreamSynchronize, (cudaStream_t stream), (stream))                                                          \
    X(cudaEventSynchronize, (cudaEvent_t event), (event))                                                              \
    X(cudaDeviceSynchronize, (void), ())

enum { CUDA_CALLS_MOST = 16 };
typedef struct cuda_calls {
    int count;
    const char *name[CUDA_CALLS_MOST];
    uint64_t calls[CUDA_CALLS_MOST];
} cuda_calls;

void cuda_calls_so_far(cuda_calls *told);

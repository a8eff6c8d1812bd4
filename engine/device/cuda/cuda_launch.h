/* A launch that can be repeated, and what else cuda.h shares with the files that it needs. */
#pragma once

#include <stdint.h>

/* Declares a function that only a build with CUDA defines. Elsewhere it is NULL, and no stream is a CUDA device's, so
 * nothing calls it. */
#ifdef MILLRACE_HAS_CUDA
#define MR_CUDA_ONLY
#else
#define MR_CUDA_ONLY __attribute__((weak))
#endif

/* Launches kernels, memsets and copies within the device on `handle`, a cudaStream_t on the thread's current device. It
 * must depend only on its arguments, so that a recorded launch can be repeated for the same arguments. It must neither
 * wait nor allocate. Returns 0 or a negative mr_status. */
typedef int mr_cuda_launch_function(const void *arguments, void *handle);

/* How launch series were given to the device. */
typedef struct mr_cuda_graph_counts {
    uint64_t plain, launched;              /* launch by launch, and as graphs */
    uint64_t recorded, forgotten, refused; /* graphs; refused: by the device */
} mr_cuda_graph_counts;

/* A CUDA device's properties. */
typedef struct mr_cuda_facts {
    int capability; /* 90: compute capability 9.0 */
    char model[64]; /* the maker's name for it */
} mr_cuda_facts;

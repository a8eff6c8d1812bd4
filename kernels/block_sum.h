/* Sums over a block's threads, in CUDA. */
#pragma once

#include <stdint.h>

#include <cuda_runtime_api.h>

/* Adds each thread's `own` to *sum, modulo 2^32, with one operation on *sum per block. All threads in the block must
 * call it, and once per kernel. */
__device__ static inline void mr_add_of_block(uint32_t *sum, uint32_t own) {
    __shared__ uint32_t of_block;
    if (threadIdx.x == 0)
        of_block = 0;
    __syncthreads();
    atomicAdd(&of_block, own);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(sum, of_block);
}

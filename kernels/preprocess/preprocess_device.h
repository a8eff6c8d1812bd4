/* Shared by the preprocess kernels, in CUDA: a launch's pictures, products of bytes and 16-bit weights, words at any
 * address, and the padding. */
#pragma once

#include "kernels/launch.h"
#include "kernels/preprocess/preprocess_grid.h"

/* A launch's pictures. */
typedef struct mr_pictures {
    mr_picture source[MR_PREPROCESS_LAUNCH];
    void *dst[MR_PREPROCESS_LAUNCH];
} mr_pictures;

/* sum + `weights`' low half * byte 0 in `bytes` + high half * byte 1. */
__device__ static inline int32_t mr_dot_low(uint32_t weights, uint32_t bytes, int32_t sum) {
#ifdef __CUDA_ARCH__
    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(weights), "r"(bytes));
    return sum;
#else
    return sum + (int16_t)(weights & 0xffff) * (int32_t)(bytes & 255) +
           (int16_t)(weights >> 16) * (int32_t)(bytes >> 8 & 255);
#endif
}

/* The same with bytes 2 and 3. */
__device__ static inline int32_t mr_dot_high(uint32_t weights, uint32_t bytes, int32_t sum) {
#ifdef __CUDA_ARCH__
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(weights), "r"(bytes));
    return sum;
#else
    return mr_dot_low(weights, bytes >> 16, sum);
#endif
}

/* The same with bytes 2 and 3, as signed bytes. */
__device__ static inline int32_t mr_dot_signed(uint32_t weights, uint32_t bytes, int32_t sum) {
#ifdef __CUDA_ARCH__
    asm("dp2a.hi.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(weights), "r"(bytes));
    return sum;
#else
    return sum + (int16_t)(weights & 0xffff) * (int8_t)(bytes >> 16 & 255) +
           (int16_t)(weights >> 16) * (int8_t)(bytes >> 24);
#endif
}

/* Four bytes at any address, from the one or two whole words that hold them: it can read up to three bytes before and
 * after them. */
__device__ static inline uint32_t mr_load_word(const uint8_t *at) {
    uint32_t ahead = (uint32_t)(uintptr_t)at & 3;
    const uint8_t *first = at - ahead, *last = at + 3 - ((uint32_t)(uintptr_t)(at + 3) & 3);
    return __funnelshift_r(*(const uint32_t *)(const void *)first, *(const uint32_t *)(const void *)last, 8 * ahead);
}

/* at + row * stride in one instruction: compilers take more for a stride that may be negative. */
__device__ static inline const uint8_t *mr_row(const uint8_t *at, uint32_t row, int32_t stride) {
#ifdef __CUDA_ARCH__
    const uint8_t *result;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(result) : "r"(row), "r"(stride), "l"(at));
    return result;
#else
    return at + (ptrdiff_t)row * stride;
#endif
}

/* A word in block memory, by address: with a pointer, each store would have to compute the address again. */
#ifdef __CUDACC__
typedef uint32_t mr_location;

__device__ static inline mr_location mr_place_of(uint32_t *word) {
    return (uint32_t)__cvta_generic_to_shared(word);
}

__device__ static inline mr_location mr_place_at(mr_location place, int32_t words) {
    return place + 4 * (uint32_t)words;
}

__device__ static inline void mr_put_four(mr_location to, uint4 four) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w) : "memory");
}

__device__ static inline void mr_put_two(mr_location to, uint2 two) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" :: "r"(to), "r"(two.x), "r"(two.y) : "memory");
}
#else
typedef uint32_t *mr_location;

static inline mr_location mr_place_of(uint32_t *word) {
    return word;
}

static inline mr_location mr_place_at(mr_location place, int32_t words) {
    return place + words;
}

static inline void mr_put_four(mr_location to, uint4 four) {
    *(uint4 *)(void *)to = four;
}

static inline void mr_put_two(mr_location to, uint2 two) {
    *(uint2 *)(void *)to = two;
}
#endif

/* Calls put(x, y) for every padding pixel and no other. A warp fills one row at a time, or the part of a row beside the
 * picture; this needs 32 bits and no division. `block` among `blocks` share the work. */
template <typename PUT>
__device__ static inline void mr_fill_padding(const mr_preprocess *plan, int block, int blocks, PUT put) {
    const int width = plan->params.width, height = plan->params.height;
    const bool beside = plan->inner_width < width;
    const int rows = beside ? height : height - plan->inner_height, warps = MR_GRID_THREADS / 32;
    for (int i = block * warps + (int)threadIdx.x / 32; i < rows; i += blocks * warps) {
        int y = beside || i < plan->inner_y ? i : i + plan->inner_height;
        bool whole = y < plan->inner_y || y >= plan->inner_y + plan->inner_height;
        int count = whole ? width : width - plan->inner_width;
        for (int x = (int)threadIdx.x % 32; x < count; x += 32)
            put(whole || x < plan->inner_x ? x : x + plan->inner_width, y);
    }
}

/* A device's limits in CUDA. */
#include "kernels/ceiling/ceiling_cuda.h"

#include "kernels/block_sum.h"
#include "kernels/launch.h"

/* Blocks enough to fill any card several times over; threads read 16 bytes at once. */
enum { BLOCKS = 2048, THREADS = 256, LANES = 4 };

typedef struct alignas(16) four_floats {
    float lane[LANES];
} four_floats;

typedef struct alignas(16) four_words {
    uint32_t lane[LANES];
} four_words;

__global__ static void triad(const __grid_constant__ mr_triad_work work) {
    four_floats *dst = (four_floats *)(void *)work.dst;
    const four_floats *a = (const four_floats *)(const void *)work.a, *b = (const four_floats *)(const void *)work.b;
    size_t step = (size_t)gridDim.x * blockDim.x, count = work.count / LANES;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        four_floats here = a[i];
        const four_floats more = b[i];
        for (int lane = 0; lane < LANES; lane++)
            here.lane[lane] = here.lane[lane] + 3.0f * more.lane[lane];
        dst[i] = here;
    }
}

int mr_triad_cuda(const mr_triad_work *work, void *stream) {
    MR_LAUNCH(triad, BLOCKS, THREADS, 0, stream, *work);
    return mr_launched("the triad", cudaSuccess);
}

__global__ static void read_words(const __grid_constant__ mr_read_work work) {
    const four_words *src = (const four_words *)(const void *)work.src;
    size_t step = (size_t)gridDim.x * blockDim.x, count = work.count / LANES;
    uint32_t own = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const four_words here = src[i];
        own += here.lane[0] + here.lane[1] + here.lane[2] + here.lane[3];
    }
    mr_add_of_block(work.sum, own);
}

int mr_read_cuda(const mr_read_work *work, void *stream) {
    cudaError_t cleared = cudaMemsetAsync(work->sum, 0, sizeof *work->sum, (cudaStream_t)stream);
    MR_LAUNCH(read_words, BLOCKS, THREADS, 0, stream, *work);
    return mr_launched("a sum", cleared);
}

__global__ static void nothing(uint64_t none) {
}

int mr_nothing_cuda(void *stream) {
    MR_LAUNCH(nothing, 1, 1, 0, stream, 0);
    return mr_launched("nothing", cudaSuccess);
}

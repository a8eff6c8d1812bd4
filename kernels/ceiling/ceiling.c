#include "kernels/ceiling/ceiling.h"


/* Compiler vectors, which become processor vectors: at -O2 plain C loops are not vectorized. */
typedef float mr_floats __attribute__((vector_size(16)));
typedef uint32_t mr_words __attribute__((vector_size(16)));
enum { LANES = 4, CHAINS = 8 };

void mr_triad(const mr_triad_work *work) {
    mr_floats *dst = (mr_floats *)(void *)work->dst;
    const mr_floats *a = (const mr_floats *)(const void *)work->a, *b = (const mr_floats *)(const void *)work->b;
    const size_t count = work->count / LANES;
    for (size_t i = 0; i < count; i++)
        dst[i] = a[i] + 3.0f * b[i];
}

/* Several chains, so that no addition must wait for the previous one. */
void mr_read(const mr_read_work *work) {
    const mr_words *src = (const mr_words *)(const void *)work->src;
    const size_t count = work->count / LANES;
    mr_words sum[CHAINS] = {{0}};
    size_t i = 0;
    for (; i + CHAINS <= count; i += CHAINS)
#pragma GCC unroll 8
        for (int c = 0; c < CHAINS; c++)
            sum[c] += src[i + (size_t)c];
    for (; i < count; i++)
        sum[0] += src[i];
    for (int c = 1; c < CHAINS; c++)
        sum[0] += sum[c];
    *work->sum = sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

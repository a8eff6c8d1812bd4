/* The functions of vector_cuda.cu in a build without CUDA. */
#include "kernels/vector/vector_cuda.h"
#include "kernels/without_cuda.h"

int mr_linear_cuda(const mr_linear_work *work, void *stream) {
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

int mr_bias_cuda(const mr_linear_work *work, void *stream) {
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

int mr_top_k_cuda(const mr_top_k_work *works, int count, void *stream) {
    (void)works;
    (void)count;
    (void)stream;
    return mr_without_cuda();
}

int mr_normalize_cuda(const mr_normalize_work *works, int count, void *stream) {
    (void)works;
    (void)count;
    (void)stream;
    return mr_without_cuda();
}

int mr_pool_mean_cuda(const mr_pool_work *works, int count, void *stream) {
    (void)works;
    (void)count;
    (void)stream;
    return mr_without_cuda();
}

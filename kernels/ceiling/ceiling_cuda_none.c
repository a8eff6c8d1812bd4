/* The functions of ceiling_cuda.cu in a build without CUDA. */
#include "kernels/ceiling/ceiling_cuda.h"
#include "kernels/without_cuda.h"

int mr_triad_cuda(const mr_triad_work *work, void *stream) {
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

int mr_read_cuda(const mr_read_work *work, void *stream) {
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

int mr_products_cuda(const mr_products_work *work, void *stream) {
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

int mr_nothing_cuda(void *stream) {
    (void)stream;
    return mr_without_cuda();
}

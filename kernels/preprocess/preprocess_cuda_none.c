/* preprocess_cuda.cu's functions in a build without CUDA. */
#include "kernels/preprocess/preprocess_cuda.h"
#include "kernels/without_cuda.h"

int mr_preprocess_cuda(const mr_preprocess_grid *grid, const mr_preprocess_work *works, int count, void *stream) {
    (void)grid;
    (void)works;
    (void)count;
    (void)stream;
    return mr_without_cuda();
}

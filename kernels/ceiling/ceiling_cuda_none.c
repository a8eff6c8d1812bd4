/* ceiling_cuda.cu's functions in a build without CUDA. */
#include "kernels/ceiling/ceiling_cuda.h"
#include "kernels/without_cuda.h"

MR_WITHOUT_CUDA(mr_triad_cuda, mr_triad_work)
MR_WITHOUT_CUDA(mr_read_cuda, mr_read_work)

int mr_nothing_cuda(void *stream) {
    (void)stream;
    return mr_without_cuda();
}

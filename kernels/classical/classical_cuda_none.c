/* classical_cuda.cu's functions in a build without CUDA. */
#include "kernels/classical/classical_cuda.h"
#include "kernels/without_cuda.h"

size_t mr_histogram_cuda_scratch_bytes(const mr_histogram_work *work) {
    (void)work;
    return 0;
}

int mr_histogram_cuda(const mr_histogram_work *work, void *scratch, void *stream) {
    (void)work;
    (void)scratch;
    (void)stream;
    return mr_without_cuda();
}

int mr_hog_cuda(const mr_hog_layout *layout, const mr_hog_work *work, void *stream) {
    (void)layout;
    (void)work;
    (void)stream;
    return mr_without_cuda();
}

MR_WITHOUT_CUDA(mr_phash_cuda, mr_phash_work)

size_t mr_sharpness_cuda_scratch_bytes(const mr_sharpness_work *work) {
    (void)work;
    return 0;
}

int mr_sharpness_cuda(const mr_sharpness_work *work, void *scratch, void *stream) {
    (void)work;
    (void)scratch;
    (void)stream;
    return mr_without_cuda();
}

MR_WITHOUT_CUDA(mr_change_cuda, mr_change_work)

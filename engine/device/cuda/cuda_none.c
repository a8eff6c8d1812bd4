/* Stands in for CUDA in a build without it. */
#include "engine/device/cuda/cuda.h"

static int missing(int index) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%d: this build of millrace has no CUDA; configure it with -DMILLRACE_CUDA=ON, or make "
                   "packages with `tools/package --cuda`", index);
}

int mr_cuda_create(mr_device **device, int index) {
    *device = NULL;
    return missing(index);
}

int mr_cuda_probe(int index, uint64_t *memory_bytes) {
    *memory_bytes = 0;
    return missing(index);
}

int mr_cuda_capability(int index) {
    return 0;
}

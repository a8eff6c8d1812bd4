/* What stands in for CUDA in a build without it. */
#include "engine/device/device.h"

int mr_cuda_create(mr_device **device, int index) {
    *device = NULL;
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%d: this build of millrace has no CUDA; configure it with -DMILLRACE_CUDA=ON", index);
}

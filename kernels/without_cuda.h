/* Stands in for kernels in CUDA in a build without it, which has no CUDA device whose streams could come to them. */
#ifndef MILLRACE_KERNELS_WITHOUT_CUDA_H
#define MILLRACE_KERNELS_WITHOUT_CUDA_H

#include "millrace/status.h"

static inline int mr_without_cuda(void) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this build of millrace has no kernels in CUDA; configure it with -DMILLRACE_CUDA=ON");
}

#endif

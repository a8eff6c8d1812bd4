/* Replaces CUDA kernels in a build without CUDA. No CUDA device exists there, so no stream can reach them. */
#pragma once

#include "millrace/status.h"

static inline int mr_without_cuda(void) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this build of millrace has no kernels in CUDA; configure it with -DMILLRACE_CUDA=ON");
}

/* Defines a function that launches one work, or `count` works. */
#define MR_WITHOUT_CUDA(name, work_type)                                                                               \
    int name(const work_type *work, void *stream) {                                                                    \
        (void)work, (void)stream;                                                                                      \
        return mr_without_cuda();                                                                                      \
    }
#define MR_WITHOUT_CUDA_EACH(name, work_type)                                                                          \
    int name(const work_type *works, int count, void *stream) {                                                        \
        (void)works, (void)count, (void)stream;                                                                        \
        return mr_without_cuda();                                                                                      \
    }

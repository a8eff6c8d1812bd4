#include "engine/device/cuda/cuda.h"
#include "kernels/ceiling/ceiling.h"
#include "kernels/ceiling/ceiling_cuda.h"
#include "millrace/status.h"

/* On a CUDA device work is launched, as `calls` launches; elsewhere it is submitted. */
#define ENQUEUE(name, calls)                                                                                           \
    static int run_##name(void *arguments) {                                                                           \
        mr_##name(arguments);                                                                                          \
        return MR_OK;                                                                                                  \
    }                                                                                                                  \
    static int launch_##name(const void *arguments, void *handle) {                                                    \
        return mr_##name##_cuda(arguments, handle);                                                                    \
    }                                                                                                                  \
    int mr_##name##_enqueue(mr_stream *stream, const mr_##name##_work *work) {                                         \
        if (!mr_stream_is_cuda(stream))                                                                                \
            return mr_stream_submit(stream, run_##name, work, sizeof *work);                                           \
        return mr_cuda_launch(stream, launch_##name, work, sizeof *work, calls);                                       \
    }

ENQUEUE(triad, 1)
ENQUEUE(read, 2)
#undef ENQUEUE

static int run_nothing(void *arguments) {
    return MR_OK;
}

static int launch_nothing(const void *arguments, void *handle) {
    return mr_nothing_cuda(handle);
}

int mr_nothing_enqueue(mr_stream *stream) {
    const uint64_t none = 0;
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run_nothing, &none, sizeof none);
    return mr_cuda_launch(stream, launch_nothing, &none, sizeof none, 1);
}

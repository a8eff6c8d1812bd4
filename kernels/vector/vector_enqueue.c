#include <stddef.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/vector/cublas.h"
#include "kernels/vector/vector.h"
#include "kernels/vector/vector_cuda.h"

#define RUN(name)                                                                                                      \
    static int run_##name(void *arguments) {                                                                           \
        mr_##name(arguments);                                                                                          \
        return MR_OK;                                                                                                  \
    }

enum { LAUNCHED = 32 }; /* together */

/* On a CUDA device one launch, or `calls`, for many pieces; elsewhere separate work for each. */
#define ENQUEUE(name, type, calls)                                                                                     \
    RUN(name)                                                                                                          \
    typedef struct name##_launch {                                                                                     \
        size_t count;                                                                                                  \
        type works[LAUNCHED];                                                                                          \
    } name##_launch;                                                                                                   \
    static int launch_##name(const void *arguments, void *handle) {                                                    \
        const name##_launch *a = arguments;                                                                            \
        return mr_##name##_cuda(a->works, (int)a->count, handle);                                                      \
    }                                                                                                                  \
    static int give_##name(mr_stream *stream, const type *works, int count) {                                          \
        name##_launch a = {.count = (size_t)count};                                                                    \
        size_t bytes = (size_t)count * sizeof *works;                                                                  \
        memcpy(a.works, works, bytes);                                                                                 \
        return mr_cuda_launch(stream, launch_##name, &a, offsetof(name##_launch, works) + bytes, calls);               \
    }                                                                                                                  \
    int mr_##name##_enqueue(mr_stream *stream, const type *works, int count) {                                         \
        bool cuda = mr_stream_is_cuda(stream);                                                                         \
        int status = MR_OK;                                                                                            \
        for (int i = 0, some; i < count && !status; i += some) {                                                       \
            some = !cuda ? 1 : count - i < LAUNCHED ? count - i : LAUNCHED;                                            \
            stream->joined = i % LAUNCHED > 0;                                                                         \
            status = cuda ? give_##name(stream, works + i, some)                                                       \
                          : mr_stream_submit(stream, run_##name, &works[i], sizeof works[i]);                          \
        }                                                                                                              \
        stream->joined = false;                                                                                        \
        return status;                                                                                                 \
    }

ENQUEUE(top_k, mr_top_k_work, 1)
ENQUEUE(rectify, mr_rectify_work, 1)
ENQUEUE(nearest, mr_nearest_work, 2)
ENQUEUE(normalize, mr_normalize_work, 1)
ENQUEUE(pool_mean, mr_pool_work, 1)
#undef ENQUEUE
RUN(linear)
#undef RUN

/* workspace: NULL without cuBLAS. cuBLAS needs stream memory, so that products on several streams cannot disturb each
 * other. */
typedef struct linear_launch {
    mr_linear_work work;
    void *workspace;
    size_t workspace_bytes, device;
} linear_launch;

static int launch_linear(const void *arguments, void *handle) {
    const linear_launch *a = arguments;
    if (!a->workspace)
        return mr_linear_cuda(&a->work, handle);
    int status = a->work.bias ? mr_bias_cuda(&a->work, handle) : MR_OK;
    return status ? status
                  : mr_cublas_linear(&a->work, a->work.bias ? 1.0f : 0.0f, (int)a->device, a->workspace,
                                     a->workspace_bytes, handle);
}

static int find_workspace(mr_stream *stream, void **workspace, size_t *bytes) {
    *bytes = mr_cublas_found() ? mr_cublas_workspace_bytes(mr_cuda_about(stream->device).capability) : 0;
    return *bytes ? mr_cuda_scratch(stream, *bytes, workspace) : MR_OK;
}

int mr_linear_enqueue(mr_stream *stream, const mr_linear_work *work) {
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run_linear, work, sizeof *work);
    linear_launch a = {.work = *work, .device = (size_t)stream->device->index};
    int status = find_workspace(stream, &a.workspace, &a.workspace_bytes);
    return status ? status : mr_cuda_launch(stream, launch_linear, &a, sizeof a, a.workspace && work->bias ? 2 : 1);
}

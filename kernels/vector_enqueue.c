#include "engine/device/cuda.h"
#include "kernels/cublas.h"
#include "kernels/cuda.h"
#include "kernels/vector.h"

#define RUN(name)                                                                                                      \
    static int run_##name(void *arguments) {                                                                           \
        mr_##name(arguments);                                                                                          \
        return MR_OK;                                                                                                  \
    }

/* One launch for all pieces of work on a CUDA device, work of its own for each elsewhere. */
#define ENQUEUE(name, type)                                                                                            \
    RUN(name)                                                                                                          \
    int mr_##name##_enqueue(mr_stream *stream, const type *works, int count) {                                         \
        void *handle;                                                                                                  \
        int status = MR_OK;                                                                                            \
        if (mr_stream_is_cuda(stream)) {                                                                               \
            status = mr_cuda_enter(stream, &handle);                                                                   \
            return status ? status : mr_kernels_cuda.name(works, count, handle);                                       \
        }                                                                                                              \
        for (int i = 0; i < count && !status; i++)                                                                     \
            status = mr_stream_submit(stream, run_##name, &works[i], sizeof works[i]);                                 \
        return status;                                                                                                 \
    }

ENQUEUE(top_k, mr_top_k_work)
ENQUEUE(normalize, mr_normalize_work)
ENQUEUE(pool_mean, mr_pool_work)
#undef ENQUEUE
RUN(linear)
#undef RUN

/* cuBLAS works in memory of the stream, so that products on several streams do not disturb each other. */
static int multiply(mr_stream *stream, const mr_linear_work *work, void *handle) {
    void *workspace = NULL;
    int status = mr_cuda_scratch(stream, MR_CUBLAS_WORKSPACE_BYTES, &workspace);
    if (!status && work->bias)
        status = mr_kernels_cuda.bias(work, handle);
    return status ? status : mr_cublas_linear(work, work->bias ? 1.0f : 0.0f, stream->device->index, workspace, handle);
}

int mr_linear_enqueue(mr_stream *stream, const mr_linear_work *work) {
    void *handle;
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run_linear, work, sizeof *work);
    int status = mr_cuda_enter(stream, &handle);
    if (status)
        return status;
    return mr_cublas_found() ? multiply(stream, work, handle) : mr_kernels_cuda.linear(work, handle);
}

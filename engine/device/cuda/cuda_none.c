/* Stands in for CUDA in a build without it. */
#include "engine/device/cuda/cuda.h"

static int missing(int index) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%d: this build of millrace has no CUDA; configure it with -DMILLRACE_CUDA=ON", index);
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
    (void)index;
    return 0;
}

mr_cuda_facts mr_cuda_about(const mr_device *device) {
    (void)device;
    return (mr_cuda_facts){0};
}

int mr_cuda_enter(mr_stream *stream, void **handle) {
    *handle = NULL;
    return missing(stream->device->index);
}

int mr_cuda_launch(mr_stream *stream, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                   int calls) {
    (void)function;
    (void)arguments;
    (void)bytes;
    (void)calls;
    return missing(stream->device->index);
}

mr_cuda_graph_counts mr_cuda_graph_count(const mr_stream *stream) {
    (void)stream;
    return (mr_cuda_graph_counts){0};
}

int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data) {
    (void)bytes;
    *data = NULL;
    return missing(stream->device->index);
}

int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context) {
    (void)function;
    (void)context;
    return missing(stream->device->index);
}

/* A CUDA device for kernels in CUDA, in plain C types: no other file need know CUDA for it.
 *
 * Threads: as for streams. A build without CUDA has no such streams: it lacks the functions that are
 * marked, and the others fail. */
#pragma once

#include "engine/device/cuda/cuda_after.h"
#include "engine/device/cuda/cuda_launch.h"
#include "engine/device/device.h"

/* MR_ERROR_UNAVAILABLE, with the reason, if this build or this machine has no such device. */
int mr_cuda_create(mr_device **device, int index);
/* Reads the size of the device's memory without opening it. Errors as for mr_cuda_create. */
int mr_cuda_probe(int index, uint64_t *memory_bytes);
/* The compute capability of a GPU, without opening it: 90 is 9.0. 0: there is no such GPU. */
int mr_cuda_capability(int index);

/* Whether work of this stream is launched as kernels rather than submitted as functions. */
static inline bool mr_stream_is_cuda(const mr_stream *stream) {
    return stream->device->type->kind == MR_DEVICE_CUDA;
}

/* The properties of an open device. */
MR_CUDA_ONLY mr_cuda_facts mr_cuda_about(const mr_device *device);

/* Adds the launches in function(arguments, handle) to the stream's work; they are `calls` runtime calls. The function
 * is called later, at the next other request to the stream, at the latest when an event is recorded. If it fails, that
 * event fails. The arguments are copied and compared byte by byte, so padding must be zero. MR_ERROR_MEMORY. */
MR_CUDA_ONLY int mr_cuda_launch(mr_stream *stream, mr_cuda_launch_function *function, const void *arguments,
                                size_t bytes, int calls);

/* How often the stream gave launch series to the device. */
MR_CUDA_ONLY mr_cuda_graph_counts mr_cuda_graph_count(const mr_stream *stream);

/* Makes the stream's device the calling thread's current one and returns its cudaStream_t, for work that bypasses this
 * header. The stream's earlier work is launched first. MR_ERROR_DEVICE, and errors from deferred launches. */
MR_CUDA_ONLY int mr_cuda_enter(mr_stream *stream, void **handle);

/* Device memory that belongs to the stream. The next launch may write there, since earlier launches are done with it by
 * then. The content is undefined. It grows in stream order, so no call waits, and is kept. Only the latest call's
 * address is valid. MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
MR_CUDA_ONLY int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data);

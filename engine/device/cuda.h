/* What the kernels in CUDA need of a CUDA device, in plain C types: no other file has to know CUDA for it.
 *
 * Threads: as for streams. In a build without CUDA there are no such streams, and the functions fail. */
#ifndef MILLRACE_DEVICE_CUDA_H
#define MILLRACE_DEVICE_CUDA_H

#include "engine/device/device.h"

/* Whether work of this stream is launched as kernels rather than submitted as functions. */
static inline bool mr_stream_is_cuda(const mr_stream *stream) {
    return stream->device->type->kind == MR_DEVICE_CUDA;
}

/* Makes the stream's device the calling thread's current one, and tells its cudaStream_t. MR_ERROR_DEVICE. */
int mr_cuda_enter(mr_stream *stream, void **handle);

/* Memory of the device that belongs to the stream: what is launched on it next may write there, whatever was launched
 * before has done with it by then. Of undefined content; grown in the order of the stream, so nothing waits, and kept.
 * Of two calls only the later one's is valid. MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data);

/* Calls function(context) when the next event recorded on the stream is done or has failed, before those who wait for it
 * are told; where none is recorded any more, when the stream is destroyed. The function must be short, and must not call
 * the device. MR_ERROR_MEMORY: it will not be called. */
int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context);

#endif

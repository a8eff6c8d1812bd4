/* What the kernels in CUDA need of a CUDA device, in plain C types: no other file has to know CUDA for it.
 *
 * Threads: as for streams. In a build without CUDA there are no such streams, and the functions fail. */
#ifndef MILLRACE_DEVICE_CUDA_CUDA_H
#define MILLRACE_DEVICE_CUDA_CUDA_H

#include "engine/device/device.h"

/* Whether work of this stream is launched as kernels rather than submitted as functions. */
static inline bool mr_stream_is_cuda(const mr_stream *stream) {
    return stream->device->type->kind == MR_DEVICE_CUDA;
}

/* What a CUDA device is; all zero in a build without CUDA. */
typedef struct mr_cuda_facts {
    int capability; /* 90: compute capability 9.0 */
    char model[64]; /* as its maker calls it */
} mr_cuda_facts;
mr_cuda_facts mr_cuda_about(const mr_device *device);

/* Launches on `handle`, a cudaStream_t of the thread's current device, what follows from the arguments and from nothing
 * else, so that what was recorded once can be launched again for the same arguments: kernels, memsets and copies within
 * the device, nothing that waits or allocates. Returns 0 or a negative mr_status. */
typedef int mr_cuda_launch_function(const void *arguments, void *handle);

/* Adds to the work of the stream what function(arguments, handle) launches, by so many `calls` of the runtime. It is
 * called later, when something else is asked of the stream, at the latest when an event is recorded, which then fails
 * in its place. The arguments are copied; so that they are found to be the same, what fills them up must be zero too.
 * MR_ERROR_MEMORY. */
int mr_cuda_launch(mr_stream *stream, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                   int calls);

/* How often series of launches were given to the device. */
typedef struct mr_cuda_graph_counts {
    uint64_t plain, launched;              /* launch by launch, and as graphs */
    uint64_t recorded, forgotten, refused; /* graphs; refused: by the device */
} mr_cuda_graph_counts;
mr_cuda_graph_counts mr_cuda_graph_count(const mr_stream *stream);

/* Makes the stream's device the calling thread's current one, and tells its cudaStream_t, for work that is given to it
 * past this header: what was added before comes first. MR_ERROR_DEVICE, and what mr_cuda_launch puts off. */
int mr_cuda_enter(mr_stream *stream, void **handle);

/* Memory of the device that belongs to the stream: what is launched on it next may write there, whatever was launched
 * before has done with it by then. Of undefined content; grown in the order of the stream, so nothing waits, and kept.
 * Of two calls only the later one's is valid. MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
int mr_cuda_scratch(mr_stream *stream, size_t bytes, void **data);

/* Calls function(context) when the next event recorded on the stream is done or has failed, before those who wait for
 * it are told; where none is recorded any more, when the stream is destroyed. The function must be short, and must not
 * call the device. MR_ERROR_MEMORY: it will not be called. */
int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context);

#endif

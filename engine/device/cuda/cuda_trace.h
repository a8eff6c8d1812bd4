/* Tracing of CUDA devices (device.h) and ranges for NVIDIA's profilers. Only for cuda.c.
 *
 * A stream runs one piece of work at a time, or none. The two events around a piece enclose all work that was submitted
 * to the stream in the meantime. A piece is reported when the stream's next record is done. A piece that cannot be
 * timed is not reported.
 *
 * A copy that waits for its engine counts as copying, since a stream does not report when the copy starts. */
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "engine/device/device.h"

typedef struct mr_cuda_piece mr_cuda_piece;

/* A device's timeline; must be zero at first. `lock`, the device's lock, guards all of it. */
typedef struct mr_cuda_timeline {
    pthread_mutex_t *lock;
    mr_device *device;
    mr_cuda_piece *unused;
    cudaEvent_t anchor;  /* a point in time that is known on the host's clock too; NULL: none yet */
    int64_t anchor_ns;
    int64_t ended_ns[MR_ENGINES]; /* the latest that was reported */
} mr_cuda_timeline;

/* From now on the stream is at a piece of work; that before, *piece, has ended. */
void mr_cuda_trace_begin(mr_cuda_timeline *self, mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle,
                         mr_engine engine, size_t bytes);
/* The same for a copy, whose engine the addresses tell. */
void mr_cuda_trace_copy(mr_cuda_timeline *self, mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle,
                        const void *to, const void *from, size_t bytes);
/* The stream is at nothing any more. NULL is allowed. */
void mr_cuda_trace_end(mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle);
/* The device is destroyed; nothing is open any more. */
void mr_cuda_timeline_fini(mr_cuda_timeline *self);

/* Whether this is device memory, and on which device; else *device is -1. */
bool mr_cuda_is_on_device(const void *data, int *device);

/* A named range of the calling thread, shown by a profiler that is attached; nothing otherwise. */
void mr_cuda_range_begin(const char *name);
void mr_cuda_range_end(void);

/* What the kernels in CUDA need of a CUDA device, in plain C types: no other file has to know CUDA for it.
 *
 * Threads: as for streams. In a build without CUDA there are no such streams, and the functions fail. */
#ifndef MILLRACE_DEVICE_CUDA_H
#define MILLRACE_DEVICE_CUDA_H

#include "engine/device/device.h"

/* Makes the stream's device the calling thread's current one, and tells its cudaStream_t. MR_ERROR_DEVICE. */
int mr_cuda_enter(mr_stream *stream, void **handle);

#endif

/* A CUDA stream's work on the host. */
#pragma once

#include "engine/device/cuda/cuda_device.h"

/* A piece of work for the stream's next record. NULL: no memory. */
cuda_work *mr_cuda_add_work(cuda_stream *stream);
/* All work in a list is done: calls the functions that want to know, in order. Returns the status of the last piece
 * that failed, or MR_OK. Must be called without the lock. */
int mr_cuda_finish_work(cuda_work **list);
/* Empties the list into the free list. With the lock. */
void mr_cuda_recycle_work(cuda_device *device, cuda_work **list);

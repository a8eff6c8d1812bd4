/* A CUDA device's streams. */
#pragma once

#include "engine/device/cuda/cuda_device.h"

/* As in mr_device_type. */
int mr_cuda_stream_create(mr_device *device, mr_stream **stream);
int mr_cuda_stream_create_urgent(mr_device *device, mr_stream **stream);
void mr_cuda_stream_destroy(mr_stream *stream);
int mr_cuda_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
int mr_cuda_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                      size_t bytes, size_t rows);

/* Makes the device the thread's current one and submits deferred launches; before any other call on the stream. */
int mr_cuda_flush(cuda_stream *stream);

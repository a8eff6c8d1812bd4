/* Calls after a CUDA stream's work. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "engine/device/device.h"

/* Calls function(context) when the next event recorded on the stream is done or has failed, before the event's waiters
 * are called; if none is recorded any more, when the stream is destroyed. The function must be short, and must not call
 * the device. MR_ERROR_MEMORY: it will not be called. */
MR_CUDA_ONLY int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context);

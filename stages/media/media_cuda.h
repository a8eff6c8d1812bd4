/* libavcodec's CUDA devices: NVDEC and NVENC work in the stage's device memory. FFmpeg opens their libraries and the
 * driver. FFmpeg's device header needs the CUDA toolkit: without it, media_cuda_none.c is built instead. Any thread. */
#pragma once

#include <libavutil/buffer.h>

#include "millrace/stage.h"

/* MR_OK if this machine can have NVDEC, or NVENC; otherwise MR_ERROR_UNAVAILABLE, naming the missing library and the
 * package to install. */
int mr_nvdec_check(void);
int mr_nvenc_check(void);

/* Makes a libavcodec device for the stage's device: it uses the primary context and puts work on `stream`. The caller
 * must unref it. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. */
int mr_av_cuda_device(AVBufferRef **device, mr_stream *stream);

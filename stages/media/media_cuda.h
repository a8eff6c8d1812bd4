/* libavcodec's CUDA devices: NVDEC and NVENC, the video decoder and encoder of NVIDIA's GPUs, work on pictures in the
 * memory of a stage's own device. FFmpeg opens their libraries and the driver itself; its header of the device needs
 * the toolkit's, so that builds without a toolkit have media_cuda_none.c instead. Any thread. */
#pragma once

#include <libavutil/buffer.h>

#include "millrace/stage.h"

/* MR_OK if this machine may have NVDEC, or NVENC; else MR_ERROR_UNAVAILABLE with the missing library and the package to
 * install. */
int mr_nvdec_check(void);
int mr_nvenc_check(void);

/* A device for libavcodec on the stream's own: in its context, which is the primary one, and with its work on the
 * stream. The caller's to unref. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. */
int mr_av_cuda_device(AVBufferRef **device, mr_stream *stream);

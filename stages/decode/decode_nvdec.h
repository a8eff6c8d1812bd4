/* NVDEC, the video decoder of NVIDIA's GPUs, by libavcodec's CUDA device. FFmpeg opens NVDEC's library and the driver
 * itself; its header of the device needs the toolkit's, so that builds without a toolkit have decode_nvdec_none.c
 * instead. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_NVDEC_H
#define MILLRACE_STAGES_DECODE_DECODE_NVDEC_H

#include <libavcodec/avcodec.h>

#include "millrace/stage.h"

/* MR_OK if this machine may have NVDEC, or MR_ERROR_UNAVAILABLE with the missing library and the package to install. */
int mr_nvdec_check(void);

/* A device for libavcodec on the stream's own: in its context, which is the primary one, and with its work on the
 * stream. The caller's to unref. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. */
int mr_nvdec_device(AVBufferRef **device, mr_stream *stream);

#endif

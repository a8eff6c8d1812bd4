/* Decodes for a device: with its hardware decoder if that supports the stream, else in software. In both cases pictures
 * end up in device memory.
 *
 * The hardware decoder keeps its memory: each picture is copied into a pool buffer, on the call's stream, and held
 * until the copy is done. The copy stays within the device and costs microseconds. A following queue can therefore
 * never starve the decoder.
 *
 * One thread at a time. */
#pragma once

#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>

#include "millrace/stage.h"
#include "stages/decode/device/decode_log.h"
#include "stages/media/media_hardware.h"

typedef struct mr_decode_device mr_decode_device;

int mr_decode_device_create(mr_decode_device **device, mr_stage *self, mr_hardware hardware);
/* Must be called after its decoders were freed and all work is done. Sets the pointer to NULL; accepts NULL. */
void mr_decode_device_destroy(mr_decode_device **device);

/* Chooses which libavcodec decoder to open, for the calls' stream; NULL: none. If the device has NVDEC, the NVDEC
 * decoder, which may differ from the software one: AV1 is decoded by libdav1d, or by NVDEC through libavcodec's AV1
 * decoder. `device` NULL: the processors. If a device stream must be decoded in software, the reason is logged once per
 * source. MR_ERROR_UNAVAILABLE if hardware is required and missing. */
int mr_decode_device_choose(mr_decode_device *device, enum AVCodecID id, mr_stream *stream,
                            const AVCodec **decoder);
/* Prepares the chosen decoder before it is opened. */
void mr_decode_device_attach(mr_decode_device *device, AVCodecContext *codec);
/* As mr_picture_pool_log and mr_picture_pool_log_of. */
mr_decode_log *mr_decode_device_log(mr_decode_device *device);
mr_decode_log *mr_decode_device_log_of(const AVCodecContext *codec);
/* Whether the packet just sent must be sent again, to a newly opened decoder. NVDEC could not get all surfaces and may
 * start with fewer, or software must decode a stream that NVDEC does not support. True once in each case. */
bool mr_decode_device_again(mr_decode_device *device);
/* Whether a decoder found in mid-stream that required hardware cannot continue; the message has the reason. */
bool mr_decode_device_refused(const mr_decode_device *device);

/* Makes a frame in device memory from the picture, derived from `packet`, with `format`. `converted`: the layout to
 * convert to if the picture's layout cannot be carried, else the picture's layout. MR_ERROR_AGAIN as mr_io_acquire. */
int mr_decode_device_give(mr_decode_device *device, mr_io *io, const AVFrame *picture, enum AVPixelFormat converted,
                          const mr_format *format, const mr_frame *packet, mr_frame **frame);

/* Decoding for a device: by its own decoder if it has one for the stream, else by software, and the pictures end up in
 * the device's memory in both cases.
 *
 * The decoder keeps its memory to itself: a picture is copied, by work of the call, into a buffer of the stage's pool,
 * and is held until that is done. A device's pictures are copied within its memory, at a cost of microseconds; thus no
 * queue behind can starve the decoder of its surfaces.
 *
 * One thread at a time. */
#ifndef MILLRACE_STAGES_DECODE_DEVICE_DECODE_DEVICE_H
#define MILLRACE_STAGES_DECODE_DEVICE_DECODE_DEVICE_H

#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>

#include "millrace/stage.h"
#include "stages/decode/device/decode_heard.h"
#include "stages/media/media_hardware.h"

typedef struct mr_decode_device mr_decode_device;

/* Adds the layouts in which a device's decoder gives pictures of the set's layouts. */
void mr_decode_device_widen(mr_format_set *pictures);
/* The most memory of a CUDA device that its decoder takes for pictures of that set; MR_BYTES_UNKNOWN if their size is
 * open. */
int64_t mr_decode_device_bytes(const mr_format_set *pictures);
/* Whether there could be NVDEC for packets of that set in a codec of that name (NULL: any), as far as that is known
 * without it. MR_ERROR_CONFIG, and why not. */
int mr_decode_device_suits(const char *codec, const mr_format_set *packets);
/* libavcodec's decoder of that codec that works by NVDEC; NULL: there is none. */
const AVCodec *mr_nvdec_decoder(enum AVCodecID id);
/* As mr_stage_type.check_device. */
int mr_decode_device_check(mr_hardware hardware, const char *device);

/* As mr_stage_type.check_input. If hardware is required, the other two have checked all but the capabilities of this
 * GPU's decoder. */
int mr_decode_device_check_input(mr_hardware hardware, const mr_format_set *packets, const char *device,
                                 bool *otherwise);

int mr_decode_device_create(mr_decode_device **device, mr_stage *self, mr_hardware hardware);
/* After the decoders that use it, and when the work of all calls is done. NULLs; accepts NULL. */
void mr_decode_device_destroy(mr_decode_device **device);

/* Which of libavcodec's decoders is to be opened, for the call's stream; NULL if there is none. That for NVDEC if the
 * device has one, which may be another than that for the processors: AV1 is decoded by libdav1d or by NVDEC with
 * libavcodec's own. A device that is NULL is the processors. Why a device's is decoded by software is logged, once for
 * each source. MR_ERROR_UNAVAILABLE if hardware is required and there is none. */
int mr_decode_device_choose(mr_decode_device *device, enum AVCodecID id, mr_io *io, const AVCodec **decoder);
/* Prepares the decoder that was chosen, before it is opened. */
void mr_decode_device_attach(mr_decode_device *device, AVCodecContext *codec);
/* As mr_picture_pool_heard, and mr_picture_pool_heard_of. */
mr_heard *mr_decode_device_heard(mr_decode_device *device);
mr_heard *mr_decode_device_heard_of(const AVCodecContext *codec);
/* Whether the packet that was just sent is to be sent once more, to a decoder that is opened anew: NVDEC could not get
 * all surfaces and may start with fewer, or another decoder is to decode by software a stream that NVDEC does not
 * support. True once for each. */
bool mr_decode_device_again(mr_decode_device *device);
/* Whether a decoder has found, in mid-stream, that required hardware cannot go on, with the reason as message. */
bool mr_decode_device_refused(const mr_decode_device *device);

/* Leaves out the columns and rows at the left and at the top that a picture of the hardware still has: FFmpeg cuts only
 * pictures of its own. */
void mr_decode_device_crop(AVFrame *picture);
/* The layout of a picture's samples, wherever they lie. */
enum AVPixelFormat mr_decode_device_layout(const AVFrame *picture);
/* A frame for the picture in the device's memory, derived from `packet`, with that format. `converted` is the layout to
 * convert to if the picture's own cannot be carried, else its own. MR_ERROR_AGAIN as mr_io_acquire. */
int mr_decode_device_give(mr_decode_device *device, mr_io *io, const AVFrame *picture, enum AVPixelFormat converted,
                          const mr_format *format, const mr_frame *packet, mr_frame **frame);

#endif

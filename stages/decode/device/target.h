/* Where one source's pictures are decoded to: pool buffers on the processors (decode_pool.h; decode_board.h copies
 * there), or device memory (decode_device.h). One thread at a time, except for mr_decode_target_log_of; for still
 * pictures several threads may also call mr_decode_target_choose and _attach. */
#pragma once

#include "stages/decode/device/decode_board.h"
#include "stages/decode/device/decode_device.h"
#include "stages/decode/device/decode_pool.h"

typedef struct mr_decode_target {
    mr_picture_pool *pool;     /* on the processors */
    mr_decode_board board;     /* decodes to the pool; not used on another device */
    mr_decode_device *device;  /* on another device */
    struct SwsContext *scaler;
} mr_decode_target;

/* Opens it for the stage's device. `patches`: as mr_picture_pool_create. `plain`: as `able` of mr_decode_board_init. */
int mr_decode_target_open(mr_decode_target *target, mr_stage *self, mr_hardware hardware, bool patches, bool plain);
/* Returns the buffers; emitted frames stay valid. All decoders must be freed first. */
void mr_decode_target_close(mr_decode_target *target);
/* Like mr_decode_target_close. All work must be done. */
void mr_decode_target_fini(mr_decode_target *target);

/* NULL: it is the processors' memory. */
mr_decode_device *mr_decode_target_device(const mr_decode_target *target);
/* Chooses the libavcodec decoder for a media; NULL: none is installed. MR_ERROR_UNAVAILABLE if hardware is required
 * and cannot decode it. `stream` and `hurried`: as in mr_codec_params. */
int mr_decode_target_choose(mr_decode_target *target, mr_stream *stream, const mr_media *media, bool hurried,
                            const AVCodec **decoder);
/* Prepares an unopened decoder, which mr_decode_target_choose has chosen, to write there. */
void mr_decode_target_attach(mr_decode_target *target, AVCodecContext *codec);
/* The log shared by all attached decoders; the log for one decoder or its thread (NULL: not attached). */
mr_decode_log *mr_decode_target_log(const mr_decode_target *target);
mr_decode_log *mr_decode_target_log_of(const AVCodecContext *codec);
/* As mr_picture_pool_full. */
mr_pool *mr_decode_target_full(const mr_decode_target *target);
/* Makes a frame with this format for a picture that `codec` decoded, derived from `packet`. `converted`: the layout to
 * convert to if frames cannot have the picture's, else the picture's. MR_ERROR_AGAIN as mr_io_acquire. */
int mr_decode_target_give(mr_decode_target *target, mr_io *io, const AVCodecContext *codec, const AVFrame *picture,
                          enum AVPixelFormat converted, const mr_format *format, const mr_frame *packet,
                          mr_frame **frame);

/* Decoders of libavcodec, opened for a media and fed with frames that hold packets. One thread at a time. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/decode/decode_jpeg.h"
#include "stages/decode/decode_pending.h"
#include "stages/decode/device/target.h"

typedef struct mr_codec_params {
    int threads;            /* FFmpeg's; still images always get one */
    bool prompt;            /* a picture must not wait for later packets on other threads */
    int64_t max_pixels;
    int32_t x264_build;     /* if packets do not say it (media/coded/x264_build.h); 0: not known */
    enum AVDiscard skip;    /* pictures that the decoder may omit */
    int scale;              /* log2 of the reduction; nonzero only for JPEG */
    bool strict;            /* a truncated JPEG is an error; else the missing part is 0 */
    const mr_decode_target *target; /* where to write; must stay valid */
    mr_io *io;              /* the call that opens it, for the device */
} mr_codec_params;

/* MR_ERROR_DATA if there is no decoder, or it does not start; MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE as
 * mr_decode_device_choose. */
int mr_codec_open(AVCodecContext **codec, const mr_codec_params *params, const mr_media *media);

/* Whether a used decoder does not suit this packet: the still picture needs a new decoder's tables or state. */
bool mr_codec_is_used_up(const mr_frame *frame);
/* Sends the frame's packet, without a copy if it is padded. Times are in nanoseconds. Pictures return `number` as
 * reordered_opaque. `packet` is scratch memory, empty before and after. Returns an AVERROR on failure. */
int mr_codec_send(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, int64_t number);
/* Like avcodec_receive_frame, but sets reordered_opaque to the number of the `pending` packet that shows the
 * picture. */
int mr_codec_receive(AVCodecContext *codec, const mr_pending *pending, AVFrame *picture);

/* Decodes a still JPEG with mr_jpeg_decode, at the scale set in `codec`; memory and header values come from `codec`.
 * Creates `jpeg` if NULL. Returns false if the packet must be sent to `codec`, which is still empty. */
bool mr_codec_reduce(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                       int64_t number, AVFrame *picture);
/* Like mr_codec_send, unless the picture can be decoded at once: with mr_codec_reduce, or HEIF with libheif. *picture
 * then holds it, and nothing must be received. */
int mr_codec_decode(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                      int64_t number, AVFrame *picture);

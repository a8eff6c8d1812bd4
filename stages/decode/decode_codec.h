/* libavcodec's decoders, opened for a packet's media and fed with frames that hold packets. One thread at a time. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/decode/decode_pending.h"
#include "stages/decode/device/target.h"

typedef struct mr_codec_params {
    const mr_stage *self;
    mr_decode_target *target;       /* where to write; must stay valid */
    const mr_media *media;          /* what packets have */
    mr_stream *stream;              /* the calls' stream, for the device; NULL on the processors */
    bool hurried;                   /* packets have deadlines */
    int32_t x264_build;             /* if packets do not say it (media/coded/x264_build.h); 0: not known */
    int scale;                      /* log2 of the reduction; nonzero only for JPEG */
} mr_codec_params;

/* Opens a decoder for the media. MR_ERROR_DATA if there is none, or it does not start; MR_ERROR_MEMORY;
 * MR_ERROR_UNAVAILABLE as mr_decode_target_choose. */
int mr_codec_open(AVCodecContext **codec, const mr_codec_params *params);
/* Sends the frame's packet, without a copy if it is padded. Times are in nanoseconds. Pictures return `number` as
 * reordered_opaque. `packet` is scratch memory, empty before and after. Returns an AVERROR on failure. */
int mr_codec_send(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, int64_t number);
/* Like avcodec_receive_frame, but sets reordered_opaque to the number of the `pending` packet that shows the
 * picture. */
int mr_codec_receive(AVCodecContext *codec, const mr_decode_target *target, const mr_pending *pending,
                     AVFrame *picture);

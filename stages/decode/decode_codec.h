/* Decoders of libavcodec, opened for a media and fed with frames that hold packets. One thread at a time. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_CODEC_H
#define MILLRACE_STAGES_DECODE_DECODE_CODEC_H

#include <libavcodec/avcodec.h>

#include "stages/decode/decode_jpeg.h"
#include "stages/decode/decode_pending.h"
#include "stages/decode/device/target.h"

typedef struct mr_codec_params {
    int threads;            /* of FFmpeg; still images always get one */
    bool prompt;            /* a picture must not wait for packets behind it that are decoded beside it */
    int64_t max_pixels;
    int32_t x264_build;     /* of a stream whose packets do not tell it (media/coded/x264_build.h); 0: not known */
    enum AVDiscard skip;    /* pictures that the decoder leaves out */
    int scale;              /* log2 of how many times smaller pictures are decoded; 0 unless it is JPEG */
    bool strict;            /* a JPEG that ends early is an error; else its missing part is 0 */
    const mr_decode_target *target; /* that it writes into; outlives it */
    mr_io *io;              /* the call that opens it, for the device */
} mr_codec_params;

/* MR_ERROR_DATA if there is no decoder, or it does not start; MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE as
 * mr_decode_device_choose. */
int mr_codec_open(AVCodecContext **codec, const mr_codec_params *params, const mr_media *media);

/* Whether a decoder that has decoded other packets does not suit this one: a still picture that relies on tables of a
 * new one. */
bool mr_codec_is_used_up(const mr_frame *frame);
/* Sends the packet of `frame`, without copying it if it is padded. Times are in nanoseconds. `number` comes back as
 * reordered_opaque of its pictures. `packet` is scratch, empty before and after. An AVERROR on failure. */
int mr_codec_send(AVCodecContext *codec, AVPacket *packet, const mr_frame *frame, int64_t number);
/* The next picture, as avcodec_receive_frame; its reordered_opaque is the number of the packet that shows it, among
 * those of `pending`. */
int mr_codec_receive(AVCodecContext *codec, const mr_pending *pending, AVFrame *picture);

/* Decodes a still picture of JPEG by mr_jpeg_decode at the scale of `codec`, from which the picture has its memory and
 * all that its headers tell. `jpeg` is created where it is NULL. False: it has to be sent to `codec`, which has nothing
 * inside. */
bool mr_codec_reduce(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                       int64_t number, AVFrame *picture);
/* As mr_codec_send, unless the picture can be decoded at once: by mr_codec_reduce, or, of HEIF, by libheif. Then
 * *picture has it, and there is nothing to receive. */
int mr_codec_decode(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                      int64_t number, AVFrame *picture);

#endif

/* One source's libavcodec decoder: opened for a packet's media, fed with packets, asked for pictures. Pictures return
 * their packets' numbers as reordered_opaque. JPEG has one decoder per scale. If a device decoder does not start,
 * another decoder gets the packet. One thread at a time. */
#pragma once

#include "stages/decode/decode_codec.h"
#include "stages/decode/decode_early.h"
#include "stages/decode/decode_reduced.h"

typedef struct mr_decoder {
    mr_stage *self;
    const mr_decode_target *target;
    mr_early *early;           /* NULL: calls do not overlap */
    AVCodecContext *codec;     /* NULL: it is closed */
    AVCodecContext *other[MR_REDUCED_MOST + 1]; /* for the same media, by scale; idle and empty */
    mr_media *media;           /* that codec was opened for */
    int32_t x264_build;        /* from its packets; 0: not found */
    AVPacket *packet;
    AVFrame *at_once;          /* holds a picture from mr_codec_decode that was not received yet */
    mr_reduced reduced;
    mr_jpeg_decoder *jpeg;     /* NULL until a picture must be reduced */
    uint64_t scaled[MR_REDUCED_MOST + 1]; /* how many pictures were sent at each scale */
    int64_t sent, received;    /* last packet's number; highest number among received pictures */
    bool draining;
    int drain_errors;
} mr_decoder;

/* `target` and `early` must stay valid. MR_ERROR_MEMORY. */
int mr_decoder_init(mr_decoder *decoder, mr_stage *self, const mr_decode_target *target, mr_early *early);
void mr_decoder_fini(mr_decoder *decoder);

/* How to open a decoder for the packet's media. May be called out of turn. */
mr_codec_params mr_decoder_params(const mr_stage *self, mr_io *io, const mr_decode_target *target,
                                  const mr_frame *packet);
/* Opens it for the packet's media. Errors: as mr_codec_open. */
int mr_decoder_open(mr_decoder *decoder, mr_io *io, const mr_frame *packet);
/* `stream`: the stream has ended; otherwise the next decoder continues it. */
void mr_decoder_close(mr_decoder *decoder, bool stream);
/* Opens another decoder that continues the stream at this packet. Errors: as mr_decoder_open. */
int mr_decoder_replace(mr_decoder *decoder, mr_io *io, const mr_frame *packet);
/* Whether the open decoder suits the packet. */
bool mr_decoder_suits(const mr_decoder *decoder, const mr_frame *packet);
/* The libavcodec decoder that got the last packet; NULL: closed. */
const AVCodecContext *mr_decoder_codec(const mr_decoder *decoder);

/* Sends a packet. If opening a decoder fails, returns that error, and no decoder remains. *refused: the AVERROR with
 * which the decoder refuses the packet, or 0. */
int mr_decoder_send(mr_decoder *decoder, mr_io *io, const mr_frame *packet, int64_t number, int *refused);
/* Call when no packet follows: the decoder then gives all remaining pictures. Returns 0, or an AVERROR about one
 * packet. */
int mr_decoder_drain(mr_decoder *decoder);
/* Call when all pictures were received: packets may follow. */
void mr_decoder_restart(mr_decoder *decoder);
/* Receives the next picture: 0, AVERROR(EAGAIN) (none now), AVERROR_EOF (none at all), or an AVERROR about one
 * packet. */
int mr_decoder_receive(mr_decoder *decoder, const mr_pending *pending, AVFrame *picture);
/* Which packet the last AVERROR is about. Frame threads report late: *sure is false if it may be another one. */
int64_t mr_decoder_refused(const mr_decoder *decoder, const mr_pending *pending, bool *sure);
/* Whether the decoder reported that it concealed errors in this picture. Call once per picture. */
bool mr_decoder_patched(const mr_decoder *decoder, const AVFrame *picture);
/* Logs how many pictures were decoded at each scale. */
void mr_decoder_sum_up(const mr_decoder *decoder);

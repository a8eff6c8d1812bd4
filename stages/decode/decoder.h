/* One source's libavcodec decoder: begun with the media, opened by the first packet, fed with packets, asked for
 * pictures. Pictures return their packets' numbers as reordered_opaque. JPEG has one decoder per scale. If a device
 * decoder does not start, another decoder gets the packet. If a board's decoder fails, another one gets all packets
 * from the first key, if it gave no picture, else from the next one. One thread at a time. */
#pragma once

#include "stages/decode/decode_codec.h"
#include "stages/decode/jpeg/decode_reduced.h"

typedef struct mr_decoder {
    mr_codec_params opening;   /* for the next one to be opened; packets set x264_build */
    const mr_pending *pending; /* packets in the decoder */
    AVCodecContext *codec;     /* NULL: it is closed */
    AVCodecContext *other[MR_REDUCED_MOST + 1]; /* for the same media, by scale; idle and empty */
    bool continues;            /* the next one to be opened continues the stream */
    AVPacket *packet;
    mr_reduced reduced;
    int64_t sent, received;    /* last packet's number; highest number among received pictures */
    int64_t entry;             /* last key's number */
    int64_t first;             /* the first key's number since it was opened; 0: none yet */
    int64_t lost;              /* no packet before it waits in a board's decoder that failed */
    bool draining;
    int drain_errors;
} mr_decoder;

/* An error about a packet. Frame threads report late: `sure` is false if it may be about another packet. */
typedef struct mr_decoder_error {
    int code; /* an AVERROR; 0: none */
    int64_t number;
    bool sure;
} mr_decoder_error;

/* `target` and `pending` must stay valid. */
void mr_decoder_init(mr_decoder *decoder, mr_stage *self, mr_decode_target *target, const mr_pending *pending);
/* Call before the first packet of a media, when the decoder is closed. The media must stay valid until it is closed
 * again. `stream` and `hurried`: as in mr_codec_params. */
void mr_decoder_begin(mr_decoder *decoder, const mr_media *media, mr_stream *stream, bool hurried);
/* Closes it; the next packet opens another decoder. `continues`: the stream continues with that packet. */
void mr_decoder_close(mr_decoder *decoder, bool continues);
/* The libavcodec decoder that got the last packet; NULL: closed. */
const AVCodecContext *mr_decoder_codec(const mr_decoder *decoder);

/* Sends a packet. If it is closed, opens it; errors: as mr_codec_open. After an error it is closed. */
int mr_decoder_send(mr_decoder *decoder, const mr_frame *packet, int64_t number, mr_decoder_error *error);
/* No packet follows: the decoder gives all remaining pictures. When they were received, packets may follow again. */
void mr_decoder_drain(mr_decoder *decoder, mr_decoder_error *error);
/* Call before mr_decoder_drain. False if a board's decoder has given no picture so far, and may never: another one must
 * get the packets first, as mr_decoder_ends_at says. */
bool mr_decoder_can_end(mr_decoder *decoder);
/* Receives the next picture. False: an error about one packet, or none now, or none at all (then error->code is 0). */
bool mr_decoder_receive(mr_decoder *decoder, AVFrame *picture, mr_decoder_error *error);
/* Returns the number of the first packet that another decoder must get, or INT64_MAX if this one can stay. The answer
 * may be a packet already sent, or `next`, which is sent next (NULL: not known). */
int64_t mr_decoder_ends_at(const mr_decoder *decoder, const mr_frame *next);

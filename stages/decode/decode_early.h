/* Still pictures that are decoded before their turn: calls of one decode overlap, each with a decoder of its own, and
 * what they find is taken over in the order of the packets, as if one decoder had decoded one after the other. Only
 * decoders that give a packet's picture at once, or none, work so; what cannot be decoded early is left to the turn.
 *
 * One thread at a time uses an mr_early. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_EARLY_H
#define MILLRACE_STAGES_DECODE_DECODE_EARLY_H

#include "stages/decode/decode_codec.h"
#include "stages/decode/decode_reduced.h"

typedef struct mr_early {
    AVCodecContext *codec[MR_REDUCED_MOST + 1]; /* of `id`, by scale */
    enum AVCodecID id;
    AVPacket *packet;
    AVFrame *picture;
    mr_reduced reduced;
    mr_jpeg_decoder *jpeg; /* NULL until there is one to be reduced */
    bool done;            /* a packet was decoded; all below is about it */
    bool taken;           /* it is the one before the decoder in the order of packets: mr_early_take */
    int scale;
    int sent, received;   /* answers of the decoder: 0 or an AVERROR */
    bool patched;         /* the decoder had to patch its picture up */
    int64_t number;       /* of the packet in that order */
    char complaint[256];  /* the decoder's first error message */
} mr_early;

/* So many in an array. MR_ERROR_MEMORY. */
int mr_early_create(mr_early **early, int count);
void mr_early_destroy(mr_early **early, int count);
/* Frees the decoders, before the pool that they write into; later packets have new ones. */
void mr_early_close(mr_early *early, int count);

/* Decodes a packet of a still picture, unless that has to wait for its turn; params->scale is set here. `reduces`: as
 * mr_reduced_scale says, else whole. */
void mr_early_decode(mr_early *early, mr_decoder_params *params, const mr_stage *stage, const mr_frame *frame,
                     bool reduces);
/* Its turn has come, with that number: as mr_decoder_decode. */
int mr_early_begin(mr_early *early, int64_t number);
/* As mr_decoder_receive. */
int mr_early_take(mr_early *early, AVFrame *picture);
/* Its turn is over. */
void mr_early_end(mr_early *early);

#endif

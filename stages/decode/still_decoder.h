/* Decodes still pictures, one packet each: with libavcodec, HEIF with libheif, reduced JPEG with jpeg/decode_jpeg.h. A
 * packet depends on no other, so any thread may decode it, before its turn or in it. One thread at a time per
 * decoder. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/decode/device/target.h"
#include "stages/decode/jpeg/decode_jpeg.h"
#include "stages/decode/jpeg/decode_reduced.h"

typedef struct mr_still_decoder {
    AVCodecContext *codec[MR_REDUCED_MOST + 1]; /* by scale, opened for `id` */
    enum AVCodecID id;
    AVPacket *packet;
    mr_reduced reduced;
    mr_jpeg_decoder *jpeg; /* NULL until a picture must be reduced */
    bool done;             /* a packet was decoded; all below is about it */
    AVFrame *picture;      /* empty: it gave none */
    int error;             /* the decoder's AVERROR, or 0 */
    int scale;             /* log2 of the reduction */
    bool patched;          /* the decoder concealed errors */
    char complaint[256];   /* the decoder's first error message */
} mr_still_decoder;

/* MR_ERROR_MEMORY. */
int mr_still_decoder_init(mr_still_decoder *decoder);
/* Frees libavcodec's decoders, which must happen before their memory is freed. Later packets get new ones. */
void mr_still_decoder_close(mr_still_decoder *decoder);
void mr_still_decoder_fini(mr_still_decoder *decoder);

/* Decodes the call's input. MR_ERROR_AGAIN: the pool must get room first. Other errors: as mr_codec_open. */
int mr_still_decode(mr_still_decoder *decoder, const mr_stage *self, mr_decode_target *target, mr_io *io);
/* The decoded packet is settled. */
void mr_still_decoder_settle(mr_still_decoder *decoder);

/* Decodes a JPEG with mr_jpeg_decode, at the scale set in `codec`; memory and header values come from `codec`.
 * `packet` is scratch memory. Creates `jpeg` if NULL. Returns false if the packet must be sent to `codec`, which is
 * still empty. */
bool mr_still_reduce(AVCodecContext *codec, mr_jpeg_decoder **jpeg, AVPacket *packet, const mr_frame *frame,
                     AVFrame *picture);

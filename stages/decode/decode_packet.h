/* Dependencies of a packet by its bytes, without decoding it: H.264, HEVC, VP9, MPEG-1 and MPEG-2.
 *
 * Only guarantees of a standard are used. H.264: a picture with nal_ref_idc 0 is not referenced (7.4.1), and no picture
 * behind an IDR picture refers to one before it. HEVC: a sub-layer non-reference picture (even NAL unit types below 16)
 * of the highest sub-layer that the sequence parameter set allows. MPEG: B pictures; a GOP whose header says closed.
 * VP9: a frame that refreshes no reference buffer, if the next frame is error resilient or a key frame: else the next
 * one takes motion vectors and probabilities over from it.
 *
 * One thread uses an mr_packet_looks. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_PACKET_H
#define MILLRACE_STAGES_DECODE_DECODE_PACKET_H

#include <libavcodec/avcodec.h>
#include <stdbool.h>
#include <stdint.h>

#include "millrace/frame.h"

typedef struct mr_packet_use {
    bool known;       /* it holds one whole picture, which will be shown: not a field, nor none, nor two */
    bool disposable;  /* no other picture depends on it */
    bool if_renewed;  /* that holds only if the next packet is `renewed` */
    bool renewed;     /* it depends on reference pictures alone, not on other state of the decoder */
    bool restart;     /* neither it nor anything behind it depends on packets before it */
    bool kept;        /* it must be decoded in any case: it carries parameters for others that those before it have not
                         carried, or is marked as damaged */
} mr_packet_use;

enum { MR_PACKET_HEADERS = 1024 };

/* Headers that stand before many pictures, most often the same ones. */
typedef struct mr_packet_headers {
    size_t bytes; /* above the room: too many */
    uint8_t data[MR_PACKET_HEADERS];
} mr_packet_headers;

typedef struct mr_packet_looks {
    enum AVCodecID codec;
    int length_bytes;   /* of a NAL unit's length; 0: start codes */
    int top_layer;      /* HEVC: highest sub-layer; below 0: not known */
    mr_packet_headers last; /* of the last packet that had some */
    bool may_be_hidden; /* HEVC: pictures may be marked as not shown */
    AVCodecParserContext *parser; /* H.264: whether pictures are fields */
    AVCodecContext *about;        /* of the parser */
} mr_packet_looks;

/* False for other codecs, or without memory. Nothing needs closing then. */
bool mr_packet_looks_open(mr_packet_looks *looks, const AVCodecParameters *codec);
void mr_packet_looks_close(mr_packet_looks *looks);
/* Packets are shown in decode order, none left out. */
mr_packet_use mr_packet_look(mr_packet_looks *looks, const mr_frame *packet);

/* Whether no other picture is wrong if that of the packet is: its codec has no other kind of pictures, no other depends
 * on this one, or the packet holds none, only parameters. By the packet alone, of which a part may be damaged, the one
 * that says so as well (decode_alone.h). Of MPEG-4, too; of VP9 and AV1 never. */
bool mr_packet_is_alone(const mr_frame *packet);

#endif

/* Reads from a packet's bytes which packets it depends on, without decoding: H.264, HEVC, VP9, MPEG-1 and MPEG-2.
 *
 * Only what a standard guarantees is used. H.264: a picture with nal_ref_idc 0 is not referenced (7.4.1), and pictures
 * after an IDR picture do not refer to earlier ones. HEVC: a sub-layer non-reference picture (even NAL unit types below
 * 16) in the highest sub-layer that the sequence parameter set allows. MPEG: B pictures, and GOPs marked closed. VP9: a
 * frame that refreshes no reference buffer, if the next one is error resilient or a key frame. Other frames inherit
 * motion vectors and probabilities.
 *
 * One thread uses an mr_packet_looks. */
#pragma once

#include <libavcodec/avcodec.h>
#include <stdbool.h>
#include <stdint.h>

#include "millrace/frame.h"

typedef struct mr_packet_use {
    bool known;       /* it holds exactly one picture, which will be shown, and no single field */
    bool disposable;  /* no other picture depends on it */
    bool if_renewed;  /* only if the next packet is `renewed` */
    bool renewed;     /* it depends only on reference pictures, not on other decoder state */
    bool restart;     /* it and all later packets do not depend on earlier ones */
    bool kept;        /* it must be decoded: it is marked as damaged, or carries new parameters that later packets
                         need */
} mr_packet_use;

enum { MR_PACKET_HEADERS = 1024 };

/* Headers before many pictures, usually unchanged. */
typedef struct mr_packet_headers {
    size_t bytes; /* above the room: too many */
    uint8_t data[MR_PACKET_HEADERS];
} mr_packet_headers;

typedef struct mr_packet_looks {
    enum AVCodecID codec;
    int length_bytes;   /* size in bytes that a NAL unit's length has; 0: start codes */
    int top_layer;      /* HEVC: highest sub-layer; below 0: not known */
    mr_packet_headers last; /* from the last packet that had any */
    bool may_be_hidden; /* HEVC: pictures may be marked as not shown */
    AVCodecParserContext *parser; /* H.264: whether pictures are fields */
    AVCodecContext *about;        /* the parser's context */
} mr_packet_looks;

/* False for other codecs, or without memory; nothing must then be closed. */
bool mr_packet_looks_open(mr_packet_looks *looks, const AVCodecParameters *codec);
void mr_packet_looks_close(mr_packet_looks *looks);
/* Packets are shown in decode order, none left out. */
mr_packet_use mr_packet_look(mr_packet_looks *looks, const mr_frame *packet);

/* Whether damage in this packet can spoil no other picture. That holds if the codec has only key pictures, if nothing
 * depends on this picture, or if the packet holds only parameters. Only the packet itself is read, and it may be
 * damaged (see decode_alone.h). Supports MPEG-4 too; always false for VP9 and AV1. */
bool mr_packet_is_alone(const mr_frame *packet);

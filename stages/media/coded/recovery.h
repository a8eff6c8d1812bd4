/* After a gap, pictures depend on missing ones. This decides which are right again, as the standards define it.
 *
 * A picture that needs no other (IDR; HEVC: any IRAP picture) is right, and so are all that are shown after it. Some
 * streams have none because each picture renews a part (intra refresh). In others, pictures after an I picture may be
 * shown before it (open GOP). There a message marks the recovery point (H.264, D.2.8: recovery_frame_cnt; HEVC, D.3.8:
 * recovery_poc_cnt). All pictures from that point are right, in display order, or as right as the encoder claims
 * (exact_match_flag is ignored). An H.264 decoder loses its first picture if that needs others, so a recovery point
 * there cannot count: what it renews is missing. With broken_link_flag, pictures before the point are wrong even
 * without a gap. For other codecs, a key and all later pictures are right.
 *
 * One thread uses an mr_recovery. */
#pragma once

#include <libavcodec/codec_par.h>

#include "stages/media/coded/packet.h"
#include "stages/media/coded/nal.h"
#include "stages/media/coded/reorder.h"

typedef struct mr_recovery_point {
    int count;        /* frames, or picture order counts, to wait; 0: this picture */
    bool broken_link;
} mr_recovery_point;

/* Reads the message from an SEI unit; false: it has none. */
bool mr_recovery_point_read(mr_recovery_point *point, bool hevc, mr_nal messages);
/* Whether decoding can begin at an H.264 or HEVC packet: its picture needs no other, or it has a recovery point. */
bool mr_recovery_begins(const mr_packet *packet);

typedef struct mr_recovery_sequence {
    bool known;
    uint8_t bits;      /* width of frame_num or picture order count; 0: not known */
    bool planes;       /* separate_colour_plane_flag */
    mr_reorder reorder;
} mr_recovery_sequence;

typedef struct mr_recovery_picture_set {
    uint8_t sequence;
    uint8_t extra;     /* HEVC: reserved bits in a slice header */
    bool output;       /* HEVC: header has the output flag */
} mr_recovery_picture_set;

typedef struct mr_recovery {
    bool fresh;        /* no picture has come */
    bool tainted;      /* pictures are wrong */
    bool leads;        /* pictures shown before that time are right too */
    int64_t from_ns;
    bool waits;        /* for the recovery point: how far away it was, how far pictures have moved since */
    int64_t count, moved;
    unsigned last;     /* previous picture's number */
    bool has_sets;
    int length_bytes;  /* bytes that a NAL unit's length has */
    mr_recovery_sequence sequences[32];
    mr_recovery_picture_set sets[256];
} mr_recovery;

/* A stream begins: nothing is right yet. */
void mr_recovery_begin(mr_recovery *recovery);
/* Call if the picture before the next packet is wrong, although the packets do not show it. */
void mr_recovery_taint(mr_recovery *recovery);
/* Call for each packet in decode order; MR_FRAME_SEAM and MR_FRAME_CORRUPT say what is missing. Returns true if the
 * picture is wrong. */
bool mr_recovery_pass(mr_recovery *recovery, const mr_packet *packet);

/* Whether numbering restarts at this H.264 or HEVC packet, and all earlier pictures are shown before it. */
bool mr_recovery_restarts(const mr_packet *packet);
/* The bit position where an H.264 sequence parameter set's usage information (VUI) starts; 0: malformed. */
size_t mr_recovery_use_at(mr_nal sequence);
/* From the parameter sets in an H.264 or HEVC stream header. Not sure: there are none. */
mr_reorder mr_recovery_reorder(const AVCodecParameters *codec);

/* An H.264 picture's position among reference pictures. */
typedef struct mr_recovery_place {
    bool known;      /* the packet's picture is a frame, whose header was read completely */
    bool restarts;   /* no later picture refers to an earlier one */
    bool reference;
    unsigned number; /* frame_num (7.4.3): one higher after a reference picture, else unchanged */
    unsigned bits;   /* how many bits it has */
} mr_recovery_place;

/* Call for each packet in decode order. `recovery` must not be used for anything else. */
mr_recovery_place mr_recovery_place_of(mr_recovery *recovery, const mr_packet *packet);

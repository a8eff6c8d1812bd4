/* Behind a gap pictures are made of those that are missing: which ones are right again, as the standards say it.
 *
 * From a picture on that needs no other (IDR; HEVC: any IRAP picture) all are right that are shown behind it. In
 * streams that have none, since each picture renews a part (intra refresh), or whose pictures behind an I picture may
 * be shown before it (open GOP), a message says where: the recovery point (H.264, D.2.8: recovery_frame_cnt; HEVC,
 * D.3.8: recovery_poc_cnt). Pictures from there on, in the order in which they are shown, are right, or as right as the
 * encoder takes them to be (exact_match_flag is not asked for). The first picture of a decoder of H.264 is lost if it
 * needs others, so a recovery point there does not count: what it renews is missing. With broken_link_flag those up to
 * there are wrong without any gap. Of other codecs a key is right, and all behind it.
 *
 * One thread uses an mr_recovery. */
#pragma once

#include <libavcodec/codec_par.h>

#include "stages/media/coded/packet.h"
#include "stages/media/coded/nal.h"
#include "stages/media/coded/reorder.h"

typedef struct mr_recovery_point {
    int count;        /* of frames, or of picture order counts, from this picture on; 0: this one */
    bool broken_link;
} mr_recovery_point;

/* Reads the message of a NAL unit of messages (SEI); false: it has none. */
bool mr_recovery_point_read(mr_recovery_point *point, bool hevc, mr_nal messages);
/* Whether a decoder can begin at a packet of H.264 or HEVC: its picture needs no other, or it has a recovery point. */
bool mr_recovery_begins(const mr_packet *packet);

typedef struct mr_recovery_sequence {
    bool known;
    uint8_t bits;      /* of frame_num, or of the picture order count; 0: not known */
    bool planes;       /* separate_colour_plane_flag */
    mr_reorder reorder;
} mr_recovery_sequence;

typedef struct mr_recovery_picture_set {
    uint8_t sequence;
    uint8_t extra;     /* HEVC: bits of a slice's header that are reserved */
    bool output;       /* HEVC: there is one for pictures that are not shown */
} mr_recovery_picture_set;

typedef struct mr_recovery {
    bool fresh;        /* no picture has come yet */
    bool tainted;      /* pictures are wrong */
    bool leads;        /* those are that are shown before that time, too */
    int64_t from_ns;
    bool waits;        /* for the recovery point: so far away it was, so far pictures have moved on since */
    int64_t count, moved;
    unsigned last;     /* number of the picture before */
    bool has_sets;
    int length_bytes;  /* of a NAL unit's length */
    mr_recovery_sequence sequences[32];
    mr_recovery_picture_set sets[256];
} mr_recovery;

/* A stream begins: nothing is right yet. */
void mr_recovery_begin(mr_recovery *recovery);
/* The picture before the next packet is wrong, though the packets do not say so. */
void mr_recovery_taint(mr_recovery *recovery);
/* The next packet in decode order; MR_FRAME_SEAM and MR_FRAME_CORRUPT say what is missing. True: its picture is
 * wrong. */
bool mr_recovery_pass(mr_recovery *recovery, const mr_packet *packet);

/* Whether all pictures before the packet's, which is of H.264 or HEVC, are shown before it, and their numbers begin
 * anew. */
bool mr_recovery_restarts(const mr_packet *packet);
/* Where a sequence parameter set of H.264 says how its pictures may be used (VUI), in bits; 0: it is malformed. */
size_t mr_recovery_use_at(mr_nal sequence);
/* By the parameter sets of the stream's header, of H.264 or HEVC; not sure: there are none. */
mr_reorder mr_recovery_reorder(const AVCodecParameters *codec);

/* The place of a picture of H.264 among those that others refer to. */
typedef struct mr_recovery_place {
    bool known;      /* the packet's picture is a frame, whose header has all below */
    bool restarts;   /* none from it on refers to one before it */
    bool reference;
    unsigned number; /* frame_num (7.4.3): behind a reference picture it is one higher, and else the same */
    unsigned bits;   /* of it */
} mr_recovery_place;

/* Of the next packet in decode order, for an `mr_recovery` that is used for nothing else. */
mr_recovery_place mr_recovery_place_of(mr_recovery *recovery, const mr_packet *packet);

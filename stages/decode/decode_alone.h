/* Whether other pictures depend on a damaged one. Its packet says so itself (mr_packet_is_alone), but may be damaged in
 * those bits; so the packets beside it have to agree.
 *
 * H.264: frame_num is one higher behind each reference picture, and else the same (7.4.3). That of the next packet
 * shows whether there was one between it and the packet before. MPEG-1, MPEG-2 and MPEG-4: a reference picture is shown
 * behind all that were decoded before it, so that the container's times tell it from a B picture. Of HEVC nothing
 * beside the picture's own header tells it: that is believed. Of AV1 nothing does either, and nothing is believed.
 *
 * Of a reference picture all others up to the next recovery are taken to be made. Which of them are only macroblocks
 * tell (ref_idx), which no decoder gives out; and the lists that they choose from follow from the headers before, the
 * damaged one among them.
 *
 * One thread. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_ALONE_H
#define MILLRACE_STAGES_DECODE_DECODE_ALONE_H

#include "stages/decode/decode_pending.h"
#include "stages/media/coded/recovery.h"

/* A packet as it was sent. */
typedef struct mr_alone_packet {
    int64_t number;
    int64_t latest_ns; /* of the times of those before it */
    int64_t pts_ns;
    bool follows;      /* by its decoding time none is missing before it */
    bool damaged;
    mr_recovery_place place;
} mr_alone_packet;

/* Zeros: a stream begins, or another one. */
typedef struct mr_alone {
    mr_recovery headers;
    int64_t latest_ns;
    int64_t last_ns, step_ns; /* of the times of packets: the last one; the least distance of two; 0: not known */
    int64_t last_dts_ns, dts_step_ns; /* the same of decoding times */
    int64_t group, least_group; /* packets since the last from which on none refers to one before it; the least
                                   number between two, 0: not known */
    bool begun;
    bool waits;             /* the next packet is to show that its frame_num is `expected` */
    unsigned expected;
    int64_t near_ns;        /* and that its time is not far from this one; MR_NO_TIME: any is right */
    bool waits_next;        /* the next packet is to show that none is missing before it */
    mr_alone_packet packet[MR_PENDING_WINDOW]; /* by number modulo the window */
} mr_alone;

/* The next packet that the decoder gets, with its number. False: it shows that one before it, of which
 * mr_alone_is_sure said that no other picture is made, was a reference picture. */
bool mr_alone_note(mr_alone *alone, const mr_frame *packet, int64_t number);
/* The packet of that number, the last one that was noted, is marked: something of it is missing, or something before
 * it. Whether no other picture depends on that. Of H.264 only if little can be missing:
 * frame_num must not have come round, and no key may be among it. Of HEVC and MPEG only if all that is missing is a
 * part of the picture: by their decoding times none is missing between it and the next one. The next packet may prove
 * it wrong (mr_alone_note). */
bool mr_alone_spares(mr_alone *alone, const mr_frame *packet, int64_t number);
/* The packet of that number is damaged: whether no other picture depends on it, by the packets beside it. If the next
 * one was not noted yet, this is asked again then. */
bool mr_alone_is_sure(mr_alone *alone, const mr_frame *packet, int64_t number);

#endif

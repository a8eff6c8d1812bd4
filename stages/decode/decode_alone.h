/* Decides whether other pictures depend on a damaged one. The packet says so (mr_packet_is_alone), but those bits may
 * be damaged too: neighbouring packets must agree.
 *
 * H.264: frame_num rises by one after each reference picture and otherwise stays (7.4.3), so the next packet shows
 * whether a reference picture came before it. MPEG-1, MPEG-2 and MPEG-4: a reference picture is shown after all
 * pictures decoded so far, so container times distinguish it from a B picture. HEVC: only the picture's header says it,
 * and must be believed. AV1: nothing can be believed.
 *
 * If a reference picture is damaged, all pictures up to the next recovery count as damaged. Only macroblocks show which
 * ones depend on it (ref_idx), and no decoder reports them; they also choose from lists that depend on earlier,
 * possibly damaged headers.
 *
 * One thread. */
#pragma once

#include "stages/decode/decode_pending.h"
#include "stages/media/coded/recovery.h"

/* A packet, recorded when sent. */
typedef struct mr_alone_packet {
    int64_t number;
    int64_t latest_ns; /* highest time before this packet */
    int64_t pts_ns;
    bool follows;      /* decoding times show no gap before it */
    bool damaged;
    mr_recovery_place place;
} mr_alone_packet;

/* All zero: a new stream begins. */
typedef struct mr_alone {
    mr_recovery headers;
    int64_t latest_ns;
    int64_t last_ns, step_ns; /* last packet's time; least distance between two, 0: not known */
    int64_t last_dts_ns, dts_step_ns; /* the same for decoding times */
    int64_t group, least_group; /* packets since the last restart point; the smallest number between two, 0: not
                                   known */
    bool begun;
    bool waits;             /* the next packet must have the frame_num `expected` */
    unsigned expected;
    int64_t near_ns;        /* and a time near this one; MR_NO_TIME: any */
    bool waits_next;        /* the next packet must show that none is missing before it */
    mr_alone_packet packet[MR_PENDING_WINDOW]; /* by number modulo the window */
} mr_alone;

/* Call for each packet sent to the decoder. Returns false if this packet disproves an earlier answer of
 * mr_alone_is_sure: the packet before was a reference picture. */
bool mr_alone_note(mr_alone *alone, const mr_frame *packet, int64_t number);
/* Call for the last noted packet, if it is marked: data is missing in it or before it. Returns true if no other picture
 * depends on what is missing. H.264: only a small gap can qualify, since frame_num must not wrap and no key may be
 * missing. HEVC and MPEG: only a part of this picture may be missing, and decoding times must show no gap before the
 * next one. The next packet can disprove the answer (mr_alone_note). */
bool mr_alone_spares(mr_alone *alone, const mr_frame *packet, int64_t number);
/* Call for a damaged packet: whether neighbouring packets show that no other picture depends on it. If the next packet
 * has not been noted yet, mr_alone_note can still disprove the answer. */
bool mr_alone_is_sure(mr_alone *alone, const mr_frame *packet, int64_t number);

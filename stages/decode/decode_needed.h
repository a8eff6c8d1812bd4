/* Finds packets that need not be decoded, since their pictures are not wanted and no wanted one depends on them.
 *
 * `start`, `every` and `fps` count in presentation order. Packets come in decode order, so each is held until its
 * picture's number is known: all pictures that are shown before it have come once a packet is decoded no sooner than it
 * is shown. Then
 *
 *   - a picture on which no other depends is left out if it is not wanted;
 *   - any other is left out if none that is wanted, or must be decoded, comes between it and the next packet from which
 *     decoding can begin anew.
 *
 * Nothing is guessed: counting begins when the decoder has given the first key picture or one behind it, since those
 * that are shown before it may give none, and ends for the rest of a stretch (packets of one epoch and one decoder)
 * with a packet that is not one whole picture, or whose times do not tell its place. All is decoded then.
 *
 * Pictures that are left out, but for those before `start`, keep their numbers: the stage learns how many come before
 * each that is decoded. Whether a
 * picture is wanted is decided by the packets: one that turns out to be damaged only when it is decoded has had its
 * turn all the same.
 *
 * One thread. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_NEEDED_H
#define MILLRACE_STAGES_DECODE_DECODE_NEEDED_H

#include "stages/decode/decode_packet.h"
#include "stages/decode/decode_pending.h"
#include "stages/decode/selection.h"

/* Packets that wait here and in the decoder: as many as the plan expects a decoder to keep (plan_holds.c). */
enum { MR_NEEDED_MOST = 32, MR_NEEDED_PLACES = 2 * MR_PENDING_WINDOW + 2 * MR_NEEDED_MOST };

typedef enum mr_needed_answer { MR_NEEDED_WAIT, MR_NEEDED_SEND, MR_NEEDED_LEAVE } mr_needed_answer;

/* A place in presentation order: of one picture that is held or in the decoder, or of several that were left out. */
typedef struct mr_needed_place {
    int64_t pts_ns;     /* of the last of them */
    uint64_t left;      /* so many were left out; 0: one that is held, or was sent */
    uint64_t numbers;   /* that those have: none before `start` */
    bool wanted;
    mr_selection after; /* behind it; once it is ordered */
} mr_needed_place;

typedef struct mr_needed_packet {
    mr_frame *frame;
    mr_packet_use use;
} mr_needed_packet;

typedef struct mr_needed {
    enum { MR_NEEDED_OFF, MR_NEEDED_BEGINS, MR_NEEDED_COUNTS } mode;
    mr_packet_looks looks;
    mr_media *media;        /* its start, end, every and fps choose the pictures */
    mr_selection now;       /* after the last picture that came out */
    mr_selection ahead;     /* after the places that are ordered */
    size_t held_count, place_count, ordered; /* places whose number is known come first */
    size_t chosen;          /* among those held, by mr_needed_next */
    int64_t entry_pts_ns;   /* of the first key picture; INT64_MAX: none has come */
    int64_t shown_pts_ns;   /* of the packet of the last picture in this stretch; MR_NO_TIME: none, or not sure */
    bool begun, ended;      /* the stretch; no packet follows in it */
    mr_needed_packet held[MR_NEEDED_MOST]; /* in decode order */
    mr_needed_place place[MR_NEEDED_PLACES]; /* in presentation order */
} mr_needed;

/* Another epoch begins: selection begins anew. */
void mr_needed_begin_epoch(mr_needed *needed);
/* A stretch of packets of that media begins, unless one has begun. `all`: everything is decoded. */
void mr_needed_begin(mr_needed *needed, const mr_frame *first, bool all);
/* Takes a reference to the packet. There is room once mr_needed_next has answered MR_NEEDED_WAIT. `all`: it is decoded
 * in any case. `pending`: the packets that are in the decoder. */
void mr_needed_add(mr_needed *needed, mr_frame *frame, bool all, const mr_pending *pending);
/* No packet follows in this stretch. `cut_short`: more might have come, so that unknown numbers stay unknown. */
void mr_needed_end(mr_needed *needed, bool cut_short);
/* The next action and its packet, which mr_needed_take takes out. `room`: so many more may wait. */
mr_needed_answer mr_needed_next(mr_needed *needed, size_t room);
/* The packet of the last answer; that of mr_needed_take is the caller's reference. */
const mr_frame *mr_needed_chosen(const mr_needed *needed);
mr_frame *mr_needed_take(mr_needed *needed, mr_needed_answer answer);
/* A picture of that time comes out of the decoder; INT64_MAX: none comes any more. Returns how many that have numbers
 * were left out before it. */
uint64_t mr_needed_reach(mr_needed *needed, int64_t pts_ns);
/* Whether that picture is wanted, which is the packet's. `time_ns`: its time; MR_NO_TIME: unknown. */
bool mr_needed_wants(mr_needed *needed, const mr_frame *packet, int64_t time_ns);
/* Ends the stretch; drops the held packets. */
void mr_needed_fini(mr_needed *needed);

#endif

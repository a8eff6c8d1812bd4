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

/* Which pictures are wanted: start, end, every and fps of a media, applied in presentation order. One selection for
 * each epoch of a source. */
typedef struct mr_selection {
    uint64_t in_range;  /* pictures so far between start and end */
    int64_t last_ns;    /* of the last picture that `fps` was asked about; MR_NO_TIME: none */
    double distance_ns; /* of two such pictures, smoothed */
    double due_ns;      /* the next picture of `fps` */
} mr_selection;

void mr_selection_begin(mr_selection *selection);

/* To be called once for each picture. `time_ns` may be MR_NO_TIME: only `every` applies then. First start and end
 * decide, then every, of what is left the first of so many, then fps: a picture is wanted if at least 1/fps seconds
 * have passed for each one before it, up to rounding and jitter of times, so that none is missing of a source of that
 * rate, or a lower one. */
bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns);
/* Whether a picture has a number: none before `start` has one, since how many there are depends on where a container
 * lets reading begin. */
bool mr_selection_has_begun(const mr_media *media, int64_t time_ns);
/* Whether all pictures that are shown before the packet's have come, if no packet comes behind the one that is decoded
 * at `last_dts_ns`: missing ones are decoded later, and shown no sooner than that. */
bool mr_selection_can_count(const mr_frame *packet, int64_t last_dts_ns);

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
    mr_selection selection; /* behind the places that are ordered */
    size_t held_count, place_count, ordered; /* places whose number is known come first */
    size_t chosen;          /* among those held, by mr_needed_next */
    int64_t entry_pts_ns;   /* of the first key picture; INT64_MAX: none has come */
    bool ended;             /* no packet follows */
    mr_needed_packet held[MR_NEEDED_MOST]; /* in decode order */
    mr_needed_place place[MR_NEEDED_PLACES]; /* in presentation order */
} mr_needed;

/* For a stretch of packets of that media. `all`: everything is to be decoded. */
void mr_needed_begin(mr_needed *needed, const mr_frame *first, bool all);
/* Counting may begin behind the picture of a packet of that time, which the decoder has given, and behind which
 * `selection` goes on. `pending`: the packets that are in the decoder. */
void mr_needed_count_from(mr_needed *needed, int64_t pts_ns, const mr_selection *selection, const mr_pending *pending);
/* Takes a reference to the packet. There is room once mr_needed_next has answered MR_NEEDED_WAIT. `all`: it is decoded
 * in any case. */
void mr_needed_add(mr_needed *needed, mr_frame *frame, bool all);
/* No packet follows in this stretch. `cut_short`: more might have come, so that unknown numbers stay unknown. */
void mr_needed_end(mr_needed *needed, bool cut_short);
/* The next action and its packet, which mr_needed_take takes out. `room`: so many more may wait. */
mr_needed_answer mr_needed_next(mr_needed *needed, size_t room);
/* The packet of the last answer; that of mr_needed_take is the caller's reference. */
const mr_frame *mr_needed_chosen(const mr_needed *needed);
mr_frame *mr_needed_take(mr_needed *needed, mr_needed_answer answer);
/* A picture of that time comes out of the decoder; INT64_MAX: none comes any more. Sets the count of the
 * numbers of those left out before it, and the known facts about it. */
typedef struct mr_needed_reached {
    uint64_t numbers;
    bool counted;           /* by packets; else *selection decides */
    bool wanted;
} mr_needed_reached;
mr_needed_reached mr_needed_reach(mr_needed *needed, int64_t pts_ns, mr_selection *selection);
/* Drops the held packets. */
void mr_needed_fini(mr_needed *needed);

#endif

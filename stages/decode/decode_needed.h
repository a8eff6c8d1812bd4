/* Finds packets that need not be decoded: nobody wants the picture, and no wanted picture depends on it.
 *
 * `start`, `every` and `fps` count in presentation order, but packets come in decode order. Each packet is held until
 * its picture's number is known. That is when a packet comes whose decoding time is not below this picture's time: all
 * earlier pictures have then come. Then
 *
 *   - a picture that no other depends on is omitted if it is not wanted;
 *   - any other is omitted if no picture that is wanted, or must be decoded, comes before the next packet where
 *     decoding can restart.
 *
 * Nothing is guessed. Counting starts when the decoder gives the first key picture or a later one, since pictures shown
 * before that key may never come. Counting stops for the rest of a stretch (packets in one epoch with one decoder) if a
 * packet is not one whole picture, or has no usable times. From then on everything is decoded.
 *
 * Omitted pictures keep their numbers, except those before `start`: the stage learns how many come before each decoded
 * picture. Packets decide which pictures are wanted: a picture that turns out to be damaged still counts.
 *
 * One thread. */
#pragma once

#include "stages/decode/decode_packet.h"
#include "stages/decode/decode_pending.h"
#include "stages/decode/selection.h"

/* Packets that wait here and in the decoder: the plan expects a decoder to keep that many (engine/planner/cuts.c). */
enum { MR_NEEDED_MOST = 32, MR_NEEDED_PLACES = 2 * MR_PENDING_WINDOW + 2 * MR_NEEDED_MOST };

typedef enum mr_needed_answer { MR_NEEDED_WAIT, MR_NEEDED_SEND, MR_NEEDED_LEAVE } mr_needed_answer;

/* An entry in presentation order: one picture that is held or in the decoder, or several omitted ones. */
typedef struct mr_needed_place {
    int64_t pts_ns;     /* the last one's time */
    uint64_t left;      /* how many were omitted; 0: one picture, held or sent */
    uint64_t numbers;   /* how many of these have numbers: none before `start` */
    bool wanted;
    mr_selection after; /* the selection after it, once ordered */
} mr_needed_place;

typedef struct mr_needed_packet {
    mr_frame *frame;
    mr_packet_use use;
} mr_needed_packet;

typedef struct mr_needed {
    enum { MR_NEEDED_OFF, MR_NEEDED_BEGINS, MR_NEEDED_COUNTS } mode;
    bool all;               /* decode everything */
    mr_packet_looks looks;
    mr_media *media;        /* its start, end, every and fps choose pictures; NULL: all are decoded */
    mr_selection now;       /* after the last received picture */
    mr_selection ahead;     /* after the ordered places */
    size_t held_count, place_count, ordered; /* ordered places come first */
    size_t chosen;          /* index in `held`, set by mr_needed_next */
    int64_t entry_pts_ns;   /* the first key picture's time; INT64_MAX: none has come */
    int64_t shown_pts_ns;   /* packet time for the last picture in this stretch; MR_NO_TIME: none, or not sure */
    bool begun, ended;      /* the stretch; no packet follows in it */
    mr_needed_packet held[MR_NEEDED_MOST]; /* in decode order */
    mr_needed_place place[MR_NEEDED_PLACES]; /* in presentation order */
} mr_needed;

/* `all`: decode everything. */
void mr_needed_init(mr_needed *needed, bool all);
/* Call when an epoch begins: selection restarts. */
void mr_needed_begin_epoch(mr_needed *needed);
/* Takes a reference to the packet, the first in a stretch unless one has begun. The packets of a stretch have the same
 * codec, and the first one's media chooses pictures. There is room after mr_needed_next has returned MR_NEEDED_WAIT.
 * `kept`: the packet must be decoded. `pending`: packets in the decoder. */
void mr_needed_add(mr_needed *needed, mr_frame *frame, bool kept, const mr_pending *pending);
/* Call when no packet follows in this stretch. `cut_short`: more might have come, so unknown numbers stay unknown. */
void mr_needed_end(mr_needed *needed, bool cut_short);
/* Returns what to do next; mr_needed_take then takes out the packet. `room`: how many more packets can wait. */
mr_needed_answer mr_needed_next(mr_needed *needed, size_t room);
/* The packet that the last answer is about. The caller must release what mr_needed_take returns. */
const mr_frame *mr_needed_chosen(const mr_needed *needed);
mr_frame *mr_needed_take(mr_needed *needed, mr_needed_answer answer);
/* Call when the decoder gives a picture with this time; INT64_MAX: no more will come. Returns how many numbered
 * pictures were omitted before it. */
uint64_t mr_needed_reach(mr_needed *needed, int64_t pts_ns);
/* Whether the packet's picture is wanted. `time_ns` may be MR_NO_TIME. */
bool mr_needed_wants(mr_needed *needed, const mr_frame *packet, int64_t time_ns);
/* Ends the stretch; drops the held packets. */
void mr_needed_fini(mr_needed *needed);

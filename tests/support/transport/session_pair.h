/* A sender and receivers of the protocol of cuts, driven by hand, case by case: messages go over at once. */
#pragma once

#include "engine/transport/session/session.h"

#define S INT64_C(1000000000) /* a second, in nanoseconds */

/* The outcome of driving both ends until nothing is left to do. */
typedef struct pair_seen {
    int settled, dropped, aside, fresh, ended;
    int suspected;
    mr_identity suspect;
    int marks;
    mr_identity gone; /* of the last of them */
    int renewed, most_items;
    mr_peer_change sender_change, receiver_change;
    mr_reject_reason reason;
    uint64_t ticket[32], run;
    const char *why;
    uint64_t unreadable; /* messages with a frame of that number, above 0, are refused as malformed */
    int refused;         /* how often */
} pair_seen;

typedef struct pair {
    mr_sender *sender;
    mr_receiver *receiver;
    pair_seen seen;
} pair;

/* A sender "a" for receivers "b" and another, with a window of 8 frames; a receiver with credit for 4. */
mr_sender_params pair_sender_params(void);
mr_receiver_params pair_receiver_params(const char *name);
/* Creates both ends; existing ones are destroyed first. */
void pair_open(pair *p, const mr_sender_params *sending, const mr_receiver_params *receiving);
/* Set-up and tear-down of a test: *state is a pair with those parameters. */
int pair_set_up(void **state);
int pair_tear_down(void **state);

/* A frame's handle is its number. */
mr_cut_item pair_frame(uint64_t seq);
void pair_offer(mr_sender *sender, uint64_t seq);

/* Handles all actions of one end; the sender's messages go to the receiver as from its sender `index`. Returns whether
 * there were any. */
bool pair_drive_sender(mr_sender *sender, mr_receiver *receiver, uint32_t index, int64_t now_ns, pair_seen *s);
bool pair_drive_receiver(mr_receiver *receiver, mr_sender *const *senders, int64_t now_ns, pair_seen *s);
/* Both ends, until nothing is left to do. */
void pair_drive(pair *p, int64_t now_ns);
/* Delivers all fresh frames that were seen. */
void pair_settle_all(pair *p, int64_t now_ns);

/* A sender and receivers of the protocol of cuts, driven by hand, case by case: messages go over at once. */
#ifndef MILLRACE_TESTS_SESSION_PAIR_H
#define MILLRACE_TESTS_SESSION_PAIR_H

#include "engine/transport/session.h"

enum { S = 1000000000 };

/* What came of driving both ends until nothing is left to do. */
typedef struct pair_seen {
    int settled, dropped, aside, fresh, ended;
    int renewed, most_items;
    mr_peer_change sender_change, receiver_change;
    mr_reject_reason reason;
    uint64_t ticket[32], run;
    const char *why;
} pair_seen;

/* A sender "a" for receivers "b" and another, with a window of 8 frames; a receiver with credit for 4. */
mr_sender_params pair_sender_params(void);
mr_receiver_params pair_receiver_params(const char *name);
void pair_open(mr_sender **sender, mr_receiver **receiver);

/* A frame's handle is its number. */
mr_cut_item pair_frame(uint64_t seq);
void pair_offer(mr_sender *sender, uint64_t seq);

/* Takes all that one end has to do; what the sender says goes to the receiver as from its sender `index`. Whether there
 * was anything. */
bool pair_drive_sender(mr_sender *sender, mr_receiver *receiver, uint32_t index, int64_t now_ns, pair_seen *s);
bool pair_drive_receiver(mr_receiver *receiver, mr_sender *const *senders, int64_t now_ns, pair_seen *s);
/* Both ends, until nothing is left to do. */
void pair_drive(mr_sender *sender, mr_receiver *receiver, int64_t now_ns, pair_seen *s);
/* Delivers all fresh frames that were seen. */
void pair_settle_all(mr_receiver *receiver, pair_seen *s, int64_t now_ns);

#endif

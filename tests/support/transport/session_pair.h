/* A sender and receivers for the cut protocol, driven by hand: messages arrive at once. */
#pragma once

#include "engine/transport/session/receiver.h"
#include "engine/transport/session/sender.h"

#define S INT64_C(1000000000) /* a second in nanoseconds */

/* What happened while both ends were driven until nothing was left to do. */
typedef struct pair_seen {
    int settled, dropped, aside, fresh, ended;
    int suspected;
    mr_identity suspect;
    int marks;
    mr_identity gone; /* the last one */
    int renewed, most_items;
    mr_peer_change sender_change, receiver_change;
    mr_reject_reason reason;
    uint64_t ticket[32], run;
    const char *why;
    uint64_t unreadable; /* messages with this frame number, above 0, are refused as malformed */
    int refused;         /* how often */
} pair_seen;

typedef struct pair {
    mr_sender *sender;
    mr_receiver *receiver;
    pair_seen seen;
    mr_sender_params sending; /* what pair_begin and pair_reopen use */
    mr_receiver_params receiving;
} pair;

/* A sender "a" for receivers "b" and one more, with a window of 8 frames; a receiver with credit for 4. */
mr_sender_params pair_sender_params(void);
mr_receiver_params pair_receiver_params(const char *name);
/* Creates both ends, and first destroys existing ones. */
void pair_open(pair *p, const mr_sender_params *sending, const mr_receiver_params *receiving);
/* The same with the pair's parameters, which the test has changed. */
void pair_reopen(pair *p);
/* A test with such a pair, `p`. */
void pair_begin(pair *p);
void pair_close(pair *p);
#define PAIR_TEST(name) TEST_GIVEN(name, pair, p, pair_begin(&made), pair_close(&made))

/* The frame number is also the handle. */
mr_cut_item pair_frame(uint64_t seq);
void pair_offer(mr_sender *sender, uint64_t seq);
/* Offers frames `from` to `to` - 1. */
void pair_offer_all(mr_sender *sender, uint64_t from, uint64_t to);

/* A receiver's HELLO; its process and attempt are numbered 10 and 1. */
mr_cut_message pair_hello(const char *name);
/* The sender gets a message on this route, and then acts; nothing arrives at the receiver. */
void pair_hear(pair *p, uint32_t route, const mr_cut_message *message);

/* Handles all actions at one end; the receiver gets the sender's messages as from sender `index`. Returns whether there
 * were any. */
bool pair_drive_sender(mr_sender *sender, mr_receiver *receiver, uint32_t index, int64_t now_ns, pair_seen *s);
bool pair_drive_receiver(mr_receiver *receiver, mr_sender *const *senders, int64_t now_ns, pair_seen *s);
/* Drives both ends until nothing is left to do. */
void pair_drive(pair *p, int64_t now_ns);
/* Delivers all fresh frames seen so far. */
void pair_settle_all(pair *p, int64_t now_ns);
/* The same, and drives both ends. */
void pair_settle_and_drive(pair *p, int64_t now_ns);

/* A consumer's end of a cut: see session.h. */
#pragma once

#include "engine/transport/session/session.h"

typedef struct mr_receiver mr_receiver;

typedef struct mr_receiver_params {
    mr_session_self self;
    uint32_t senders;       /* how many processes send to this end: replicas of the producing stage; at least 1 */
    uint32_t credit_frames; /* granted to each; at least 1 */
    uint64_t credit_bytes;  /* UINT64_MAX: no bound */
    uint32_t memory;        /* how many identities it remembers; must be at least all senders' windows together */
    bool remembers_all;     /* remembers every settled frame: a restarted sender begins again at the start, and its
                               repetitions are absorbed ("done before"). Otherwise only the last `memory` */
    bool returns;           /* the frames come back to the senders' node. One that is started again lacks what came back
                               before: what was settled is forgotten then, and its repetitions are given to the graph */
    bool renews;            /* for one sender: the frames come back to the node that made them. If another process makes
                               them, what came of the former one's is not even waited for: those frames come to
                               nothing, and the new ones are given to the graph. With `returns` the sender makes them;
                               otherwise items say which process did (proto: Items.made_by) */
    uint32_t report_items;  /* this many outcomes are reported at once; 0: outcomes only wait for time */
} mr_receiver_params;

int mr_receiver_create(mr_receiver **receiver, const mr_receiver_params *params);
void mr_receiver_destroy(mr_receiver **receiver);

/* If a transport has two ways: false if other messages precede the one of that session and number, so that a gap would
 * be seen. They may still arrive by the other way. */
bool mr_receiver_may_receive(const mr_receiver *receiver, uint32_t sender, uint64_t session, uint64_t number);
/* Whether that is the present session with that sender. */
bool mr_receiver_knows(const mr_receiver *receiver, uint32_t sender, uint64_t session);
/* A message was received from that sender. The caller must push ITEMS that are `fresh` into the graph, in order, and
 * owns all frames. On failure none is fresh. */
int mr_receiver_receive(mr_receiver *receiver, uint32_t sender, mr_cut_message *message, int64_t now_ns);
void mr_receiver_malformed(mr_receiver *receiver, uint32_t sender);
/* The transport saw this connection close. */
void mr_receiver_lost(mr_receiver *receiver, uint32_t sender, int64_t now_ns);
/* The transport had no connection to that sender for the last message, and is about to establish one: silence does not
 * count yet. */
void mr_receiver_no_line(mr_receiver *receiver, uint32_t sender);
/* That sender will not come back: it has failed, and is not started again. Nothing more comes from it. The first call
 * returns true if it was never connected, so that no MR_ACTION_PEER says that it is away. */
bool mr_receiver_give_up(mr_receiver *receiver, uint32_t sender, int64_t now_ns);
/* Whether all senders have sent the end of a source, or were given up. */
bool mr_receiver_is_over(const mr_receiver *receiver, uint32_t source);
/* The graph has taken a fresh frame: the receiver grants its credit again. */
void mr_receiver_take(mr_receiver *receiver, uint64_t ticket);
/* A fresh frame's receipt has closed. Strings are kept by pointer and must live as long as the receiver. Tickets for
 * settled frames or for another run are ignored. */
void mr_receiver_settle(mr_receiver *receiver, uint64_t ticket, mr_note outcome, const char *stage,
                        const char *reason, int64_t now_ns);
/* Work was done at this end: anything that rises, as long as no call of a stage hangs. A graph that waits for
 * input is well, and makes progress by being asked. */
void mr_receiver_progress(mr_receiver *receiver, uint64_t progress);
bool mr_receiver_next(mr_receiver *receiver, int64_t now_ns, mr_action *action);
int64_t mr_receiver_wake_ns(const mr_receiver *receiver);
/* Fresh frames that are not settled. */
uint32_t mr_receiver_held(const mr_receiver *receiver);
/* The first sender that is not connected although it has not sent all; false: there is none. */
bool mr_receiver_waits(const mr_receiver *receiver, uint32_t *sender);
/* With `renews`: the process that makes what comes from that sender, or the last one that did; 0: none yet. */
uint64_t mr_receiver_maker(const mr_receiver *receiver, uint32_t sender);
/* Whether one that may have something to give is not there. */
bool mr_receiver_lacks(const mr_receiver *receiver);
/* Whether the run begins or continues at this end (stage.h), as the senders report. While that is not known: *absent,
 * whether some have reported it, and all others were never connected. */
mr_run_state mr_receiver_run_state(const mr_receiver *receiver, bool *absent);
/* Whether there were more gaps than can be remembered: repetitions may be taken for new frames. */
bool mr_receiver_forgets(const mr_receiver *receiver);
/* All senders have reported that they need nothing more, or were given up. A receiver must not leave before that:
 * reports can be lost, and no other process can repeat them. */
bool mr_receiver_finished(const mr_receiver *receiver);
/* Grants no more credit; existing grants are withdrawn once the senders know. Sends BYE once nothing is held. Senders
 * pass the rest to other peers, or wait for another process. */
void mr_receiver_withdraw(mr_receiver *receiver);
/* Sends BYE to all at once, after pending reports. */
void mr_receiver_close(mr_receiver *receiver, const char *text);
mr_session_counts mr_receiver_counts(const mr_receiver *receiver);

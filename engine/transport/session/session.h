/* The protocol of cuts: two state machines without sockets, clocks or threads.
 *
 * A cut has a **sender** on the producer's node and a **receiver** on each consumer's. They are fed with messages,
 * offers, settlements and the time, and answer what is to be done: mr_sender_next and mr_receiver_next give one
 * action after the other. What a transport must do: carry messages whole and in order while a connection lasts. It
 * may lose any number of them, without a word, and come back by itself (ZeroMQ does both).
 *
 *     sender                               receiver
 *                  <- HELLO                again every hello_ns, until it is welcome
 *     WELCOME ->                           to each of them; a session begins with the first that is heard
 *                  <- REPORT               what became of frames since, what is held, first credit
 *     ITEMS ->                             as far as credit goes
 *                  <- REPORT               outcomes and credit in batches; progress
 *     BEAT ->      <- REPORT               every beat_ns, where there is nothing else to say
 *     BYE ->       <- BYE                  once all is settled and every end was heard; or whoever leaves before
 *
 * **Sessions.** Messages are numbered in each session and direction. A repeated number is ignored; a gap means that
 * something was lost: the session is over, and the receiver says HELLO. So does it where nothing came for silence_ns,
 * or where it is told that its session is STALE, as every message of another session is answered. A peer is known by
 * its node's name; its incarnation tells a new process from one that is back, and the older of two is refused.
 *
 * **Credit.** The receiver grants frames and bytes; without both nothing is sent. Credit comes back when the graph
 * takes a frame (mr_receiver_take), so it bounds what lies between the sender and the graph. Marks need none.
 *
 * **Settlement.** Every item is settled at the sender exactly once, with the outcome that its receipt had behind the
 * cut. Until then it counts against the window, which bounds what the sender retains.
 *
 * **Reliable.** What a session had in hand when it ended is sent again: to the same process once it is back (but not
 * what it says it holds), else to whichever peer has credit. The receiver gives each frame to its graph once: it
 * remembers the last `memory` identities and their outcomes, over sessions, sender's restarts and several senders.
 * Two frames of one identity that one sender's process offers are two frames.
 *
 * **Connections** may be open and of no use: what goes in does not come out, or only a part of it, so that nothing that
 * follows is what was sent. A receiver that hears garbage, is told that its own messages are, or hears nothing at all
 * for silence_ns, has its connection renewed; where that does not help, after twice as long, and so on up to the time
 * of ten HELLOs, since an answer that takes longer would else never be heard. As long is waited for a connection that
 * is not there yet: whoever makes it would never be done else, and may have given up.
 *
 * **Live.** Nothing is sent again: what was in hand is dropped, as "connection lost", and of packets all up to the
 * next key frame, as "gop". Nothing is queued: there is room only where there is credit, so that the link before the
 * cut drops by its own policy. Where something behind waits for frames by their identity (a join), it is told how far
 * each source is settled: whenever a session begins or goes on, and when more was lost; so that it never waits for what
 * does not come. That is told over reliable cuts, too, where there are live ones behind: a process that died may have
 * known of losses that it has told nobody of.
 *
 * **Several receivers** of one cut share the work: whoever has the most credit left is sent the next frames. When one
 * is lost, the others get what it had. A frame that was in the hands of a process that died or stalled is sent to the
 * next one alone, with nothing else in hand; one that `deaths` of them had when they died is set aside, or, where it
 * was always in company, that twice as many had. A process has died where a later one has its name, or where its
 * connection was closed and it did not come back in silence_ns; it has stalled where it owes outcomes and its
 * progress stood still for stall_ns. Mere silence is no death, and who comes back after all had not died.
 *
 * **End.** END goes to every receiver, also to one that comes later, behind all frames of the source that it gets.
 * While frames are not settled one receiver is left without it, so that there is one that can take what others lose.
 *
 * Time is any clock that does not go back, in nanoseconds. Feed what has arrived before you tell the time: a process
 * that was stopped would else find its peers silent. One thread at a time uses a sender or a receiver.
 *
 * Errors: a peer that breaks the protocol gets REJECT and its session is over; the call answers MR_ERROR_PROTOCOL
 * with a message for the log, and everybody else goes on. MR_ERROR_MEMORY only from _create: what is needed is
 * allocated there, within what window, memory and peers allow. */
#ifndef MILLRACE_TRANSPORT_SESSION_H
#define MILLRACE_TRANSPORT_SESSION_H

#include "engine/transport/message.h"

enum { MR_CUT_MOST_PEERS = 64 };
enum { MR_PEER_NAME = 64 }; /* bytes of a name, with the terminating zero; longer ones are refused */

typedef struct mr_session_timing {
    int64_t hello_ns;   /* between two HELLOs */
    int64_t beat_ns;    /* at least so often something is said */
    int64_t silence_ns; /* who was not heard so long is lost; several beats */
    int64_t stall_ns;   /* sender: who owes and makes no progress so long is lost; 0: never */
    int64_t report_ns;  /* receiver: an outcome is reported at the latest so long after it was told */
    int64_t alone_ns;   /* sender: how long a frame under suspicion is kept alone, at most: it may wait for others in a
                           batch */
} mr_session_timing;

/* What both ends must agree on, or say of themselves. Copied, but for strings, which outlive the session. */
typedef struct mr_session_self {
    const char *name;       /* of this node */
    uint64_t incarnation;   /* of this process: the time at which it started will do. Not 0 */
    const char *cut;        /* the link's name, the same at both ends */
    const char *formats;    /* what goes over it, in words, the same at both ends */
    const char *memory;     /* proto: Hello.memory and Welcome.memory; "" without */
    uint8_t digest[MR_DIGEST_BYTES]; /* of the pipeline, the same at both ends */
    size_t source_count;    /* of the pipeline */
    size_t lane_count;      /* of them, those whose frames go over this cut: so many ENDs will come */
    mr_session_timing timing;
} mr_session_self;

/* Why a peer is not there (any more). */
typedef enum mr_peer_change {
    MR_PEER_JOINED,   /* a session has begun */
    MR_PEER_BROKEN,   /* messages were lost, or the connection: it is expected back */
    MR_PEER_RESTARTED, /* sender: another process has come in its place */
    MR_PEER_SILENT,
    MR_PEER_STALLED,  /* sender */
    MR_PEER_LEFT,     /* it said BYE */
    MR_PEER_REJECTED  /* it was refused, or refuses us; `text` says why. A receiver says HELLO again every beat_ns, since
                         another process may come in the sender's place; not after MR_REJECT_REPLACED. Both tell of the
                         same refusal once */
} mr_peer_change;

typedef enum mr_action_kind {
    MR_ACTION_NONE,
    MR_ACTION_SEND,      /* both: this message to that peer */
    MR_ACTION_PEER,      /* both: tell the log */
    MR_ACTION_ROUTE,     /* sender: the connection of that number is now that of the peer `of.index`, and the one which
                            was before is a stranger's */
    MR_ACTION_SETTLE,    /* sender: that is what became of this item; its frame is the caller's again */
    MR_ACTION_SET_ASIDE, /* sender: a frame that kills who works on it; its frame is the caller's again. It is to be
                            kept somewhere, and counts as dropped */
    MR_ACTION_SUSPECT,   /* sender, where nothing is set aside: this frame was first in hand of that peer when it died, and of
                            one before it, so it may be what they die of. For the log; the frame goes on */
    MR_ACTION_RENEW,     /* receiver: the connection to that sender is to be closed, and another one to be made */
    MR_ACTION_NEW_RUN    /* receiver: from here on, frames are of another run; what is at work is nobody's any more */
} mr_action_kind;

/* What is to be done. It borrows from the session until its next call. */
typedef struct mr_action {
    mr_action_kind kind;
    uint32_t peer;      /* SEND, PEER, ROUTE and RENEW. Sender: the route of the peer's last message. Receiver: which
                           sender */
    union {
        mr_cut_message message; /* SEND */
        struct {
            mr_cut_item item;   /* SETTLE, SET_ASIDE and SUSPECT; of the latter without its frame */
            mr_settled settled; /* SETTLE and SET_ASIDE: outcome, stage, reason; count 1 */
        };
    };
    struct {
        mr_peer_change change;
        mr_reject_reason reason; /* of REJECTED */
        const char *name;        /* the peer's, also of SUSPECT; "" where it is not known */
        uint64_t incarnation;
        uint32_t index;          /* sender, of JOINED and ROUTE: below most_peers, the same as long as that peer may come
                                    back */
        uint64_t session;        /* sender: that began or is over; 0: none */
        const char *memory;      /* of JOINED: what the peer says of shared memory */
        const char *text;        /* for people */
    } of;               /* PEER, ROUTE */
    uint64_t run;       /* NEW_RUN */
} mr_action;

/* What happened so far. */
typedef struct mr_session_counts {
    uint64_t frames;      /* sent, or given to the graph; each once */
    uint64_t again;       /* frames sent again; duplicates that came */
    uint64_t set_aside;
    uint64_t stale;       /* messages of other sessions; rejections that say so */
    uint64_t malformed;   /* messages that break the protocol */
    uint64_t rejected;    /* HELLOs that were refused; rejections that came, but for those of stale messages */
    uint64_t sessions;    /* that began */
} mr_session_counts;

/* ---- the sender -------------------------------------------------------------------------------------------------- */

typedef struct mr_sender mr_sender;

typedef struct mr_sender_params {
    mr_session_self self;
    uint64_t run;          /* proto: Welcome.run; 0: not known here, whichever it is */
    bool live;
    bool tells_lost;       /* something behind waits for what may be lost unseen: see mr_sender_miss */
    const char *taker;     /* the taking node: only its processes are admitted, by the name NODE or NODE.0 to
                              one below NODE.`receivers`; NULL: whoever has a name */
    uint32_t receivers;    /* that are planned: it has finished when so many have seen every END */
    uint32_t most_peers;   /* admitted at once; at most MR_CUT_MOST_PEERS */
    uint32_t window_frames; /* not settled; at least 1 */
    uint64_t window_bytes;  /* UINT64_MAX: no bound */
    uint32_t batch_frames; /* of one message at most */
    uint64_t batch_bytes;  /* a message takes no further frame once it has so many */
    uint32_t deaths;       /* a frame that so many had when they died is set aside; 0: never */
    const char *stage;     /* in whose name frames are dropped */
} mr_sender_params;

int mr_sender_create(mr_sender **sender, const mr_sender_params *params);
/* What is not settled comes out of mr_sender_next no more: call mr_sender_abandon before. */
void mr_sender_destroy(mr_sender **sender);

/* Whether a frame of so many bytes finds room now. */
bool mr_sender_has_room(const mr_sender *sender, uint64_t bytes);
/* Takes an item, and the reference to its frame, on MR_OK. MR_ERROR_AGAIN: no room, nothing was taken; there may
 * be some once something was settled or (live) credit came. MR_ERROR_DATA: more bytes than the whole window. Where
 * a live cut has nobody to send it to, a mark other than END goes no further. */
int mr_sender_offer(mr_sender *sender, const mr_cut_item *item, int64_t now_ns);
/* A frame of that identity will not be offered. With `tells_lost`, whatever was dropped unseen, so or otherwise, is made
 * known by a mark for all up to the last of it (engine/flow/gone.h): at once, or when a session begins or goes on. */
void mr_sender_miss(mr_sender *sender, const mr_identity *gone);
/* A message has come; `route` is the transport's number for who sent it. */
int mr_sender_receive(mr_sender *sender, uint32_t route, const mr_cut_message *message, int64_t now_ns);
/* As mr_receiver_may_hear; true also says at which *route that peer is reached. False where there is no such session,
 * too. */
bool mr_sender_may_hear(const mr_sender *sender, uint64_t session, uint64_t number, uint32_t *route);
/* Which of its at most `most_peers` receivers has that session; false: none. */
bool mr_sender_knows(const mr_sender *sender, uint64_t session, uint32_t *peer);
/* What has come is no message; counted and answered. */
void mr_sender_malformed(mr_sender *sender, uint32_t route);
/* The transport saw this connection close. */
void mr_sender_lost(mr_sender *sender, uint32_t route, int64_t now_ns);
/* Whether the run begins or goes on for what comes to this process. With what receivers have delivered it makes up what
 * they are told. */
void mr_sender_tell_run(mr_sender *sender, mr_run_state before);
/* The next thing to be done; false: nothing now. */
bool mr_sender_next(mr_sender *sender, int64_t now_ns, mr_action *action);
/* When mr_sender_next should be called at the latest, if nothing happens before; INT64_MAX: never. */
int64_t mr_sender_wake_ns(const mr_sender *sender);

/* Whether any receiver is there. */
bool mr_sender_has_peer(const mr_sender *sender);
/* Whether none is, and there is something to give, or to say yet. */
bool mr_sender_waits(const mr_sender *sender);
/* Frames that are not settled. */
uint32_t mr_sender_unsettled(const mr_sender *sender);
/* Every source has ended, everything is settled, `receivers` of them have seen it, and all that are there have been
 * told so and have answered: none of them waits for anything more. Who was not heard for long is not waited for. */
bool mr_sender_finished(const mr_sender *sender);
/* Says BYE to all. What follows is only actions of that; receivers that come are rejected. */
void mr_sender_close(mr_sender *sender, const char *text);
/* Settles all that is not settled as dropped for `reason`; actions follow. */
void mr_sender_abandon(mr_sender *sender, const char *reason);
mr_session_counts mr_sender_counts(const mr_sender *sender);

/* ---- the receiver ------------------------------------------------------------------------------------------------ */

typedef struct mr_receiver mr_receiver;

typedef struct mr_receiver_params {
    mr_session_self self;
    uint32_t senders;       /* how many processes send to this end: replicas of the producing stage; at least 1 */
    uint32_t credit_frames; /* granted to each; at least 1 */
    uint64_t credit_bytes;  /* UINT64_MAX: no bound */
    uint32_t memory;        /* identities that are remembered; at least the windows of all senders together */
    bool remembers_all;     /* every frame that was settled, however long ago: a sender that was started again begins at
                               the beginning, and what it sends once more is absorbed ("done before"). Else only as many
                               as `memory` */
    uint32_t report_items;  /* so many outcomes do not wait for more; 0: they only wait for time */
} mr_receiver_params;

int mr_receiver_create(mr_receiver **receiver, const mr_receiver_params *params);
void mr_receiver_destroy(mr_receiver **receiver);

/* Where a transport has two ways: false where other messages come before the one of that session and number, so that a
 * gap would be seen. They may come the other way yet. */
bool mr_receiver_may_hear(const mr_receiver *receiver, uint32_t sender, uint64_t session, uint64_t number);
/* Whether that is the present session with that sender. */
bool mr_receiver_knows(const mr_receiver *receiver, uint32_t sender, uint64_t session);
/* A message has come from that sender. Of ITEMS, those that are `fresh` are then to be given to the graph, in order;
 * all frames are the caller's. On failure none is. */
int mr_receiver_receive(mr_receiver *receiver, uint32_t sender, mr_cut_message *message, int64_t now_ns);
void mr_receiver_malformed(mr_receiver *receiver, uint32_t sender);
/* The transport saw this connection close. */
void mr_receiver_lost(mr_receiver *receiver, uint32_t sender, int64_t now_ns);
/* The transport had no connection to that sender for the message that it was just given, and is about to make one:
 * there is nothing yet that could be silent. */
void mr_receiver_no_line(mr_receiver *receiver, uint32_t sender);
/* The graph has taken a fresh frame: its credit comes back. */
void mr_receiver_take(mr_receiver *receiver, uint64_t ticket);
/* The receipt of a fresh frame has closed. Strings are kept by pointer: they live as long as the receiver. Tickets
 * of what is settled already, or of another run, are ignored. */
void mr_receiver_settle(mr_receiver *receiver, uint64_t ticket, mr_note outcome, const char *stage,
                        const char *reason, int64_t now_ns);
/* Work was done at this end: anything that rises, as long as no call of a stage hangs. A graph that waits for
 * input is well, and makes progress by being asked. */
void mr_receiver_progress(mr_receiver *receiver, uint64_t progress);
bool mr_receiver_next(mr_receiver *receiver, int64_t now_ns, mr_action *action);
int64_t mr_receiver_wake_ns(const mr_receiver *receiver);
/* Fresh frames that are not settled. */
uint32_t mr_receiver_held(const mr_receiver *receiver);
/* The first sender that is not there, though it has not said all; false: there is none. */
bool mr_receiver_waits(const mr_receiver *receiver, uint32_t *sender);
/* Whether one that may have something to give is not there. */
bool mr_receiver_lacks(const mr_receiver *receiver);
/* Whether the run begins at this end or goes on (stage.h), as the senders say. While that is not known: *absent, whether
 * some have said so, and all others have not been there yet. */
mr_run_state mr_receiver_run_state(const mr_receiver *receiver, bool *absent);
/* Whether there were more gaps than can be remembered: what comes again may be taken for new. */
bool mr_receiver_forgets(const mr_receiver *receiver);
/* All senders have said that they need nothing more. Before that a receiver must not leave: what it has told of
 * outcomes may have been lost, and nobody else could say it again. */
bool mr_receiver_finished(const mr_receiver *receiver);
/* Takes no more than what was granted already, of which most is on its way back once the senders know; says BYE once
 * nothing is held. Senders give what they still have in hand to others, or wait for another process. */
void mr_receiver_withdraw(mr_receiver *receiver);
/* Says BYE to all at once, behind what is to be reported. */
void mr_receiver_close(mr_receiver *receiver, const char *text);
mr_session_counts mr_receiver_counts(const mr_receiver *receiver);

#endif

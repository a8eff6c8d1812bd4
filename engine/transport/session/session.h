/* The cut protocol: two state machines without sockets, clocks or threads.
 *
 * A cut has a **sender** on the producer's node and a **receiver** on each consumer's node. The caller feeds them with
 * messages, offers, settlements and the time, and asks for actions: mr_sender_next and mr_receiver_next return one
 * action after the other. The transport must carry messages whole and in order while a connection lasts. It may lose
 * any number of them silently, and reconnect by itself (ZeroMQ does both).
 *
 *     sender                               receiver
 *                  <- HELLO                again every hello_ns, until it is welcome
 *     WELCOME ->                           to each of them; the first that is received begins a session
 *                  <- REPORT               outcomes since the last session, frames held, first credit
 *     ITEMS ->                             as far as credit goes
 *                  <- REPORT               outcomes and credit in batches; progress
 *     BEAT ->      <- REPORT               every beat_ns, if there is nothing else to send
 *     BYE ->       <- BYE                  once everything is settled and every end was received; or on leaving early
 *
 * **Sessions.** Messages are numbered per session and direction. A repeated number is ignored. A gap means that a
 * message was lost: the session ends, and the receiver sends HELLO. It also sends HELLO if it received nothing for
 * silence_ns, or if its session is STALE, which answers every message from another session. The node's name identifies
 * a peer. Its incarnation distinguishes a new process from one that reconnects; the older one is refused.
 *
 * **Credit.** The receiver grants frames and bytes; without both nothing is sent. Credit returns when the graph takes a
 * frame (mr_receiver_take), so it bounds the frames between the sender and the graph. Marks need no credit.
 *
 * **Settlement.** The sender settles every item exactly once, with the receipt's outcome after the cut. Until then the
 * item counts against the window, which bounds how much the sender must retain.
 *
 * **Reliable.** Items under way when a session ended are sent again: to the same process once it reconnects (except
 * those that it reports as held), otherwise to any peer with credit. The receiver passes each frame to the graph once.
 * It remembers the last `memory` identities with outcomes, across sessions, sender restarts and several senders. Two
 * frames that one sender process offers with the same identity are two frames.
 *
 * **Connections** may be open but broken: messages do not arrive, or arrive in part. The receiver renews a connection
 * if it receives garbage, if the sender reports garbage, or if nothing arrives for silence_ns. If that does not help,
 * it renews again after twice as long, up to the time for ten HELLOs: with a shorter limit a slow answer could never
 * arrive. It waits as long for a connection that is not established yet, since the transport may have given up.
 *
 * **Live.** Nothing is sent again. Items under way are dropped as "connection lost", and packets up to the next key
 * frame as "gop". Nothing is queued: there is room only if there is credit, so the link before the cut drops by its
 * drop policy. A later stage may wait for frames by identity (a join). Then the sender reports how far each source is
 * settled, whenever a session begins or resumes and after further losses. The join therefore need not wait for frames
 * that cannot come. Reliable cuts that feed live ones report this too: a process that died may have known losses that
 * it had not reported.
 *
 * **Several receivers** can share a cut's work: the next frames go to the one with the most credit left. If one is
 * lost, the others get its frames. A frame under way to a process that died or stalled goes to the next one alone, with
 * nothing else under way. A frame that `deaths` processes had under way when they died is set aside (after twice as
 * many, if it was never alone). A process counts as dead if a later one has its name, or if its connection closed and
 * it did not reconnect within silence_ns. It counts as stalled if it has outcomes to report and made no progress for
 * stall_ns. A silent process need not be dead, and a process that reconnects had not died.
 *
 * **Refused messages.** A receiver that cannot read a message ends the session; the next HELLO reports that. The frames
 * of the first message that it has not received are then sent alone. A frame that was refused `refusals` times is set
 * aside if it was alone the last time, so that it cannot hold up the cut for ever. Live cuts drop it as any other.
 *
 * **End.** END goes to every receiver, including one that connects later, after all the source's frames that it gets.
 * While frames are unsettled one receiver does not get it: that one can take over frames that others lose.
 *
 * Time is any monotonic clock, in nanoseconds. The caller must feed received messages before the time, otherwise a
 * process that was stopped finds its peers silent. Only one thread at a time may use a sender or a receiver.
 *
 * Errors: a peer that breaks the protocol gets REJECT and the session ends. The call returns MR_ERROR_PROTOCOL with a
 * message for the log; other peers are not affected. Only _create can return MR_ERROR_MEMORY: it allocates all memory,
 * bounded by window, memory and peers. */
#pragma once

#include "engine/data/kinds.h"
#include "engine/transport/message.h"

enum { MR_CUT_MOST_PEERS = 64 };
enum { MR_PEER_NAME = 64 }; /* bytes in a name, with the terminating zero; longer ones are refused */

typedef struct mr_session_timing {
    int64_t hello_ns;   /* between two HELLOs */
    int64_t beat_ns;    /* longest time between two messages */
    int64_t silence_ns; /* a peer that is silent for so long is lost; several beats */
    int64_t stall_ns;   /* sender: a peer with pending outcomes and no progress for so long is lost; 0: never */
    int64_t report_ns;  /* receiver: longest delay before an outcome is reported */
    int64_t alone_ns;   /* sender: longest time that a suspected frame is under way alone: it may wait for others in a
                           batch */
} mr_session_timing;

/* The parameters that both ends must agree on, and those that each reports about itself. Copied, except strings, which
 * outlive the session. */
typedef struct mr_session_self {
    const char *name;       /* this node's */
    uint64_t incarnation;   /* this process's: the time when it started will do. Must not be 0 */
    const char *cut;        /* the link's name, the same at both ends */
    const char *formats;    /* frame formats as text; must be the same at both ends */
    const mr_kinds *kinds;  /* result kinds. Sender: those that frames can carry. Receiver: those that it knows. NULL:
                               none */
    const char *memory;     /* proto: Hello.memory and Welcome.memory; "" without */
    uint8_t digest[MR_DIGEST_BYTES]; /* the pipeline's; must be the same at both ends */
    size_t source_count;    /* the pipeline's */
    size_t lane_count;      /* sources whose frames cross this cut: the number of ENDs */
    mr_session_timing timing;
} mr_session_self;

/* Why a peer is not there (any more). */
typedef enum mr_peer_change {
    MR_PEER_JOINED,   /* a session has begun */
    MR_PEER_BROKEN,   /* messages were lost, or the connection: it is expected back */
    MR_PEER_RESTARTED, /* sender: another process has replaced it */
    MR_PEER_SILENT,
    MR_PEER_STALLED,  /* sender */
    MR_PEER_LEFT,     /* it sent BYE */
    MR_PEER_REJECTED  /* it was refused, or refuses this end; `text` has the reason. A receiver sends HELLO again every
                         beat_ns, since another process may replace the sender; not after MR_REJECT_REPLACED. A refusal
                         is reported once */
} mr_peer_change;

typedef enum mr_action_kind {
    MR_ACTION_NONE,
    MR_ACTION_SEND,      /* both: this message to that peer */
    MR_ACTION_PEER,      /* both: log it */
    MR_ACTION_ROUTE,     /* sender: connection `peer` now belongs to the peer `of.index`. The peer's former connection
                            is a stranger's */
    MR_ACTION_SETTLE,    /* sender: the item is settled with this outcome; the caller owns the frame again */
    MR_ACTION_SET_ASIDE, /* sender: a frame during which processes died, or which they refused; the caller owns it
                            again. It should be kept as a dead letter, and counts as dropped */
    MR_ACTION_SUSPECT,   /* sender, if nothing is set aside: this frame was the first under way to that peer when it
                            died, and to an earlier one, so it may be the cause. For the log; the frame is still sent */
    MR_ACTION_RENEW,     /* receiver: the connection to that sender is to be closed, and another one to be made */
    MR_ACTION_NEW_RUN    /* receiver: frames from here on belong to another run; frames in the graph have no sender any
                            more */
} mr_action_kind;

/* An action. It borrows from the session until the session's next call. */
typedef struct mr_action {
    mr_action_kind kind;
    uint32_t peer;      /* SEND, PEER, ROUTE and RENEW. Sender: the route of the peer's last message. Receiver: which
                           sender */
    union {
        mr_cut_message message; /* SEND */
        struct {
            mr_cut_item item;   /* SETTLE, SET_ASIDE and SUSPECT (which has no frame) */
            mr_settled settled; /* SETTLE and SET_ASIDE: outcome, stage, reason; count 1 */
        };
    };
    struct {
        mr_peer_change change;
        mr_reject_reason reason; /* REJECTED */
        const char *name;        /* the peer's, also for SUSPECT; "" if it is not known */
        uint64_t incarnation;
        uint32_t index; /* sender, of JOINED and ROUTE: below most_peers, the same as long as that peer may come
                           back */
        uint64_t session;        /* sender: the session that began or ended; 0: none */
        const char *memory;      /* JOINED: the peer's shared memory offer or token */
        const char *text;        /* for people */
    } of;               /* PEER, ROUTE */
    uint64_t run;       /* NEW_RUN */
} mr_action;

/* Counters. */
typedef struct mr_session_counts {
    uint64_t frames;      /* sent, or pushed into the graph; each once */
    uint64_t again;       /* frames sent again; duplicates that came */
    uint64_t set_aside;
    uint64_t stale;       /* messages from other sessions; rejections that say so */
    uint64_t malformed;   /* messages that break the protocol */
    uint64_t rejected;    /* HELLOs that were refused; rejections that came, except for stale messages */
    uint64_t sessions;    /* that began */
} mr_session_counts;

/* ---- the sender -------------------------------------------------------------------------------------------------- */

typedef struct mr_sender mr_sender;

typedef struct mr_sender_params {
    mr_session_self self;
    uint64_t run;          /* proto: Welcome.run; 0: not known here, whichever it is */
    bool live;
    bool reports_lost;       /* a later join waits for frames that can be lost unseen: see mr_sender_miss */
    const char *consumer;     /* the consuming node: only processes named NODE, or NODE.0 to one below NODE.`receivers`,
                                 are admitted; NULL: any name */
    uint32_t receivers;    /* planned receivers: the sender has finished when this many have seen every END */
    uint32_t most_peers;   /* admitted at once; at most MR_CUT_MOST_PEERS */
    uint32_t window_frames; /* not settled; at least 1 */
    uint64_t window_bytes;  /* UINT64_MAX: no bound */
    uint32_t batch_frames; /* most frames in one message */
    uint64_t batch_bytes;  /* a message takes no further frame once it has this many bytes */
    uint32_t deaths;       /* a frame is set aside if this many processes died while they had it; 0: never */
    uint32_t refusals;     /* a frame whose message was refused so often is set aside; 0: never */
    const char *stage;     /* stage to which drops are attributed */
} mr_sender_params;

int mr_sender_create(mr_sender **sender, const mr_sender_params *params);
/* Unsettled items are not returned any more: call mr_sender_abandon before. */
void mr_sender_destroy(mr_sender **sender);

/* Whether a frame with this many bytes finds room now. */
bool mr_sender_has_room(const mr_sender *sender, uint64_t bytes);
/* Offers an item. On MR_OK the sender owns the frame's reference. MR_ERROR_AGAIN: no room; the caller keeps it and can
 * try again after a settlement or (live) after credit. MR_ERROR_DATA: larger than the whole window. A live cut without
 * peers discards marks other than END. */
int mr_sender_offer(mr_sender *sender, const mr_cut_item *item, int64_t now_ns);
/* A frame with that identity will not be offered. With `reports_lost`, one mark reports everything that was dropped
 * unseen, up to the last one (engine/data/gap.h): at once, or when a session begins or resumes. */
void mr_sender_miss(mr_sender *sender, const mr_identity *gone);
/* A message was received; `route` is the transport's number for where it came from. */
int mr_sender_receive(mr_sender *sender, uint32_t route, const mr_cut_message *message, int64_t now_ns);
/* As mr_receiver_may_receive; if true, *route is the route of that peer. Also false if there is no such session. */
bool mr_sender_may_receive(const mr_sender *sender, uint64_t session, uint64_t number, uint32_t *route);
/* Which receiver (below `most_peers`) has that session. False: none. */
bool mr_sender_knows(const mr_sender *sender, uint64_t session, uint32_t *peer);
/* The received bytes are not a message: counts and answers it. */
void mr_sender_malformed(mr_sender *sender, uint32_t route);
/* A message for that session could not be written: its frames count as refused. */
void mr_sender_unwritten(mr_sender *sender, uint64_t session);
/* The transport saw this connection close. */
void mr_sender_lost(mr_sender *sender, uint32_t route, int64_t now_ns);
/* Sets whether the run begins or continues for this process's producers. This and what receivers have delivered decide
 * what the sender reports to them. */
void mr_sender_set_run_state(mr_sender *sender, mr_run_state before);
/* The next thing to be done; false: nothing now. */
bool mr_sender_next(mr_sender *sender, int64_t now_ns, mr_action *action);
/* When mr_sender_next should be called at the latest, if nothing happens before; INT64_MAX: never. */
int64_t mr_sender_wake_ns(const mr_sender *sender);

/* Whether any receiver is there. */
bool mr_sender_has_peer(const mr_sender *sender);
/* Whether no peer is connected although there are items or reports to send. */
bool mr_sender_waits(const mr_sender *sender);
/* Frames that are not settled. */
uint32_t mr_sender_unsettled(const mr_sender *sender);
/* Every source has ended, everything is settled, `receivers` receivers know it, and all connected ones got BYE and have
 * answered. The sender does not wait for a peer that is silent for long. */
bool mr_sender_finished(const mr_sender *sender);
/* Sends BYE to all. Only these actions follow; receivers that connect later are rejected. */
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
    uint32_t memory;        /* how many identities it remembers; must be at least all senders' windows together */
    bool remembers_all;     /* remembers every settled frame: a restarted sender begins again at the start, and its
                               repetitions are absorbed ("done before"). Otherwise only the last `memory` */
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
/* Whether one that may have something to give is not there. */
bool mr_receiver_lacks(const mr_receiver *receiver);
/* Whether the run begins or continues at this end (stage.h), as the senders report. While that is not known: *absent,
 * whether some have reported it, and all others were never connected. */
mr_run_state mr_receiver_run_state(const mr_receiver *receiver, bool *absent);
/* Whether there were more gaps than can be remembered: repetitions may be taken for new frames. */
bool mr_receiver_forgets(const mr_receiver *receiver);
/* All senders have reported that they need nothing more. A receiver must not leave before that: reports can be lost,
 * and no other process can repeat them. */
bool mr_receiver_finished(const mr_receiver *receiver);
/* Grants no more credit; existing grants are withdrawn once the senders know. Sends BYE once nothing is held. Senders
 * pass the rest to other peers, or wait for another process. */
void mr_receiver_withdraw(mr_receiver *receiver);
/* Sends BYE to all at once, after pending reports. */
void mr_receiver_close(mr_receiver *receiver, const char *text);
mr_session_counts mr_receiver_counts(const mr_receiver *receiver);

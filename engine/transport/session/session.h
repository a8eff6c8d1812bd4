/* The protocol of cuts: two state machines without sockets, clocks or threads.
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
 * **Sessions.** Messages are numbered per session and direction. A repeated number is ignored; a gap means that a
 * message was lost: the session ends, and the receiver sends HELLO. It also does so if it received nothing for
 * silence_ns, or if its session is STALE, which is the reply to every message of another session. A peer is identified
 * by its node's name. Its incarnation distinguishes a new process from one that reconnects; the older of two is
 * refused.
 *
 * **Credit.** The receiver grants frames and bytes; without both nothing is sent. Credit returns when the graph takes a
 * frame (mr_receiver_take), so it bounds the frames between the sender and the graph. Marks need no credit.
 *
 * **Settlement.** Every item is settled at the sender exactly once, with the outcome of its receipt behind the cut.
 * Until then it counts against the window, which bounds how much the sender retains.
 *
 * **Reliable.** Items that were under way when a session ended are sent again: to the same process once it reconnects
 * (except those that it reports as held), otherwise to any peer that has credit. The receiver passes each frame to its
 * graph once: it remembers the last `memory` identities and their outcomes, over sessions, restarts of the sender, and
 * several senders. If one process of a sender offers two frames of one identity, they are two frames.
 *
 * **Connections** may be open but broken: messages do not arrive, or arrive in part. A receiver that receives garbage,
 * is told that its own messages are garbage, or receives nothing at all for silence_ns, has its connection renewed; if
 * that does not help, again after twice as long, up to the time of ten HELLOs, because an answer that takes longer
 * would otherwise never arrive. It waits as long for a connection that is not established yet: the transport may have
 * given up.
 *
 * **Live.** Nothing is sent again: items under way are dropped as "connection lost", and of packets all up to the next
 * key frame as "gop". Nothing is queued: there is room only if there is credit, so that the link before the cut drops
 * by its own policy. If a stage behind the cut waits for frames by identity (a join), the sender reports how far each
 * source is settled whenever a session begins or resumes, and after further losses, so that the join never waits for
 * frames that do not come. Reliable cuts report this too if they feed live ones: a process that died may have known of
 * losses that it had not reported.
 *
 * **Several receivers** of one cut share the work: the next frames go to the one with the most credit left. If one is
 * lost, the others get its frames. A frame that was under way to a process that died or stalled is sent to the next one
 * alone, with nothing else under way; a frame that was under way to `deaths` processes when they died is set aside
 * (twice as many, if it was never alone). A process counts as dead if a later one has its name, or if its connection
 * was closed and it did not reconnect within silence_ns; it counts as stalled if it has outcomes to report and its
 * progress stood still for stall_ns. Silence alone is not death, and a process that reconnects had not died.
 *
 * **Refused messages.** A receiver that cannot read a message ends the session; the next HELLO reports that. The frames
 * of the first message that it has not received are then sent alone. A frame that was refused `refusals` times is set
 * aside if it was alone the last time, so that it cannot hold up the cut for ever. Live cuts drop it as any other.
 *
 * **End.** END goes to every receiver, also to one that connects later, behind all frames of the source that it gets.
 * While frames are not settled one receiver does not get it, so that one is left to take over frames that others lose.
 *
 * Time is any monotonic clock, in nanoseconds. Feed received messages before the time: otherwise a process that was
 * stopped finds its peers silent. A sender or a receiver is used by one thread at a time.
 *
 * Errors: a peer that breaks the protocol gets REJECT and its session ends; the call returns MR_ERROR_PROTOCOL with a
 * message for the log, and other peers are not affected. MR_ERROR_MEMORY only from _create: all memory is allocated
 * there, bounded by window, memory and peers. */
#pragma once

#include "engine/data/kinds.h"
#include "engine/transport/message.h"

enum { MR_CUT_MOST_PEERS = 64 };
enum { MR_PEER_NAME = 64 }; /* bytes of a name, with the terminating zero; longer ones are refused */

typedef struct mr_session_timing {
    int64_t hello_ns;   /* between two HELLOs */
    int64_t beat_ns;    /* longest time between two messages */
    int64_t silence_ns; /* a peer that is silent for so long is lost; several beats */
    int64_t stall_ns;   /* sender: a peer with pending outcomes and no progress for so long is lost; 0: never */
    int64_t report_ns;  /* receiver: longest delay of an outcome's report */
    int64_t alone_ns;   /* sender: longest time that a suspected frame is under way alone: it may wait for others in a
                           batch */
} mr_session_timing;

/* The parameters that both ends must agree on, and those that each reports about itself. Copied, except strings, which
 * outlive the session. */
typedef struct mr_session_self {
    const char *name;       /* of this node */
    uint64_t incarnation;   /* of this process: the time at which it started will do. Not 0 */
    const char *cut;        /* the link's name, the same at both ends */
    const char *formats;    /* formats of its frames as text, the same at both ends */
    const mr_kinds *kinds;  /* sender: of results that its frames may carry; receiver: that it
                               knows. NULL: none */
    const char *memory;     /* proto: Hello.memory and Welcome.memory; "" without */
    uint8_t digest[MR_DIGEST_BYTES]; /* of the pipeline, the same at both ends */
    size_t source_count;    /* of the pipeline */
    size_t lane_count;      /* of them, those whose frames cross this cut: the number of ENDs */
    mr_session_timing timing;
} mr_session_self;

/* Why a peer is not there (any more). */
typedef enum mr_peer_change {
    MR_PEER_JOINED,   /* a session has begun */
    MR_PEER_BROKEN,   /* messages were lost, or the connection: it is expected back */
    MR_PEER_RESTARTED, /* sender: another process has come in its place */
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
    MR_ACTION_ROUTE,     /* sender: the connection of that number is now that of the peer `of.index`, and the one which
                            was before is a stranger's */
    MR_ACTION_SETTLE,    /* sender: the item is settled with this outcome; the caller owns its frame again */
    MR_ACTION_SET_ASIDE, /* sender: a frame during which processes died, or which they refused; the caller owns it
                            again. It should be kept as a dead letter, and counts as dropped */
    MR_ACTION_SUSPECT,   /* sender, if nothing is set aside: this frame was the first under way to that peer when it
                            died, and to an earlier one, so it may be the cause. For the log; the frame goes on */
    MR_ACTION_RENEW,     /* receiver: the connection to that sender is to be closed, and another one to be made */
    MR_ACTION_NEW_RUN    /* receiver: frames from here on belong to another run; frames in the graph have no sender any
                            more */
} mr_action_kind;

/* An action. It borrows from the session until its next call. */
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
        const char *name;        /* the peer's, also of SUSPECT; "" if it is not known */
        uint64_t incarnation;
        uint32_t index; /* sender, of JOINED and ROUTE: below most_peers, the same as long as that peer may come
                           back */
        uint64_t session;        /* sender: the session that began or ended; 0: none */
        const char *memory;      /* of JOINED: the peer's offer or token of shared memory */
        const char *text;        /* for people */
    } of;               /* PEER, ROUTE */
    uint64_t run;       /* NEW_RUN */
} mr_action;

/* Counters. */
typedef struct mr_session_counts {
    uint64_t frames;      /* sent, or pushed into the graph; each once */
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
    bool reports_lost;       /* a join behind the cut waits for frames that may be lost unseen: see mr_sender_miss */
    const char *consumer;     /* the consuming node: only its processes are admitted, by the name NODE or NODE.0 to one
                                 below NODE.`receivers`; NULL: any name */
    uint32_t receivers;    /* that are planned: it has finished when so many have seen every END */
    uint32_t most_peers;   /* admitted at once; at most MR_CUT_MOST_PEERS */
    uint32_t window_frames; /* not settled; at least 1 */
    uint64_t window_bytes;  /* UINT64_MAX: no bound */
    uint32_t batch_frames; /* of one message at most */
    uint64_t batch_bytes;  /* a message takes no further frame once it has so many */
    uint32_t deaths;       /* a frame that so many had when they died is set aside; 0: never */
    uint32_t refusals;     /* a frame whose message was refused so often is set aside; 0: never */
    const char *stage;     /* stage to which drops are attributed */
} mr_sender_params;

int mr_sender_create(mr_sender **sender, const mr_sender_params *params);
/* Unsettled items are not returned any more: call mr_sender_abandon before. */
void mr_sender_destroy(mr_sender **sender);

/* Whether a frame of so many bytes finds room now. */
bool mr_sender_has_room(const mr_sender *sender, uint64_t bytes);
/* Offers an item. On MR_OK the sender owns the reference to its frame. MR_ERROR_AGAIN: no room, the caller keeps it;
 * there may be room after a settlement or (live) after credit. MR_ERROR_DATA: larger than the whole window. A live cut
 * without peers discards marks other than END. */
int mr_sender_offer(mr_sender *sender, const mr_cut_item *item, int64_t now_ns);
/* A frame of that identity will not be offered. With `reports_lost`, everything that was dropped unseen is reported by
 * one mark for all up to the last of it (engine/data/gap.h): at once, or when a session begins or resumes. */
void mr_sender_miss(mr_sender *sender, const mr_identity *gone);
/* A message was received; `route` is the transport's number for its origin. */
int mr_sender_receive(mr_sender *sender, uint32_t route, const mr_cut_message *message, int64_t now_ns);
/* As mr_receiver_may_receive; if true, *route is the route of that peer. Also false if there is no such session. */
bool mr_sender_may_receive(const mr_sender *sender, uint64_t session, uint64_t number, uint32_t *route);
/* Which of at most `most_peers` receivers has that session; false: none. */
bool mr_sender_knows(const mr_sender *sender, uint64_t session, uint32_t *peer);
/* The received bytes are not a message: counts and answers it. */
void mr_sender_malformed(mr_sender *sender, uint32_t route);
/* A message of that session could not be written: its frames count as refused. */
void mr_sender_unwritten(mr_sender *sender, uint64_t session);
/* The transport saw this connection close. */
void mr_sender_lost(mr_sender *sender, uint32_t route, int64_t now_ns);
/* Sets whether the run begins or continues for the producers of this process. Together with what receivers have
 * delivered this decides what they are told. */
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
/* Every source has ended, everything is settled, `receivers` of them know, and all that are connected were told and
 * have answered: none of them waits for anything more. A peer that is silent for long is not waited for. */
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
    uint32_t memory;        /* identities that are remembered; at least the windows of all senders together */
    bool remembers_all;     /* remembers every settled frame: a sender that was started again begins at the beginning,
                               and its repetitions are absorbed ("done before"). Otherwise only the last `memory` */
    uint32_t report_items;  /* so many outcomes do not wait for more; 0: they only wait for time */
} mr_receiver_params;

int mr_receiver_create(mr_receiver **receiver, const mr_receiver_params *params);
void mr_receiver_destroy(mr_receiver **receiver);

/* If a transport has two ways: false if other messages precede the one of that session and number, so that a gap would
 * be seen. They may still arrive by the other way. */
bool mr_receiver_may_receive(const mr_receiver *receiver, uint32_t sender, uint64_t session, uint64_t number);
/* Whether that is the present session with that sender. */
bool mr_receiver_knows(const mr_receiver *receiver, uint32_t sender, uint64_t session);
/* A message was received from that sender. Of ITEMS, push those that are `fresh` into the graph, in order; the caller
 * owns all frames. On failure none is fresh. */
int mr_receiver_receive(mr_receiver *receiver, uint32_t sender, mr_cut_message *message, int64_t now_ns);
void mr_receiver_malformed(mr_receiver *receiver, uint32_t sender);
/* The transport saw this connection close. */
void mr_receiver_lost(mr_receiver *receiver, uint32_t sender, int64_t now_ns);
/* The transport had no connection to that sender for the last message, and is about to establish one: silence does not
 * count yet. */
void mr_receiver_no_line(mr_receiver *receiver, uint32_t sender);
/* The graph has taken a fresh frame: its credit returns. */
void mr_receiver_take(mr_receiver *receiver, uint64_t ticket);
/* The receipt of a fresh frame has closed. Strings are kept by pointer: they live as long as the receiver. Tickets of
 * settled frames or of another run are ignored. */
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
/* All senders have reported that they need nothing more. A receiver must not leave before that: its reports may have
 * been lost, and no other process could repeat them. */
bool mr_receiver_finished(const mr_receiver *receiver);
/* Grants no more credit; existing grants are withdrawn once the senders know. Sends BYE once nothing is held. Senders
 * pass the rest to other peers, or wait for another process. */
void mr_receiver_withdraw(mr_receiver *receiver);
/* Sends BYE to all at once, behind pending reports. */
void mr_receiver_close(mr_receiver *receiver, const char *text);
mr_session_counts mr_receiver_counts(const mr_receiver *receiver);

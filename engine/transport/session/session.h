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
 * While frames are unsettled one receiver does not get it: that one can take over frames that others lose. Neither end
 * waits for a peer that was given up.
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
    uint64_t peers;       /* that have a session now */
    bool absent;          /* none has a session, and one is needed */
} mr_session_counts;

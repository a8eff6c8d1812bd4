/* Internals that the files of the sender share; see session.h for the protocol.
 *
 * Items are in a ring by position: [base, next). An item is queued (to be sent), leased (sent to a peer, or held by it)
 * or settled; the ring advances over settled items whose action was returned. Peers are kept by name, also while they
 * are down, since the items under way to them stay leased until they are marked dead. */
#pragma once

#include "engine/transport/session/sender.h"

enum { SENDER_EVENTS = 256, SENDER_TEXT = 192 };

typedef enum slot_state { SLOT_SETTLED, SLOT_QUEUED, SLOT_LEASED } slot_state;

typedef struct slot {
    mr_cut_item item;
    mr_settled settled;
    slot_state state;
    bool sent;       /* once at least */
    bool vouched;    /* its peer listed it in a first report */
    bool set_aside;
    uint32_t deaths; /* processes that died while they had it; above 0 it must go alone */
    uint32_t fatal;  /* if nothing is set aside: how many died while they had it first in hand */
    uint32_t peer;   /* LEASED */
    uint64_t had;    /* bit n: peer n has been sent it */
    uint64_t blamed; /* bit n: `deaths` counts peer n's present process */
    uint64_t number; /* LEASED: the message's number */
    uint32_t refused; /* how often its message was refused; above 0 it must have a message alone */
} slot;

typedef struct peer {
    bool used;
    char name[MR_PEER_NAME];
    uint32_t route;
    uint64_t incarnation, attempt;
    uint64_t session;  /* 0: down */
    uint64_t latest;   /* the last one, which may have ended */
    uint32_t version;  /* of the session's messages: the newest that both ends speak */
    bool refused;      /* that ended because the peer could not read a message */
    bool resumed;      /* the first report has come */
    bool withdrawn;
    bool bye_sent;     /* this session needs nothing more from the peer */
    bool left;         /* it has answered that */
    bool closed;       /* while down: the transport saw the connection close */
    uint64_t sent_number, received_number;
    int64_t received_ns, sent_ns;
    uint64_t granted_frames, granted_bytes, used_frames, used_bytes; /* the session's */
    uint32_t leased;        /* frames and marks in hand */
    uint32_t suspects;      /* suspected frames among these */
    int64_t alone_until_ns; /* while it has suspects, and nothing else may follow */
    bool stalled;           /* it gets nothing more before it makes progress, */
    uint64_t stalled_at;    /* from here on */
    uint64_t progress;
    int64_t progress_ns;    /* when it last made progress, or got work after none */
    uint32_t *lane_leased;  /* by source */
    bool *end_sent, *end_confirmed; /* by source, for this incarnation */
    size_t ends_confirmed;
    mr_run_state reported; /* in this session */
} peer;

/* What the processes with one name have delivered, per replica. */
typedef struct served {
    uint64_t incarnation; /* the last process that delivered anything; 0: none */
    bool earlier;         /* another one before it had */
    bool given_up;        /* it will not come back */
} served;

typedef struct lane {
    bool ended;
    const char *reason;
    uint32_t queued, unsettled; /* items */
    bool waits_for_key;         /* live: packets are useless until the next key frame */
    mr_identity gone;           /* the last settled identity, as a mark `lost` */
    bool known, loss_pending;           /* there is that; it may be news to receivers */
    bool away;                  /* the last item that was offered is the mark away */
    uint64_t made_by;           /* which process made what comes; with `renewed` or `passes` */
    uint32_t consumer;             /* index: the peer that was sent the last item */
} lane;

/* A queued action, of the kinds that cannot be derived from state: PEER, and all messages but items and beats. */
typedef struct event {
    mr_action action;
    char name[MR_PEER_NAME], memory[SENDER_TEXT], text[SENDER_TEXT];
} event;

/* Processes whose refusal was reported. */
enum { SENDER_REFUSED_KEPT = 16 };
typedef struct refusal {
    uint64_t incarnation;
    mr_reject_reason reason;
} refusal;

struct mr_sender {
    mr_sender_params params;
    slot *ring;
    uint64_t room, base, next; /* room: a power of two */
    uint64_t first_queued;     /* nothing before it is queued */
    uint32_t frames, queued_frames;   /* unsettled, and how many among these are queued */
    uint64_t bytes, queued_bytes;
    uint64_t *settled;         /* positions whose action must still be returned; a ring with `room` entries */
    uint64_t settled_first, settled_count;
    peer *peers;
    lane *lanes;
    size_t lanes_ended;
    uint32_t losses_pending;            /* lanes with a pending loss report */
    event *events;
    uint32_t event_first, event_count;
    refusal refused[SENDER_REFUSED_KEPT];
    uint32_t refused_turn;
    mr_cut_item *batch;
    uint64_t last_session;
    mr_run_state before; /* this process's producers */
    served *served;      /* by the receiving node's replica */
    uint32_t given_up;   /* how many of those were */
    uint64_t newest;     /* the last process of the consumer, or with `passes` of the node that makes the items */
    int64_t suspect_since_ns;  /* since when the first queued frame, a suspected one, waits for an idle peer; 0: it does
                                  not */
    int64_t now_ns;            /* as last reported */
    bool abandoned;            /* nothing is sent any more */
    bool closing;
    mr_session_counts counts;
};

static inline slot *slot_at(const mr_sender *sender, uint64_t position) {
    return &sender->ring[position & (sender->room - 1)];
}

static inline bool is_there(const peer *p) {
    return p->used && p->session && p->resumed;
}

/* How long to wait for a peer when everything is done: it may be lost and about to return. */
static inline int64_t patience_ends_ns(const mr_sender *sender, const peer *p) {
    return p->received_ns + 3 * sender->params.self.timing.silence_ns;
}

static inline uint32_t index_of(const mr_sender *sender, const peer *p) {
    return (uint32_t)(p - sender->peers);
}

/* ---- sender.c: settling items ------------------------------------------------------------------------------------ */

/* Another process of the consumer has come. */
void mr_sender_note_consumer(mr_sender *sender, uint64_t incarnation);
/* Every source has ended, everything is settled, and as many receivers as are planned know. */
bool mr_sender_is_done(const mr_sender *sender);
/* Drops queued items that no receiver can take any more, since one was given up. */
void mr_sender_drop_orphans(mr_sender *sender);
/* Settles an item that is not; a suspicion goes with it. */
void mr_sender_settle(mr_sender *sender, uint64_t position, mr_note outcome, const char *stage, const char *reason);
/* Leases a queued item to a peer. */
void mr_sender_lease(mr_sender *sender, uint64_t position, peer *p);
/* Takes an item back from a peer, to send it again. A live cut drops it. */
void mr_sender_take_back(mr_sender *sender, uint64_t position);
/* All that a peer has in hand goes back. With `died`, those that are under suspicion, or else all, are suspected once
 * more, and set aside where that was once too often. */
void mr_sender_mark_dead(mr_sender *sender, peer *p, bool died);

/* Handles the first message that the peer refused: its frames are sent alone. A frame that was already alone is set
 * aside once it reaches the limit. */
void mr_sender_accuse_refused(mr_sender *sender, const peer *p);

/* A process that was taken for dead reconnected: the frames under way to it are not the cause. */
void mr_sender_clear(mr_sender *sender, const peer *p);

/* Receivers may not know any source's gaps. */
void mr_sender_schedule_loss_reports(mr_sender *sender);
/* Queues marks for pending loss reports, if a peer is connected. */
void mr_sender_queue_loss_reports(mr_sender *sender);

/* ---- sender_send.c ----------------------------------------------------------------------------------------------- */

/* Whether a peer is connected that was not sent the end of the source. */
bool mr_sender_anybody_open(const mr_sender *sender, size_t source);

/* ---- sender_peers.c: sessions ------------------------------------------------------------------------------------ */

/* Applies timeouts: silent, stalled and dead peers. */
void mr_sender_look_at_peers(mr_sender *sender, int64_t now_ns);
/* A new event with this kind and peer; never NULL: with no room for more, the last one is overwritten. */
event *mr_sender_event(mr_sender *sender, mr_action_kind kind, uint32_t route);
/* Whether the run begins or continues for that peer. */
mr_run_state mr_sender_run_state(const mr_sender *sender, const peer *p);
/* The receiving node's replica with this name. 0 if the node has one process. */
uint32_t mr_sender_replica_of(const mr_sender *sender, const char *name);
/* A WELCOME to the present session. */
void mr_sender_welcome(mr_sender *sender, peer *p, mr_action *action);
/* Writes a numbered message's header for a peer. */
void mr_sender_address(mr_sender *sender, peer *p, mr_message_kind kind, mr_action *action);

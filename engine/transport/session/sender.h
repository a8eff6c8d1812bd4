/* Internals that the files of the sender share; see session.h for the protocol.
 *
 * Items are in a ring by position: [base, next). An item is queued (to be sent), leased (sent to a peer, or held by it)
 * or settled; the ring advances over settled items whose action was returned. Peers are kept by name, also while they
 * are down, since the items under way to them stay leased until they are marked dead. */
#pragma once

#include "engine/transport/session/session.h"

enum { SENDER_EVENTS = 256, SENDER_TEXT = 192 };

typedef enum slot_state { SLOT_SETTLED, SLOT_QUEUED, SLOT_LEASED } slot_state;

typedef struct slot {
    mr_cut_item item;
    mr_settled settled;
    slot_state state;
    bool sent;       /* once at least */
    bool vouched;    /* in a first report: its peer has it */
    bool set_aside;
    uint32_t deaths; /* of processes that had it in hand; above 0 it goes alone */
    uint32_t fatal;  /* if nothing is set aside: of processes that had it first in hand */
    uint32_t peer;   /* LEASED */
    uint64_t had;    /* bit n: peer n has been sent it */
    uint64_t blamed; /* bit n: of `deaths`, one is that of peer n as it is known now */
    uint64_t number; /* LEASED: of its message */
    uint32_t refused; /* how often its message was; above 0 it has a message of its own */
} slot;

typedef struct peer {
    bool used;
    char name[MR_PEER_NAME];
    uint32_t route;
    uint64_t incarnation, attempt;
    uint64_t session;  /* 0: down */
    uint64_t latest;   /* the last one, which may have ended */
    bool refused;      /* that ended because the peer could not read a message */
    bool resumed;      /* its first report has come */
    bool withdrawn;
    bool bye_sent;     /* in this session: nothing more is wanted of it */
    bool left;         /* it has answered that */
    bool closed;       /* while down: the transport saw the connection close */
    uint64_t sent_number, received_number;
    int64_t received_ns, sent_ns;
    uint64_t granted_frames, granted_bytes, used_frames, used_bytes; /* of the session */
    uint32_t leased;        /* frames and marks in hand */
    uint32_t suspects;      /* of them, frames under suspicion */
    int64_t alone_until_ns; /* while it has suspects, and nothing else may follow */
    bool stalled;           /* it gets nothing more before it makes progress, */
    uint64_t stalled_at;    /* from here on */
    uint64_t progress;
    int64_t progress_ns;    /* time of the last progress, or when it got work after none */
    uint32_t *lane_leased;  /* by source */
    bool *end_sent, *end_confirmed; /* by source; of this incarnation */
    size_t ends_confirmed;
    mr_run_state reported; /* in this session */
} peer;

/* The frames that the processes of one name have delivered, per replica. */
typedef struct served {
    uint64_t incarnation; /* of the last process that delivered anything; 0: none */
    bool earlier;         /* another one before it had */
} served;

typedef struct lane {
    bool ended;
    const char *reason;
    uint32_t queued, unsettled; /* items */
    bool waits_for_key;         /* live: packets are of no use before the next key frame */
    mr_identity gone;           /* the last settled identity, as a mark `lost` */
    bool known, loss_pending;           /* there is that; it may be news to receivers */
    bool away;                  /* the last item that was offered is the mark away */
    uint32_t consumer;             /* index of the peer that was sent its last item */
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
    uint32_t frames, queued_frames;   /* not settled; of them queued */
    uint64_t bytes, queued_bytes;
    uint64_t *settled;         /* positions whose action was not yet returned; a ring of `room` */
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
    mr_run_state before; /* run state of the producers of this process */
    served *served;      /* by replica of the receiving node */
    int64_t suspect_since_ns;  /* since when the first queued frame, a suspected one, waits for an idle peer; 0: it does
                                  not */
    int64_t now_ns;            /* as last reported */
    bool closing;
    mr_session_counts counts;
};

static inline slot *slot_at(const mr_sender *sender, uint64_t position) {
    return &sender->ring[position & (sender->room - 1)];
}

static inline bool is_there(const peer *p) {
    return p->used && p->session && p->resumed;
}

/* How long a peer is waited for when all is done: it may be lost and on its way back. */
static inline int64_t patience_ends_ns(const mr_sender *sender, const peer *p) {
    return p->received_ns + 3 * sender->params.self.timing.silence_ns;
}

static inline uint32_t index_of(const mr_sender *sender, const peer *p) {
    return (uint32_t)(p - sender->peers);
}

/* ---- sender.c: settling items ------------------------------------------------------------------------------------ */

/* Every source has ended, everything is settled, and as many receivers as are planned know. */
bool mr_sender_is_done(const mr_sender *sender);
/* Settles an item that is not; a suspicion goes with it. */
void mr_sender_settle(mr_sender *sender, uint64_t position, mr_note outcome, const char *stage, const char *reason);
/* Leases a queued item to a peer. */
void mr_sender_lease(mr_sender *sender, uint64_t position, peer *p);
/* Takes an item from its peer, to be sent again; a live cut drops it. */
void mr_sender_take_back(mr_sender *sender, uint64_t position);
/* All that a peer has in hand goes back. With `died`, those that are under suspicion, or else all, are suspected once
 * more, and set aside where that was once too often. */
void mr_sender_mark_dead(mr_sender *sender, peer *p, bool died);

/* The first message that a peer did not receive, which it refused: its frames are sent alone, and one that was alone
 * already is set aside where that was once too often. */
void mr_sender_accuse_refused(mr_sender *sender, const peer *p);

/* A process that was taken for dead reconnected: the frames under way to it are not the cause. */
void mr_sender_clear(mr_sender *sender, const peer *p);

/* Receivers may not know the gaps of any source. */
void mr_sender_schedule_loss_reports(mr_sender *sender);
/* Queues the marks of pending loss reports, if a peer is connected. */
void mr_sender_queue_loss_reports(mr_sender *sender);

/* ---- sender_send.c ----------------------------------------------------------------------------------------------- */

/* Whether a peer is connected that was not sent the end of the source. */
bool mr_sender_anybody_open(const mr_sender *sender, size_t source);

/* ---- sender_peers.c: sessions ------------------------------------------------------------------------------------ */

/* Applies timeouts: silent, stalled and dead peers. */
void mr_sender_look_at_peers(mr_sender *sender, int64_t now_ns);
/* A new event with this kind and peer; never NULL: with no room for more, the last one is overwritten. */
event *mr_sender_event(mr_sender *sender, mr_action_kind kind, uint32_t route);
/* Whether the run begins or goes on for that peer. */
mr_run_state mr_sender_run_state(const mr_sender *sender, const peer *p);
/* A WELCOME to the present session. */
void mr_sender_welcome(mr_sender *sender, peer *p, mr_action *action);
/* The header of a numbered message to a peer. */
void mr_sender_address(mr_sender *sender, peer *p, mr_message_kind kind, mr_action *action);

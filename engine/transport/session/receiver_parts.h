/* Internals that the files of the receiver share; see session.h for the protocol.
 *
 * Frames and marks that arrived are entries in a table. An entry is held while the graph works on it. Later it stays
 * with its outcome until another entry needs the slot. An entry records the position under which each sender sent it (a
 * claim); every sender gets the outcome. If the whole run is remembered (mr_receiver_params.remembers_all), a frame
 * that loses its slot enters a set of identities. */
#pragma once

#include "engine/data/identity_set.h"
#include "engine/transport/session/receiver.h"

enum { RECEIVER_EVENTS = 128, RECEIVER_TEXT = 192, NOWHERE = -1 };

typedef enum entry_state { ENTRY_FREE, ENTRY_HELD, ENTRY_SETTLED } entry_state;

typedef struct entry {
    entry_state state;
    mr_cut_kind kind;
    mr_identity identity;
    bool taken;          /* the graph has it; credit came back */
    uint32_t sender;     /* that gave the copy which went to the graph */
    uint64_t bytes;
    uint32_t generation; /* counts uses of the slot; part of tickets */
    mr_note outcome;
    const char *stage, *reason;
    int32_t next;        /* in the bucket, or among free ones */
    int32_t later;       /* settled after it */
} entry;

typedef enum sender_state { SENDER_AWAY, SENDER_THERE, SENDER_REFUSED, SENDER_LEFT, SENDER_GIVEN_UP } sender_state;

/* One process that sends, as it is seen here. */
typedef struct origin {
    sender_state state;
    mr_reject_reason refused_for; /* REFUSED */
    uint64_t attempt, answered; /* the last HELLO; the last one before the last session */
    uint64_t incarnation, session;
    uint64_t made_by;      /* which process of another node made what comes; 0: not known */
    uint32_t version;      /* of the session's messages, as the sender has chosen */
    uint64_t refused;      /* the session that ended because a message was malformed; 0: none */
    uint64_t sent_number, received_number;
    int64_t hello_ns;      /* when to send the next HELLO */
    int64_t received_ns, sent_ns;
    int64_t line_ns;       /* when anything came over the connection, or that was made; 0: never */
    int64_t renewed_ns;    /* when it was renewed last */
    uint32_t renewals;     /* how often since anything came */
    int64_t without_ns;    /* since when HELLO is sent without a connection; 0: connected */
    int64_t before_ns;     /* that, before the last HELLO */
    bool spoilt;           /* garbage goes over it */
    uint64_t used_frames, used_bytes, granted_frames, granted_bytes; /* this session's */
    uint64_t reported_frames, reported_bytes; /* the grant's part that was reported */
    uint64_t untaken_frames, untaken_bytes; /* in the graph's queue, from any session */
    mr_settled *pending;   /* to be reported */
    size_t pending_count;
    uint64_t pending_items;
    int64_t pending_ns;    /* since when there is something to report */
    bool urgent;           /* something that is not to wait */
    bool bye;              /* pending: the sender needs nothing more */
    bool *ended;           /* by source: nothing more comes from this sender */
    bool *end_received;       /* by source: the present process sent END, as is reported */
    bool ends_changed;
    mr_run_state run_state; /* as first reported; later processes do not change it */
} origin;

typedef struct receiver_event {
    mr_action action;
    char text[RECEIVER_TEXT], memory[RECEIVER_TEXT];
} receiver_event;

struct mr_receiver {
    mr_receiver_params params;
    entry *table;
    uint64_t *claims;     /* places x senders: positions; 0: none */
    int32_t *bucket;
    uint32_t places, buckets;
    int32_t free, oldest, newest; /* the settled ones, in the order in which they were */
    uint32_t held;        /* frames */
    mr_identity_set settled; /* frames that have lost a slot */
    bool forgets;         /* the set is full */
    origin *origins;
    uint32_t *ended;      /* the report's list */
    receiver_event *events;
    uint32_t event_first, event_count;
    uint64_t run, progress, work;
    int64_t now_ns;
    bool withdrawn, closing;
    char closing_text[RECEIVER_TEXT];
    mr_session_counts counts;
};

/* Whether HELLO is sent from time to time. If a sender has left, or has refused this end, another process may replace
 * it; but a process that was replaced must not reconnect. */
static inline bool receiver_asks(const origin *from) {
    return from->state == SENDER_AWAY || from->state == SENDER_LEFT ||
           (from->state == SENDER_REFUSED && from->refused_for != MR_REJECT_REPLACED);
}

static inline uint64_t *claim_of(mr_receiver *receiver, int32_t place, uint32_t sender) {
    return &receiver->claims[(size_t)place * receiver->params.senders + sender];
}

/* ---- receiver.c: the table of identities ------------------------------------------------------------------------- */

/* The entry that an item from that sender is one more copy of; NOWHERE: it is new. */
int32_t mr_receiver_table_find(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender);
/* A held entry for an item; NOWHERE: all places are held. Evicts the oldest settled entry if none is free. */
int32_t mr_receiver_table_add(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender);
/* From held to settled. */
void mr_receiver_table_settle(mr_receiver *receiver, int32_t place, mr_note outcome, const char *stage,
                              const char *reason);
/* Forgets all frames and marks that are settled. */
void mr_receiver_table_forget_settled(mr_receiver *receiver);
/* Another process is the sender now, with other positions. */
void mr_receiver_table_forget_claims(mr_receiver *receiver, uint32_t sender);
/* Forgets everything: tickets mean nothing any more. */
void mr_receiver_table_clear(mr_receiver *receiver);

/* ---- receiver.c -------------------------------------------------------------------------------------------------- */

/* Adds a range to the next report, joined to the last one if it continues it. False: no room. */
bool mr_receiver_report(mr_receiver *receiver, origin *from, const mr_settled *range);

/* ---- receiver_input.c -------------------------------------------------------------------------------------------- */

/* Ends the session: HELLO again, at once unless one was sent just before. */
void mr_receiver_break(mr_receiver *receiver, origin *from, mr_peer_change change, const char *text);

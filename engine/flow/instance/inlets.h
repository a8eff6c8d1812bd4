/* An instance's inlets: one input link for each port, and items popped but not yet used. Any thread may use the links;
 * the rest needs the instance's lock. Only inlets.c and the functions below may touch the fields. Internal to the
 * engine. */
#pragma once

#include "engine/flow/link/link.h"
#include "engine/plan/plan_data.h"

enum { MR_BURST = 16, MR_MAX_PORTS = MR_SPEC_MAX_PORTS };

/* The frame whose objects a gathering stage took last, and how many. */
typedef struct mr_objects_taken {
    mr_identity frame;
    uint32_t count;
} mr_objects_taken;

typedef struct mr_inlets {
    size_t port_count, source_count;
    mr_link **links;         /* by port */
    mr_item inbox[MR_BURST]; /* popped from the only port, not yet in a slot */
    size_t inbox_first, inbox_count, burst;
    bool held_up;            /* the last pop found frames without room downstream */
    int64_t due_ns;          /* when the gathering batch must leave; INT64_MAX: not set */
    size_t turn;             /* several ports: the source to try first */
    bool *away;              /* several ports, by source: every port is away (gap.h), and stages downstream know */
    mr_objects_taken *gathered;   /* several ports, by source */
} mr_inlets;

/* Links are set later. MR_ERROR_MEMORY. */
int mr_inlets_create(mr_inlets *inlets, size_t port_count, size_t source_count);
/* Destroys the links too. */
void mr_inlets_destroy(mr_inlets *inlets);
/* Resets the state. There must be no items. */
void mr_inlets_renew(mr_inlets *inlets);
static inline size_t mr_inlets_count(const mr_inlets *inlets) {
    return inlets->port_count;
}
/* Whether the instance is a join. */
static inline bool mr_inlets_join(const mr_inlets *inlets) {
    return inlets->port_count > 1;
}
static inline mr_link *mr_inlets_link(const mr_inlets *inlets, size_t port) {
    return inlets->links[port];
}
/* Takes ownership of the link. */
static inline void mr_inlets_set_link(mr_inlets *inlets, size_t port, mr_link *link) {
    inlets->links[port] = link;
}

/* ---- one port: items are popped several at once ------------------------------------------------------------------ */

/* How many items to pop at once, unless the call takes more. */
static inline void mr_inlets_set_burst(mr_inlets *inlets, size_t burst) {
    inlets->burst = burst;
}
/* Returns the first item, or NULL, for a call that takes `wanted`. `claim` must permit each frame
 * (mr_link_pop_claimed); it may be NULL. */
static inline mr_item *mr_inlets_first(mr_inlets *inlets, size_t wanted, mr_link_claim *claim, void *context) {
    if (!inlets->inbox_count) {
        size_t count = wanted > inlets->burst ? wanted : inlets->burst;
        count = count > MR_BURST ? MR_BURST : count;
        inlets->inbox_first = 0;
        inlets->held_up = false;
        inlets->inbox_count = claim ? mr_link_pop_claimed(inlets->links[0], inlets->inbox, count, claim, context)
                                    : mr_link_pop(inlets->links[0], inlets->inbox, count);
    }
    return inlets->inbox_count ? &inlets->inbox[inlets->inbox_first] : NULL;
}
/* The first item now belongs to the caller. */
static inline void mr_inlets_take(mr_inlets *inlets) {
    inlets->inbox_first++;
    inlets->inbox_count--;
}
/* Notes that a frame cannot be taken because there is no room downstream; and whether the last pop found such a
 * frame. */
static inline void mr_inlets_hold_up(mr_inlets *inlets) {
    inlets->held_up = true;
}
static inline bool mr_inlets_are_held_up(const mr_inlets *inlets) {
    return inlets->held_up;
}
/* When the gathering batch must leave: the first call sets the time. mr_inlets_end_batch: it has left. */
static inline int64_t mr_inlets_due_ns(mr_inlets *inlets, int64_t now_ns, int64_t timeout_ns) {
    if (inlets->due_ns == INT64_MAX)
        inlets->due_ns = now_ns + timeout_ns;
    return inlets->due_ns;
}
static inline void mr_inlets_end_batch(mr_inlets *inlets) {
    inlets->due_ns = INT64_MAX;
}

/* ---- several ports: sources take turns --------------------------------------------------------------------------- */

/* The source to try at attempt `i`, as an index into the instance's sources. mr_inlets_end_turn: that source was
 * served. */
static inline size_t mr_inlets_turn(const mr_inlets *inlets, size_t i) {
    return (inlets->turn + i) % inlets->source_count;
}
static inline void mr_inlets_end_turn(mr_inlets *inlets, size_t turn) {
    inlets->turn = (turn + 1) % inlets->source_count;
}
/* Notes whether every port is away for a source. True if this is new, so stages downstream must be informed. */
static inline bool mr_inlets_note_away(mr_inlets *inlets, size_t turn, bool away) {
    const bool news = away && !inlets->away[turn];
    inlets->away[turn] = away;
    return news;
}
static inline bool mr_inlets_is_gathered(const mr_objects_taken *last, const mr_identity *of) {
    return last->frame.epoch == of->epoch && last->frame.seq == of->seq;
}
/* An object was taken, or is known to be absorbed. Objects of a frame come one after the other. */
static inline void mr_inlets_note_object(mr_inlets *inlets, size_t turn, const mr_identity *object) {
    mr_objects_taken *last = &inlets->gathered[turn];
    last->count = mr_inlets_is_gathered(last, object) ? last->count + 1 : 1;
    last->frame = *object;
}
/* How many objects of the frame that were. */
static inline uint32_t mr_inlets_objects(const mr_inlets *inlets, size_t turn, const mr_identity *frame) {
    const mr_objects_taken *last = &inlets->gathered[turn];
    return mr_inlets_is_gathered(last, frame) ? last->count : 0;
}

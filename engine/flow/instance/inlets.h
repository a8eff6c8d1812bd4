/* The inlets of an instance: its input links, one a port, and what was popped from them or is known of them. The links
 * are any thread's; the rest is under the instance's lock. Its fields are read and written by inlets.c and the
 * functions below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_INLETS_H
#define MILLRACE_FLOW_INSTANCE_INLETS_H

#include "engine/flow/link/link.h"
#include "engine/plan/plan_data.h"

enum { MR_BURST = 16, MR_MAX_PORTS = MR_SPEC_MAX_PORTS };

typedef struct mr_inlets {
    size_t port_count, source_count;
    mr_link **links;         /* by port */
    mr_item inbox[MR_BURST]; /* popped from the only port, not yet in a slot */
    size_t inbox_first, inbox_count, burst;
    bool held_up;            /* the last look at the link found frames without room behind this stage */
    int64_t due_ns;          /* when the batch that is gathered leaves; INT64_MAX: not set */
    size_t turn;             /* of several ports: the source that is tried first */
    bool *away;              /* likewise, by source: every port is away (gap.h), and the stages behind know */
} mr_inlets;

/* For sources of that number, with no links yet. MR_ERROR_MEMORY. */
int mr_inlets_create(mr_inlets *inlets, size_t port_count, size_t source_count);
/* With the links. */
void mr_inlets_destroy(mr_inlets *inlets);
/* Nothing is there: all begins anew. */
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
/* Takes the link over. */
static inline void mr_inlets_set_link(mr_inlets *inlets, size_t port, mr_link *link) {
    inlets->links[port] = link;
}

/* ---- one port: items are popped several at once ------------------------------------------------------------------ */

/* The most items that are popped at once, as far as the call does not take more. */
static inline void mr_inlets_set_burst(mr_inlets *inlets, size_t burst) {
    inlets->burst = burst;
}
/* The first item, NULL if there is none, for a call that takes `wanted`. `claim`, which may be NULL, permits each frame
 * (mr_link_pop_claimed). */
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
/* The first item is the caller's now. */
static inline void mr_inlets_take(mr_inlets *inlets) {
    inlets->inbox_first++;
    inlets->inbox_count--;
}
/* A frame may not be taken, since there is no room for it behind this stage; and whether that was so at the last pop.
 */
static inline void mr_inlets_hold_up(mr_inlets *inlets) {
    inlets->held_up = true;
}
static inline bool mr_inlets_are_held_up(const mr_inlets *inlets) {
    return inlets->held_up;
}
/* When the batch that is gathered leaves: the first call sets the time. mr_inlets_end_batch: it has left. */
static inline int64_t mr_inlets_due_ns(mr_inlets *inlets, int64_t now_ns, int64_t timeout_ns) {
    if (inlets->due_ns == INT64_MAX)
        inlets->due_ns = now_ns + timeout_ns;
    return inlets->due_ns;
}
static inline void mr_inlets_end_batch(mr_inlets *inlets) {
    inlets->due_ns = INT64_MAX;
}

/* ---- several ports: sources take turns --------------------------------------------------------------------------- */

/* The source to be tried at attempt `i`, by its place among those of the instance; and that it was served. */
static inline size_t mr_inlets_turn(const mr_inlets *inlets, size_t i) {
    return (inlets->turn + i) % inlets->source_count;
}
static inline void mr_inlets_end_turn(mr_inlets *inlets, size_t turn) {
    inlets->turn = (turn + 1) % inlets->source_count;
}
/* Whether every port is away for a source. True if that is new, and the stages behind do not know. */
static inline bool mr_inlets_note_away(mr_inlets *inlets, size_t turn, bool away) {
    const bool news = away && !inlets->away[turn];
    inlets->away[turn] = away;
    return news;
}

#endif

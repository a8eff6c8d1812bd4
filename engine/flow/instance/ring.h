/* The ring of slots of an instance: which call has which slot, and how far it is. Under the instance's lock. Its fields
 * are read and written by ring.c and the functions below alone.
 *
 *     freed <= pushed <= claimed: the slots before `freed` are free for the next calls. The calls before `pushed` have
 *     pushed their outputs.
 *
 * A slot that is pushed may be released before older ones, and waits in the ring for those. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_RING_H
#define MILLRACE_FLOW_INSTANCE_RING_H

#include "engine/flow/instance/slot.h"

typedef struct mr_ring {
    size_t in_flight;        /* slots that may hold anything at once: the plan sizes pools for this number */
    size_t slot_count;       /* at least as many; a power of two */
    mr_slot *slots;
    uint64_t freed, pushed, claimed; /* slots, ever */
    uint64_t released;       /* slots, ever, that hold nothing any more; at least those that are freed */
} mr_ring;

/* `reordered`: slots that may wait for older ones. `frames`: the most of one call. MR_ERROR_MEMORY. */
int mr_ring_create(mr_ring *ring, size_t in_flight, size_t reordered, size_t frames);
void mr_ring_destroy(mr_ring *ring);
/* No call is under way: it begins anew. */
void mr_ring_renew(mr_ring *ring);
/* Tries to release each slot, with the oldest first; `all`: also those behind one that cannot be. */
typedef bool mr_ring_release(void *context, mr_slot *slot);
static inline void mr_ring_free(mr_ring *ring, bool all, mr_ring_release *release, void *context) {
    bool done = true;
    for (uint64_t n = ring->freed; n < ring->claimed && (done || all); n++) {
        mr_slot *slot = &ring->slots[n & (ring->slot_count - 1)];
        const bool held = slot->state != MR_SLOT_FREE;
        done = !held || release(context, slot);
        ring->released += held && done;
        ring->freed += done && n == ring->freed;
    }
}
/* If no slot can be claimed since all hold calls that have pushed their outputs: the oldest. Else NULL. */
const mr_slot *mr_ring_holding(const mr_ring *ring);
/* Final ends among the marks of calls that have not been pushed, up to `slot` and, there, its next mark. */
size_t mr_ring_ends_before(const mr_ring *ring, const mr_slot *slot);

static inline mr_slot *mr_ring_at(const mr_ring *ring, uint64_t number) {
    return &ring->slots[number & (ring->slot_count - 1)];
}
/* No call is under way. */
static inline bool mr_ring_is_empty(const mr_ring *ring) {
    return ring->freed == ring->claimed;
}
/* The calls so far. */
static inline uint64_t mr_ring_calls(const mr_ring *ring) {
    return ring->claimed;
}
/* The slot of the next call; NULL: none is free. The call begins with mr_ring_claim. */
static inline mr_slot *mr_ring_next(const mr_ring *ring) {
    const bool full =
        ring->claimed - ring->released == ring->in_flight || ring->claimed - ring->freed == ring->slot_count;
    return full ? NULL : mr_ring_at(ring, ring->claimed);
}
static inline void mr_ring_claim(mr_ring *ring) {
    mr_ring_at(ring, ring->claimed++)->state = MR_SLOT_RUNNING;
}
/* The oldest call whose outputs have not been pushed; NULL: there is none. mr_ring_push: now they are. */
static inline mr_slot *mr_ring_unpushed(const mr_ring *ring) {
    return ring->pushed < ring->claimed ? mr_ring_at(ring, ring->pushed) : NULL;
}
static inline void mr_ring_push(mr_ring *ring) {
    mr_ring_at(ring, ring->pushed++)->state = MR_SLOT_HELD;
}
/* The oldest call that is not done; NULL: there is none. */
static inline mr_slot *mr_ring_running(const mr_ring *ring) {
    uint64_t n = ring->pushed;
    while (n < ring->claimed && mr_ring_at(ring, n)->state != MR_SLOT_RUNNING)
        n++;
    return n < ring->claimed ? mr_ring_at(ring, n) : NULL;
}

#endif

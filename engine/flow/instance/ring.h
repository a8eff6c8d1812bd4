/* The ring of slots: which call has which slot, and how far it is. Needs the instance's lock. Only ring.c and the
 * functions below may touch the fields.
 *
 *     freed <= pushed <= claimed: the slots before `freed` are free for the next calls. The calls before `pushed` have
 *     pushed their outputs.
 *
 * A pushed slot can be released before older ones; it then waits for them in the ring. Internal to the engine. */
#pragma once

#include "engine/flow/instance/slot.h"

typedef struct mr_ring {
    size_t in_flight;        /* slots that can hold anything at once: the plan sizes pools for this */
    size_t slot_count;       /* at least in_flight; a power of two */
    mr_slot *slots;
    uint64_t freed, pushed, claimed; /* total slots so far */
    uint64_t released;       /* total slots that hold nothing any more; never less than `freed` */
} mr_ring;

/* `reordered`: slots that may wait for older ones. `frames`: the most in one call. MR_ERROR_MEMORY. */
int mr_ring_create(mr_ring *ring, size_t in_flight, size_t reordered, size_t frames);
void mr_ring_destroy(mr_ring *ring);
/* Resets the ring. No call may be under way. */
void mr_ring_renew(mr_ring *ring);
/* Tries to release each slot, oldest first. `all`: continues after one that cannot be released. */
typedef bool mr_ring_release(void *context, mr_slot *slot);
static inline void mr_ring_free(mr_ring *ring, bool all, mr_ring_release *release, void *context) {
    for (uint64_t n = ring->freed; n < ring->claimed; n++) {
        mr_slot *slot = &ring->slots[n & (ring->slot_count - 1)];
        if (slot->state != MR_SLOT_FREE) {
            if (release(context, slot))
                ring->released++;
            else if (all)
                continue;
            else
                return;
        }
        ring->freed += n == ring->freed;
    }
}
/* The oldest slot, if no slot can be claimed because each holds a call that has pushed all outputs; otherwise NULL. */
const mr_slot *mr_ring_holding(const mr_ring *ring);
/* Counts final ends among the marks in calls not yet pushed, up to the next mark in `slot`. */
size_t mr_ring_ends_before(const mr_ring *ring, const mr_slot *slot);

static inline mr_slot *mr_ring_at(const mr_ring *ring, uint64_t number) {
    return &ring->slots[number & (ring->slot_count - 1)];
}
/* Whether no call is under way. */
static inline bool mr_ring_is_empty(const mr_ring *ring) {
    return ring->freed == ring->claimed;
}
/* The number of calls so far. */
static inline uint64_t mr_ring_calls(const mr_ring *ring) {
    return ring->claimed;
}
/* The slot for the next call; NULL: none is free. mr_ring_claim begins the call with it. */
static inline mr_slot *mr_ring_next(const mr_ring *ring) {
    const bool full =
        ring->claimed - ring->released == ring->in_flight || ring->claimed - ring->freed == ring->slot_count;
    return full ? NULL : mr_ring_at(ring, ring->claimed);
}
static inline void mr_ring_claim(mr_ring *ring, mr_slot *slot) {
    ring->claimed++;
    slot->state = MR_SLOT_RUNNING;
}
/* The oldest call that has not pushed all outputs; NULL: none. mr_ring_push marks its slot as pushed. */
static inline mr_slot *mr_ring_unpushed(const mr_ring *ring) {
    return ring->pushed < ring->claimed ? mr_ring_at(ring, ring->pushed) : NULL;
}
static inline void mr_ring_push(mr_ring *ring, mr_slot *slot) {
    ring->pushed++;
    slot->state = MR_SLOT_HELD;
}
/* The oldest call still running; NULL: none. */
static inline mr_slot *mr_ring_running(const mr_ring *ring) {
    uint64_t n = ring->pushed;
    while (n < ring->claimed && mr_ring_at(ring, n)->state != MR_SLOT_RUNNING)
        n++;
    return n < ring->claimed ? mr_ring_at(ring, n) : NULL;
}

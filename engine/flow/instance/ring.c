#include "engine/flow/instance/ring.h"

#include "engine/base/memory.h"
#include "millrace/status.h"

static size_t power_of_two(size_t least) {
    size_t power = 1;
    while (power < least)
        power *= 2;
    return power;
}

int mr_ring_create(mr_ring *ring, size_t in_flight, size_t reordered, size_t frames) {
    ring->in_flight = in_flight;
    ring->slot_count = power_of_two(in_flight + reordered);
    ring->slots = mr_calloc(ring->slot_count, sizeof *ring->slots);
    int status = ring->slots ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; !status && i < ring->slot_count; i++)
        status = mr_slot_create(&ring->slots[i], frames);
    return status;
}

void mr_ring_destroy(mr_ring *ring) {
    for (size_t i = 0; ring->slots && i < ring->slot_count; i++)
        mr_slot_destroy(&ring->slots[i]);
    mr_free(ring->slots);
    ring->slots = NULL;
}

void mr_ring_renew(mr_ring *ring) {
    ring->freed = ring->pushed = ring->claimed = ring->released = 0;
}

const mr_slot *mr_ring_holding(const mr_ring *ring) {
    const bool free = ring->freed == ring->pushed || ring->claimed - ring->released < ring->in_flight;
    return free ? NULL : mr_ring_at(ring, ring->freed);
}

static size_t final_ends(const mr_slot *slot, size_t marks) {
    size_t ends = 0;
    for (size_t i = 0; i < marks; i++)
        ends += slot->marks[i].kind == MR_ITEM_END && !slot->marks[i].leaves;
    return ends;
}

size_t mr_ring_ends_before(const mr_ring *ring, const mr_slot *slot) {
    size_t ends = 0;
    for (uint64_t n = ring->pushed; n < ring->claimed && mr_ring_at(ring, n) != slot; n++)
        ends += final_ends(mr_ring_at(ring, n), mr_ring_at(ring, n)->mark_count);
    return ends + final_ends(slot, slot->mark_next);
}

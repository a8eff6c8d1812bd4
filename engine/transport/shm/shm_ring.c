#include "engine/transport/shm/shm_ring.h"

#include "millrace/status.h"

/* Each of the two ends writes one of `returned` and `asleep` and then reads the other: all four accesses are
 * sequentially consistent, so at least one end sees the other's write. The store to `returned` also publishes the lease
 * and ends the consumer's reads from its memory. */
bool mr_shm_ring_put(mr_shm_ring *ring, uint32_t lease) {
    uint64_t count = atomic_load_explicit(&ring->returned, memory_order_relaxed);
    atomic_store_explicit(&ring->lease[count % MR_SHM_LEASES], lease, memory_order_relaxed);
    atomic_store(&ring->returned, count + 1);
    return atomic_load(&ring->asleep) && atomic_exchange(&ring->asleep, 0);
}

int mr_shm_ring_take(mr_shm_ring *ring, uint64_t taken, uint32_t *lease) {
    uint64_t there = atomic_load_explicit(&ring->returned, memory_order_acquire) - taken;
    if (there == 0)
        return MR_ERROR_AGAIN;
    if (there > MR_SHM_LEASES)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: more leases were returned than are out");
    *lease = atomic_load_explicit(&ring->lease[taken % MR_SHM_LEASES], memory_order_relaxed);
    return MR_OK;
}

bool mr_shm_ring_arm(mr_shm_ring *ring, uint64_t taken) {
    atomic_store(&ring->asleep, 1);
    return atomic_load(&ring->returned) == taken;
}

bool mr_shm_ring_poll(mr_shm_ring *ring, uint64_t taken, bool last) {
    if (atomic_load_explicit(&ring->asleep, memory_order_relaxed) != last)
        atomic_store(&ring->asleep, last);
    return atomic_load(&ring->returned) != taken;
}

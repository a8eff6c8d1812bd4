/* The ring for returned leases, in the memory that both ends of a link map (shm_area.h).
 *
 * The consumer appends numbers of leases; there is always room, since there are as many places as leases. The producer
 * reads them whenever it polls. Before it sleeps it arms the ring; the consumer then rings the doorbell once. The
 * producer trusts nothing in it: an excessive count and a number that is not leased are MR_ERROR_PROTOCOL. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/transport/shm/shm_limits.h"

/* As it lies in the file. The first two each have a separate cache line. */
typedef struct mr_shm_ring {
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint64_t returned; /* the consumer's: leases that have come back so far */
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint32_t asleep;   /* 1: the producer waits for its doorbell */
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint32_t lease[MR_SHM_LEASES];
} mr_shm_ring;

/* The consumer returns a lease; one thread at a time. Whether the doorbell must be rung. */
bool mr_shm_ring_put(mr_shm_ring *ring, uint32_t lease);

/* The producer, after `taken` leases so far. MR_ERROR_AGAIN, without a message: none has returned since. */
int mr_shm_ring_take(mr_shm_ring *ring, uint64_t taken, uint32_t *lease);
/* Arms the doorbell. False: a lease has returned meanwhile, so do not sleep. */
bool mr_shm_ring_arm(mr_shm_ring *ring, uint64_t taken);
/* Once armed: whether a lease has returned. Disarms the doorbell, unless this is the last poll. */
bool mr_shm_ring_poll(mr_shm_ring *ring, uint64_t taken, bool last);

/* The ring through which leases come back, in the memory that both ends of a link have mapped (shm_area.h).
 *
 * The consumer puts numbers of leases in; there is always room, since there are as many places as leases. The
 * producer takes them out whenever it looks. Before it sleeps it arms the ring; the consumer then rings the bell
 * once. The producer believes nothing that it reads there: a count too large and a number that is not lent are
 * MR_ERROR_PROTOCOL. */
#ifndef MILLRACE_TRANSPORT_SHM_RING_H
#define MILLRACE_TRANSPORT_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/transport/shm/shm_limits.h"

/* As it lies in the file; each of the first two has a cache line of its own. */
typedef struct mr_shm_ring {
    _Alignas(64) _Atomic uint64_t returned; /* the consumer's: leases that have come back so far */
    _Alignas(64) _Atomic uint32_t asleep;   /* 1: the producer wants the bell rung */
    _Alignas(64) _Atomic uint32_t lease[MR_SHM_LEASES];
} mr_shm_ring;

/* The consumer gives a lease back; one thread at a time. Whether the bell is to be rung. */
bool mr_shm_ring_put(mr_shm_ring *ring, uint32_t lease);

/* The producer, having taken `taken` so far. MR_ERROR_AGAIN, without a message: nothing has come back since. */
int mr_shm_ring_take(mr_shm_ring *ring, uint64_t taken, uint32_t *lease);
/* Asks for the bell. False: something has come back meanwhile, so do not sleep. */
bool mr_shm_ring_arm(mr_shm_ring *ring, uint64_t taken);
/* Once it is armed: whether something has come back. The bell is not rung from now on, unless this is the last look. */
bool mr_shm_ring_poll(mr_shm_ring *ring, uint64_t taken, bool last);

#endif

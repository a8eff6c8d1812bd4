/* The memory that both ends of a link map and write: one memfd per peer, sealed against shrinking and growing, so that
 * neither end can make the other's accesses fail. It holds the ring for returned leases and the records for both
 * directions. */
#pragma once

#include "engine/transport/shm/shm_records.h"
#include "engine/transport/shm/shm_ring.h"

/* Record ring sizes: down to the consumer (items), and up (reports). */
enum { MR_SHM_DOWN_BYTES = 1 << 20, MR_SHM_UP_BYTES = 1 << 18 };

/* The file's head. The rings' bytes follow at a multiple of any page size. */
typedef struct mr_shm_head {
    mr_shm_ring leases;
    mr_shm_channel down, up;
} mr_shm_head;

/* One end's. */
typedef struct mr_shm_area {
    mr_shm_head *head;
    mr_shm_records down, up;
} mr_shm_area;

/* The file's size. */
size_t mr_shm_area_bytes(void);
/* The producer's: makes the file and maps it. MR_ERROR_UNAVAILABLE, MR_ERROR_MEMORY. */
int mr_shm_area_create(mr_shm_area **area, int *fd);
/* The consumer's: checks the file and maps it. The descriptor stays the caller's. MR_ERROR_PROTOCOL too. */
int mr_shm_area_map(mr_shm_area **area, int fd);
/* NULL is allowed. */
void mr_shm_area_unmap(mr_shm_area **area);

/* Checks that a memfd from the other end has these seals and that size. MR_ERROR_PROTOCOL. */
int mr_shm_check_file(int fd, int seals, uint64_t bytes);
/* Whether a descriptor from the other end is an eventfd: a write to anything else might block, or raise a signal.
 * MR_ERROR_PROTOCOL. */
int mr_shm_check_doorbell(int fd);
/* Wakes the thread that waits for it. Any thread. */
void mr_shm_ring_doorbell(int fd);

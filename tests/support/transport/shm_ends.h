/* Both ends of shared memory in one process: a pool whose buffers are exported, and their importer. Failures fail the
 * test. */
#pragma once

#include "engine/data/pool.h"
#include "engine/transport/shm/shm.h"

enum { SHM_ENDS_SLOTS = 4, SHM_ENDS_BYTES = 100000 }; /* of the pool, and of each buffer */

typedef struct shm_ends {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    mr_shm_offer offer;
    mr_shm_guest guest;
    int doorbell; /* the import's */
    mr_shm_import *import;
} shm_ends;

/* Invited, not yet there: `import` is NULL. */
void shm_ends_begin_unattached(shm_ends *ends);
/* Opens the import. */
void shm_ends_come(shm_ends *ends);
/* With the consumer attached. */
void shm_ends_begin(shm_ends *ends);
/* All buffers must have come back. */
void shm_ends_end(shm_ends *ends);
mr_buffer *shm_ends_acquire(mr_pool *pool);
/* The whole buffer. */
mr_shm_reference shm_ends_lend(shm_ends *ends, mr_buffer *buffer);
/* Posts a record to the consumer, or to the producer. MR_ERROR_AGAIN: there is no room for it. */
int shm_ends_post(shm_ends *ends, const void *data, size_t bytes);
int shm_ends_post_back(shm_ends *ends, const void *data, size_t bytes);
/* Hears the doorbell: whether it was rung. */
bool shm_ends_rung(const shm_ends *ends);

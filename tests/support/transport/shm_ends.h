/* Both ends of shared memory in one process: an exporting pool and an importer. Failures fail the test. */
#pragma once

#include "engine/data/pool.h"
#include "engine/transport/shm/shm.h"

enum { SHM_ENDS_SLOTS = 4, SHM_ENDS_BYTES = 100000 }; /* slots in the pool, bytes per buffer */

typedef struct shm_ends {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    mr_shm_offer offer;
    mr_shm_guest guest;
    int doorbell; /* the importer's */
    mr_shm_import *import;
} shm_ends;

/* Invited but not there yet: `import` is NULL. */
void shm_ends_begin_unattached(shm_ends *ends);
/* Opens the import. */
void shm_ends_come(shm_ends *ends);
/* With an attached consumer. */
void shm_ends_begin(shm_ends *ends);
/* Checks that all buffers have come back. */
void shm_ends_end(shm_ends *ends);
mr_buffer *shm_ends_acquire(mr_pool *pool);
/* Lends the whole buffer. */
mr_shm_reference shm_ends_lend(shm_ends *ends, mr_buffer *buffer);
/* Posts a record to the consumer, or to the producer. MR_ERROR_AGAIN: there is no room. */
int shm_ends_post(shm_ends *ends, const void *data, size_t bytes);
int shm_ends_post_back(shm_ends *ends, const void *data, size_t bytes);
/* Reads the doorbell: true if it was rung. */
bool shm_ends_rung(const shm_ends *ends);

/* Tests with both ends, `ends`: attached, or not yet. */
#define SHM_TEST(name) TEST_GIVEN(name, shm_ends, ends, shm_ends_begin(&made), shm_ends_end(&made))
#define SHM_TEST_UNATTACHED(name)                                                                                     \
    TEST_GIVEN(name, shm_ends, ends, shm_ends_begin_unattached(&made), shm_ends_end(&made))

/* Pools, seen from inside the engine: waiting for buffers without blocking. */
#ifndef MILLRACE_DATA_POOL_H
#define MILLRACE_DATA_POOL_H

#include "engine/base/waiter.h"
#include "millrace/frame.h"

/* A waiter for buffers of a pool, embedded in its owner; zero: waits for none. Used by one thread at a time. */
typedef struct mr_pool_wait {
    mr_waiter waiter;
    mr_pool *pool; /* kept until mr_pool_forget or the next pool */
    int free_count;
} mr_pool_wait;

/* Calls function(context) once when at least `free_count` buffers can be taken (at once if they can now), on the thread
 * that returns the last of them. Any number may wait, each with a waiter of its own; a waiter that waits already only
 * changes its count. Any thread. The function must not call the pool, nor wait for the caller of this function. */
void mr_pool_notify(mr_pool *pool, int free_count, mr_pool_wait *wait, mr_waiter_function *function, void *context);
/* It waits no more: the function is not called from now on, nor being called. Place and context may go. Not from the
 * function. */
void mr_pool_forget(mr_pool_wait *wait);

/* As mr_pool_create, for buffers of several sizes, of which all together take `most` bytes at most: those that are free
 * make room for others. `bytes` is the size of the largest; waiting is for room for that. */
int mr_pool_create_bounded(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count,
                           uint64_t most);
/* As mr_pool_acquire, for a buffer of at least `bytes`, which must not be more than the largest size. */
int mr_pool_acquire_bytes(mr_pool *pool, size_t bytes, mr_buffer **buffer);
/* Larger buffers are needed than the pool was made for, or more bytes of them. Not for shared memory. */
void mr_pool_widen(mr_pool *pool, size_t bytes, uint64_t most);

/* A buffer in use will not come back before the end: another may take its place. */
void mr_pool_replace(mr_pool *pool);

/* How many buffers are in use. Any thread. */
int mr_pool_in_use(mr_pool *pool);

/* The slab of a pool of shared memory, owned by the pool; NULL for other pools, and if shared memory was not available.
 * Single buffers of such a pool may be in plain memory: see mr_buffer.memory. */
struct mr_slab *mr_pool_slab(const mr_pool *pool);

/* For mr_buffer_unref. */
void mr_pool_take_back(mr_pool *pool, mr_buffer *buffer);

#endif

/* Pools for use inside the engine: waiting for buffers without blocking. */
#pragma once

#include "engine/base/waiter.h"
#include "millrace/frame.h"

/* Waits for buffers; embed it in another struct. Zero: waits for none. Only one thread at a time may use it. */
typedef struct mr_pool_wait {
    mr_waiter waiter;
    mr_pool *pool; /* held until mr_pool_forget or a wait for another pool */
    int free_count;
} mr_pool_wait;

/* Calls function(context) once when at least `free_count` buffers can be taken: at once if they can now, otherwise on
 * the thread that returns the last one. Any number can wait, each with a separate `wait`; a repeated call only changes
 * the count. Any thread. The function must not call the pool or wait for this function's caller. */
void mr_pool_notify(mr_pool *pool, int free_count, mr_pool_wait *wait, mr_waiter_function *function, void *context);
/* Ends the wait: the function is not running and will not be called, so `wait` and context may go. Must not be called
 * from the function. */
void mr_pool_forget(mr_pool_wait *wait);

/* Like mr_pool_create, for buffers with several sizes that together need at most `most` bytes: free buffers make room
 * for others. `bytes` is the largest size; waiters wait for room for one such buffer. */
int mr_pool_create_bounded(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count,
                           uint64_t most);
/* Like mr_pool_acquire, for at least `bytes`, which must not exceed the largest size. */
int mr_pool_acquire_bytes(mr_pool *pool, size_t bytes, mr_buffer **buffer);
/* Raises the largest buffer size and the total bytes. Must not be used for shared memory. */
void mr_pool_widen(mr_pool *pool, size_t bytes, uint64_t most);

/* A buffer in use will not return before the run ends: allows another in its place. */
void mr_pool_replace(mr_pool *pool);

/* The number of buffers in use. Any thread. */
int mr_pool_in_use(mr_pool *pool);

/* The slab behind a shared pool; the pool owns it. NULL for other pools, and if shared memory was unavailable. Single
 * buffers may still be in plain memory: see mr_buffer.memory. */
struct mr_slab *mr_pool_slab(const mr_pool *pool);

/* For mr_buffer_unref. */
void mr_pool_take_back(mr_pool *pool, mr_buffer *buffer);

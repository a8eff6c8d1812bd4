/* Pools, seen from inside the engine: waiting for buffers without blocking. */
#ifndef MILLRACE_DATA_POOL_H
#define MILLRACE_DATA_POOL_H

#include "millrace/frame.h"

typedef void mr_pool_function(void *context);

/* Calls function(context) once when at least `free_count` buffers can be taken (at once where they can now), from the
 * thread that gives the last of them back. A context that waits already only changes what it waits for. At most
 * MR_POOL_WAITERS at a time; MR_ERROR_UNAVAILABLE beyond. Any thread; the function must not call the pool. */
enum { MR_POOL_WAITERS = 16 };
int mr_pool_notify(mr_pool *pool, int free_count, mr_pool_function *function, void *context);

/* A buffer in use will not come back before the end: another may take its place. */
void mr_pool_replace(mr_pool *pool);

/* How many buffers are in use. Any thread. */
int mr_pool_in_use(mr_pool *pool);

/* What a pool of shared memory lies in, the pool's; NULL for others, and where shared memory was not to be had. Single
 * buffers of such a pool may lie in plain memory: see mr_buffer.memory. */
struct mr_slab *mr_pool_slab(const mr_pool *pool);

/* For mr_buffer_unref. */
void mr_pool_take_back(mr_pool *pool, mr_buffer *buffer);

#endif

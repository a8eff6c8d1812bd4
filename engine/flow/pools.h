/* Pools of an instance. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_POOLS_H
#define MILLRACE_FLOW_POOLS_H

#include "engine/flow/instance.h"

/* Has the entry woken when the pool has `count` buffers; it waits in that place of its `pool_waits`. MR_ERROR_AGAIN, or
 * MR_ERROR_CANCELLED if the run is stopped at once. */
int mr_io_park(mr_io *io, mr_pool *pool, int count, size_t place);
/* A buffer of a pool, by output port or behind them. If there is none the answer of mr_io_park. */
int mr_io_take_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* The same, but the entry is not woken. */
int mr_io_try_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* Makes the buffers that are planned for that device's state ahead. MR_ERROR_MEMORY, and how much is missing. */
int mr_instance_fill_pools(mr_instance *instance, size_t part);
/* How many buffers with what came out of port 0 are in use on that device. */
uint64_t mr_instance_in_use(mr_instance *instance, const mr_part *part);

#endif

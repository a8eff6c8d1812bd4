/* Pools of an instance. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_POOLS_H
#define MILLRACE_FLOW_POOLS_H

#include "engine/flow/instance/instance.h"

/* Wakes the entry when the pool has `count` buffers; it waits in that place of its `pool_waits`. MR_ERROR_AGAIN, or
 * MR_ERROR_CANCELLED if the run is stopped at once. */
int mr_io_park(mr_io *io, mr_pool *pool, int count, size_t place);
/* A buffer of a pool, by output port or behind them. If there is none, the answer of mr_io_park. */
int mr_io_take_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* The same, but the entry is not woken. */
int mr_io_try_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* Allocates the buffers that are planned ahead on that device. MR_ERROR_MEMORY, with the missing amount in the
 * message. */
int mr_instance_fill_pools(mr_instance *instance, size_t number);
/* The number of buffers of port 0 of an instance that are in use on that device. */
uint64_t mr_instance_in_use(void *instance, size_t number);

#endif

/* An instance's pools. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* Takes a buffer from a pool, by output port or after them. If there is none, returns what mr_io_await_pool does. */
int mr_io_take_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* The same, but does not wake the entry later. */
int mr_io_try_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer);
/* Allocates the buffers planned on this device. MR_ERROR_MEMORY; the message says how much is missing. */
int mr_instance_fill_pools(mr_instance *instance, size_t number);
/* How many port 0 buffers the instance has in use on this device. */
uint64_t mr_instance_in_use(void *instance, size_t number);

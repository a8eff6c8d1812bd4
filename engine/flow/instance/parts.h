/* An instance's parts: the stage and the pools on each device, by number. The last may be a reserve. Only parts.c and
 * the functions below may touch the fields. Internal to the engine. */
#pragma once

#include "engine/data/pool.h"
#include "millrace/stage.h"

enum { MR_POOLS = 8 };
/* Pools after those for the output ports. */
enum {
    MR_SCRATCH_POOL,
    MR_STAGING_POOL,
    MR_PINNED_POOL,
    MR_RESULTS_POOL,
    MR_BATCHES_POOL,
    MR_BLOCK_POOL,
    MR_OTHER_POOLS
};

typedef struct mr_instance_part {
    mr_stage self;
    bool opened;             /* open was called, so close must be called */
    bool closing;            /* stop and trigger must no longer be called; needs the instance's lock */
    bool on_host;            /* it runs on the host's processors: outputs are ready when the call returns */
    mr_pool *(*pools)[MR_POOLS]; /* for each output port, then for each pool above: one per buffer size, most recently
                                    used first */
} mr_instance_part;

typedef struct mr_parts {
    size_t count, pool_count;
    mr_instance_part *part;
} mr_parts;

/* Copies `self` into each part, with separate state. MR_ERROR_MEMORY. */
int mr_parts_create(mr_parts *parts, size_t count, size_t pool_count, const mr_stage *self);
void mr_parts_destroy(mr_parts *parts);
static inline size_t mr_parts_count(const mr_parts *parts) {
    return parts->count;
}
static inline mr_stage *mr_parts_stage(const mr_parts *parts, size_t number) {
    return &parts->part[number].self;
}
static inline bool mr_parts_are_on_host(const mr_parts *parts, size_t number) {
    return parts->part[number].on_host;
}
/* The pools for an output port, or one of the pools after them. */
static inline mr_pool **mr_parts_pools(const mr_parts *parts, size_t number, size_t which) {
    return parts->part[number].pools[which];
}
void mr_parts_set_device(mr_parts *parts, size_t number, mr_device *device);
/* Calls the stage type's open for one part. The device must be set. */
int mr_parts_open(mr_parts *parts, size_t number);
static inline bool mr_parts_are_open(const mr_parts *parts) {
    return parts->part[0].opened;
}
/* Calls the stage type's stop or trigger for each open part that is not about to close. mr_parts_trigger is true if a
 * part accepted it. With the instance's lock, unless mr_parts_begin_close is never called. */
void mr_parts_stop(mr_parts *parts);
bool mr_parts_trigger(mr_parts *parts);
/* Keeps out mr_parts_stop and mr_parts_trigger until the parts are opened again. With the instance's lock. */
void mr_parts_begin_close(mr_parts *parts);
/* Calls the stage type's close for each open part. A driver may hang in it: without a lock that others need. */
void mr_parts_close(mr_parts *parts);
/* Frames that still exist keep their buffers. */
void mr_parts_release_pools(mr_parts *parts);
/* Call them on closed parts: resets the state for the slot's next source; copies what `self` describes. */
void mr_parts_clear_states(mr_parts *parts);
void mr_parts_rename(mr_parts *parts, const mr_stage *self);

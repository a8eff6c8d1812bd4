/* The parts of an instance: its stage and its pools on each of its devices, by number; the last may be one in reserve.
 * Its fields are read and written by parts.c and the functions below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_PARTS_H
#define MILLRACE_FLOW_INSTANCE_PARTS_H

#include "engine/data/pool.h"
#include "millrace/stage.h"

enum { MR_POOLS = 8 };
/* Pools behind those of the output ports. */
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
    bool opened;             /* open was called, so close must be */
    bool on_host;            /* its device is the host's processors: a call's outputs are ready when it returns */
    mr_pool *(*pools)[MR_POOLS]; /* for each output port, then for the others above: of different buffer sizes, most
                                    recently used first */
} mr_instance_part;

typedef struct mr_parts {
    size_t count, pool_count;
    mr_instance_part *part;
} mr_parts;

/* Each is a copy of `self` with a state of its own. MR_ERROR_MEMORY. */
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
/* The pools of an output port, or of those behind them. */
static inline mr_pool **mr_parts_pools(const mr_parts *parts, size_t number, size_t which) {
    return parts->part[number].pools[which];
}
void mr_parts_set_device(mr_parts *parts, size_t number, mr_device *device);
/* Calls the stage type's open for one. Its device is set. */
int mr_parts_open(mr_parts *parts, size_t number);
static inline bool mr_parts_are_open(const mr_parts *parts) {
    return parts->part[0].opened;
}
/* Calls the stage type's stop, or trigger (true: it took it), for those that are open. */
void mr_parts_stop(mr_parts *parts);
bool mr_parts_trigger(mr_parts *parts);
/* Calls the stage type's close for those that are open. */
void mr_parts_close(mr_parts *parts);
/* Frames that still exist keep their buffers. */
void mr_parts_release_pools(mr_parts *parts);
/* They are closed, and begin anew for the next source of the slot, as what `self` says. */
void mr_parts_clear_states(mr_parts *parts);
void mr_parts_rename(mr_parts *parts, const mr_stage *self);

#endif

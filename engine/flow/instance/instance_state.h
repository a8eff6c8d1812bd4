/* An instance's devices: its state and pools on each, and the choice among them. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_INSTANCE_STATE_H
#define MILLRACE_FLOW_INSTANCE_INSTANCE_STATE_H

#include "engine/data/pool.h"

typedef struct mr_instance mr_instance;

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

typedef struct mr_port_pools {
    mr_pool *pool[MR_POOLS]; /* of different buffer sizes, most recently used first */
} mr_port_pools;

/* An instance's state on one of its devices. Counts are written under the instance's lock. */
typedef struct mr_instance_state {
    mr_stage self;
    bool opened;          /* open was called, so close must be */
    bool on_host;         /* its device is the host's processors: a call's outputs are ready when it returns */
    atomic_bool failed;   /* its device failed: others take over, as long as there are any */
    atomic_bool disabled; /* gets no calls: the device was disabled */
    _Atomic uint64_t frames; /* that went to it */
    _Atomic uint64_t given, done; /* calls */
    _Atomic int64_t cost_ns; /* of a call on its device, by the last calls; 0: not known */
    _Atomic int64_t busy_ns; /* while its device worked, or waited for other work there */
    _Atomic int64_t done_ns; /* of copies: end of the last one */
    atomic_uint passed;   /* calls in a row that went elsewhere while it had none */
    mr_port_pools *pools; /* one for each output port, then the others above */
} mr_instance_state;

/* Its devices, and the choice among them for the next call (placement.h). */
typedef struct mr_placement {
    size_t state_count;
    size_t working;          /* without the one in reserve, which is the last */
    mr_instance_state *states; /* one for each device; elsewhere they go by their number */
    uint64_t spread;         /* frames that calls had room for so far */
    uint64_t turn;           /* number of the frames in a row that go to one device, from 1; 0: none yet */
    size_t turn_number;      /* number of that device */
    size_t follower_count;
    mr_instance **followers; /* instances behind on the same devices, which take frames from here without a copy */
} mr_placement;

#endif

/* A simulated device, its streams and their items; internal to this folder.
 *
 * A stream is a list of items: work, records and waits. One lock for all simulated devices guards the state that they
 * share: memory blocks and the order between streams. It must be taken last. */
#pragma once

#include <pthread.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim_parameters.h"

typedef struct sim_device sim_device;
typedef struct sim_stream sim_stream;
typedef struct sim_block sim_block;

enum { SIM_LANES = 128, SIM_COUNTED = 8 };

typedef enum sim_kind { SIM_WORK, SIM_RECORD, SIM_WAIT } sim_kind;

/* A piece's hold on a memory block, as it was when the work was submitted. */
typedef struct sim_touch {
    sim_block *block;
    uint64_t generation;
} sim_touch;

/* All work on a stream up to one piece. */
typedef struct sim_point {
    uint64_t stream; /* the stream's id */
    uint64_t tick;
} sim_point;

enum { SIM_TOUCHES = MR_WORK_BYTES / sizeof(void *), SIM_KNOWN = MR_WORK_BYTES / sizeof(sim_point) };

typedef struct sim_item {
    sim_kind kind;
    sim_stream *stream;
    struct sim_item *next;
    /* work */
    mr_work_function *function;
    mr_engine engine;
    const mr_stage *stage;
    mr_identity frame;
    uint64_t tick;       /* which piece on its stream */
    bool joined;         /* part of the previous launch */
    size_t copied_bytes; /* by a copy */
    size_t touched_bytes;
    int64_t submitted_ns, begin_ns;
    int64_t due_ns; /* once it is the stream's first: when it is done; -1: not set yet */
    size_t touch_count;
    sim_touch touch[SIM_TOUCHES];
    /* records and waits */
    mr_event *event; /* one reference */
    mr_event_wait wait; /* WAIT */
    bool arrived;       /* WAIT: the event has reported completion */
    struct sim_item *next_record;
    size_t known_count;
    bool knows_all;
    union {
        _Alignas(16) unsigned char arguments[MR_WORK_BYTES];
        sim_point known[SIM_KNOWN]; /* RECORD: the points that are done when this is */
    } u;
} sim_item;

struct sim_stream {
    mr_stream stream;
    sim_item *head, *tail;
    int status;    /* the work's since the last event */
    bool busy;     /* the first item is being done without the lock */
    int64_t at_ns; /* when the last work was done, by the device's clock */
    sim_stream *next;
    /* Under the lock for all: */
    uint64_t id;
    uint64_t submitted, done; /* pieces */
    const sim_block *counted[SIM_COUNTED]; /* whose bytes the launch has, the last ones; only compared */
    size_t counted_count;
    size_t known_count;
    bool knows_all; /* it waits for more points than there is room for */
    sim_point known[SIM_KNOWN];
    sim_stream *next_alive;
};

struct sim_device {
    mr_device device;
    mr_sim_params params;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool ending;
    bool timed; /* it has rates */
    bool lost, corrupted;
    sim_stream *streams;
    sim_item *unused;
    uint64_t random;
    int64_t free_ns[MR_ENGINES]; /* when each engine has finished */
    int64_t lane_ns[SIM_LANES];  /* with `kernels`: when each parallel piece ends */
    int64_t call_count, allocation_count, begun_count, work_count;
    /* Under the lock for all: */
    int64_t allocated_bytes;       /* device memory */
    sim_block *freed, *freed_last; /* kept for a while, so that later use is noticed */
    size_t freed_bytes;
};

static inline void mr_sim_recycle(sim_device *self, sim_item *gone) {
    gone->next = self->unused;
    self->unused = gone;
}

/* The entries of an instance: tasks that may be inside the stage type, all at once. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_ENTRY_H
#define MILLRACE_FLOW_INSTANCE_ENTRY_H

#include "engine/flow/executor/executor.h"
#include "engine/flow/instance/slot.h"
#include "engine/observe/histogram.h"

typedef struct mr_instance mr_instance;

enum { MR_STRETCH = 8 };

struct mr_io {
    mr_instance *instance;
    struct mr_entry_task *entry;
    mr_slot *slot;
    mr_stream *stream; /* of the work that is being submitted */
    int64_t now_ns;
    int64_t wake_ns; /* a call that answers MR_WAIT is repeated then */
};

/* Counts of an entry. Read by any thread; written by the entry. */
typedef struct mr_meter {
    _Atomic uint64_t in, out;
    _Atomic uint64_t times; /* calls */
    _Atomic int64_t busy_ns;
    _Atomic uint64_t most_frames; /* of one call */
    _Atomic int64_t cpu_ns;       /* if the run is profiled: of this entry's thread, inside the stage */
    unsigned calls, stride;       /* one call of `stride` is measured, and stands for the others */
    unsigned stretch;             /* short calls that are timed as one */
    _Atomic unsigned unclocked;   /* calls since the clock was read, which are not in the times yet */
    unsigned entered;             /* frames that those calls consumed, and when each had entered the queue */
    int64_t entered_ns[MR_STRETCH];
    mr_histogram latency;
} mr_meter;

/* One entry: a task that may be inside the stage type. */
typedef struct mr_entry_task {
    mr_instance *instance;
    mr_task task;
    mr_io io;
    mr_slot *slot;       /* unfinished: process must be called again */
    atomic_bool unfinished; /* there is such a slot: the entry takes no other inputs. Read by any thread */
    mr_event_wait *waits;     /* for inputs: one place for each source of a join, else one; then one for inputs that are
                                 brought in */
    size_t wait_count;
    mr_pool_wait *pool_waits; /* for buffers: one for each pool of the instance, then one for those of the stage type */
    struct mr_call_trace *traced; /* NULL: not traced */
    mr_stream **streams; /* one for each device */
    mr_stream **staging; /* likewise, if there are several devices: brings inputs in */
    mr_meter meter;
} mr_entry_task;

#endif

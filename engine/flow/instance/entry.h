/* The entries of an instance: tasks that may be inside the stage type, all at once. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_ENTRY_H
#define MILLRACE_FLOW_INSTANCE_ENTRY_H

#include "engine/flow/executor/executor.h"
#include "engine/flow/instance/meter.h"
#include "engine/flow/instance/slot.h"

typedef struct mr_instance mr_instance;

struct mr_io {
    mr_instance *instance;
    struct mr_entry_task *entry;
    mr_slot *slot;
    mr_stream *stream; /* of the work that is being submitted */
    int64_t now_ns;
    int64_t wake_ns; /* a call that answers MR_WAIT is repeated then */
};

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

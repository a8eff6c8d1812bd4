/* An instance's entries: tasks that can be inside the stage type at the same time. Internal to the engine. */
#pragma once

#include "engine/flow/executor/executor.h"
#include "engine/flow/instance/meter.h"
#include "engine/flow/instance/slot.h"

typedef struct mr_instance mr_instance;

struct mr_io {
    mr_instance *instance;
    struct mr_entry_task *entry;
    mr_slot *slot;
    mr_stream *stream; /* for the work being submitted */
    int64_t now_ns;
    int64_t wake_ns; /* when to repeat a call that returned MR_WAIT */
};

/* One task that can be inside the stage type. */
typedef struct mr_entry_task {
    mr_instance *instance;
    mr_task task;
    mr_io io;
    mr_slot *slot;       /* unfinished: process must be called again */
    atomic_bool unfinished; /* such a slot exists: the entry takes no other inputs. Any thread may read it */
    mr_event_wait *waits;     /* for inputs: one, or in a join one for each source; then one for staged inputs */
    size_t wait_count;
    mr_pool_wait *pool_waits; /* for buffers: one for each pool, then one for the stage type's pools */
    struct mr_call_trace *traced; /* NULL: not traced */
    struct mr_call_spans *spans;  /* NULL: no frames are followed */
    mr_stream **streams; /* one for each device */
    mr_stream **staging; /* the same, if there are several devices: copies inputs there */
    mr_meter meter;
} mr_entry_task;

/* The clock, as last read for the entry: when the call began, or ended. */
static inline int64_t mr_entry_now_ns(const mr_entry_task *entry) {
    return entry->io.now_ns;
}

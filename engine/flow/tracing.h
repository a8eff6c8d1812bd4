/* The trace of a running graph (engine/observe/trace.h).
 *
 * It has these rows: one for each worker and each thread of a blocking stage, with the calls of stages; one with the
 * frames that are dropped; one for each instance with the causes of its waits; one for each engine of each device with
 * its work; and a curve for each queue. Arrows follow the descendants of a source frame from call to call.
 *
 * In a graph without a trace the pointers that guard these calls are NULL. Threads: begin and destroy as the graph's
 * start and destroy; the others as their callers. */
#ifndef MILLRACE_FLOW_TRACING_H
#define MILLRACE_FLOW_TRACING_H

#include "engine/flow/wiring.h"
#include "engine/observe/trace.h"

typedef struct mr_tracing mr_tracing;

/* Of an instance. Guarded as its slots are. */
typedef struct mr_instance_trace {
    mr_trace *trace;
    mr_track *thread;    /* of its own; NULL: it runs on workers */
    mr_track *waits;
    const char *awaited; /* cause of its wait; NULL: none */
    int64_t since_ns;
    atomic_bool starved; /* its last call found no buffer; several entries may be in calls */
} mr_instance_trace;

/* Of an entry: facts of its call, noted when it begins, since it may pass its inputs on. */
typedef struct mr_call_trace {
    mr_trace *trace;
    int64_t begun_ns;    /* end of the call before it: the time between them counts as part of it */
    int64_t called_ns;   /* its inputs were there */
    mr_identity first;   /* of the frames of the call */
    size_t frame_count;
    size_t arrow_count;
    mr_identity arrows[]; /* the source frames that they descend from; room for those of a call */
} mr_call_trace;

/* Creates the trace, in run->tracing, and its rows. */
int mr_tracing_begin(mr_run *run, const mr_wiring *wiring, const char *path);
/* From now on devices, which are open, report their work. */
int mr_tracing_watch_devices(const mr_run *run);
/* All has ended: writes the rest. MR_ERROR_IO, which is logged the first time. */
int mr_tracing_end(const mr_run *run);
/* Called when only programs that hold frames may still report. */
void mr_tracing_destroy(mr_run *run);
/* A source slot has another source now; none of its frames is there. */
void mr_tracing_rename(const mr_run *run, uint32_t source);

/* Around a call of an entry, if entry->traced. `slot` is NULL if the call is flush. */
void mr_tracing_begin_call(mr_entry_task *entry, const mr_slot *slot);
void mr_tracing_end_call(mr_entry_task *entry, const mr_slot *slot, int answer);
/* After slots have been pushed and freed, if instance->traced. */
void mr_tracing_note_wait(mr_instance *instance);

#endif

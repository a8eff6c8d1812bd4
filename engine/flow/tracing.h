/* What a running graph tells its trace (engine/observe/trace.h).
 *
 * The picture has these rows: one for each worker and each thread of a blocking stage, with the calls of stages, and
 * one with the frames that are dropped; one for each instance with what keeps it from going on; one for each engine
 * of each device with the work it does; and a curve for each queue. Arrows follow the descendants of a source frame
 * from call to call.
 *
 * Who runs a graph without a trace finds NULL where these functions would be called. Threads: begin and destroy as
 * the graph's start and destroy; the others as their callers. */
#ifndef MILLRACE_FLOW_TRACING_H
#define MILLRACE_FLOW_TRACING_H

#include "engine/flow/instance.h"
#include "engine/observe/trace.h"

/* Of an instance. Guarded as its slots are. */
typedef struct mr_instance_trace {
    mr_trace *trace;
    mr_track *thread;    /* of its own; NULL: it runs on workers */
    mr_track *waits;
    const char *awaited; /* what keeps it from going on; NULL: nothing */
    int64_t since_ns;
    atomic_bool starved; /* its last call found no buffer; several entries may be in calls */
} mr_instance_trace;

/* Of an entry: what is known of its call when it begins, since inputs may be given away in it. */
typedef struct mr_call_trace {
    mr_trace *trace;
    int64_t begun_ns;    /* when the call before it ended: what comes between them counts as part of it */
    int64_t called_ns;   /* when its inputs were there */
    mr_identity first;   /* of the frames of the call */
    size_t frame_count;
    size_t arrow_count;
    mr_identity *arrows; /* the source frames that they descend from */
} mr_call_trace;

/* Makes the trace, where graph->trace_path says so, and its rows. */
int mr_tracing_begin(mr_graph *graph);
/* From now on devices, which are open, tell what they do. */
int mr_tracing_watch_devices(mr_graph *graph);
/* All has ended: writes the rest. MR_ERROR_IO, which is logged the first time. */
int mr_tracing_end(mr_graph *graph);
/* Nobody tells anything any more, but programs that hold frames. */
void mr_tracing_destroy(mr_graph *graph);

/* Around a call of an entry, where entry->traced. `slot` is NULL where what is called is flush. */
void mr_tracing_begin_call(mr_entry_task *entry, const mr_slot *slot);
void mr_tracing_end_call(mr_entry_task *entry, const mr_slot *slot, int answer);
/* After slots have been pushed and freed, where instance->traced. */
void mr_tracing_note_wait(mr_instance *instance);

#endif

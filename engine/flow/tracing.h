/* A running graph's trace (engine/observe/trace.h).
 *
 * It has these rows: one for each worker and each blocking stage's thread, with the calls; one with dropped frames; one
 * for each instance, with what it waited for; one for each device engine, with its work; and a curve for each queue.
 * Arrows connect a source frame's descendants from call to call.
 *
 * Without a trace, the pointers that guard these calls are NULL. Threads: begin and destroy like the graph's start and
 * destroy; the others like their callers. */
#pragma once

#include "engine/flow/wiring.h"
#include "engine/observe/trace.h"

typedef struct mr_tracing mr_tracing;

/* One instance's trace. Guarded like the instance's slots. */
typedef struct mr_instance_trace {
    mr_trace *trace;
    mr_track *thread;    /* for a dedicated thread; NULL: it runs on workers */
    mr_track *waits;
    const char *awaited; /* what it waits for; NULL: nothing */
    int64_t since_ns;
    atomic_bool starved; /* the last call found no buffer; several entries may be in calls */
} mr_instance_trace;

/* Facts about an entry's call. They must be noted when it begins, since the call may pass the inputs on. */
typedef struct mr_call_trace {
    mr_trace *trace;
    int64_t begun_ns;    /* when the previous call ended: the time in between counts as part of this one */
    int64_t called_ns;   /* when the inputs were there */
    mr_identity first;   /* the first frame in the call */
    size_t frame_count;
    size_t arrow_count;
    mr_identity arrows[]; /* the source frames that the inputs descend from; room for one call */
} mr_call_trace;

/* Creates run->tracing, with the trace and all rows. */
int mr_tracing_begin(mr_run *run, const mr_wiring *wiring, const char *path);
/* Makes the devices report their work. They must be open. */
int mr_tracing_watch_devices(const mr_run *run);
/* Call it when everything has ended: writes the rest. MR_ERROR_IO, logged only the first time. */
int mr_tracing_end(const mr_run *run);
/* Call it when only programs that hold frames may still report. */
void mr_tracing_destroy(mr_run *run);
/* The slot has another source now, without any frames yet. */
void mr_tracing_rename(const mr_run *run, uint32_t source);

/* Call them around an entry's call, if entry->traced. `slot` is NULL for a flush. */
void mr_tracing_begin_call(mr_entry_task *entry, const mr_slot *slot);
void mr_tracing_end_call(mr_entry_task *entry, const mr_slot *slot, int answer);
/* Call it after slots were pushed and freed, if instance->traced. */
void mr_tracing_note_wait(mr_instance *instance);

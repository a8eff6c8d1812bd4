/* A running graph's trace (engine/observe/trace.h), and the spans of frames that are followed
 * (engine/observe/span_buffer.h).
 *
 * It has these rows: one for each worker and each blocking stage's thread, with the calls; one with dropped frames; one
 * for each instance, with what it waited for; one for each device engine, with its work; and a curve for each queue.
 * Arrows connect a source frame's descendants from call to call.
 *
 * Each frame that is followed has spans for its calls of stages and its waits in their queues. The ledger makes those
 * of the frames themselves.
 *
 * Without a trace or spans, the pointers that guard these calls are NULL. Threads: begin and destroy like the graph's
 * start and destroy; the others like their callers. */
#pragma once

#include "engine/flow/wiring.h"
#include "engine/observe/span_buffer.h"
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

/* A frame in a call. */
typedef struct mr_followed {
    mr_span_context within; /* its receipt's */
    mr_identity frame;
    int64_t entered_ns;     /* when it entered the queue */
} mr_followed;

/* An entry's call, which may be repeated for the same slot. */
typedef struct mr_call_spans {
    mr_spans *spans;
    const mr_slot *slot;    /* the call is not over yet; NULL: there is none */
    int64_t begun_ns;
    uint32_t frames;
    size_t count;
    mr_followed followed[]; /* room for one call */
} mr_call_spans;

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

/* Creates run->spans, with the memory for all calls. MR_ERROR_MEMORY. */
int mr_tracing_follow(mr_run *run, const mr_wiring *wiring, double share);
/* Call it when only programs that hold frames may still report. */
void mr_tracing_unfollow(mr_run *run);
/* Call them around an entry's call, if entry->spans. `repeats`: the slot's call is not over. */
void mr_tracing_begin_span(mr_entry_task *entry, const mr_slot *slot);
void mr_tracing_end_span(mr_entry_task *entry, const mr_slot *slot, bool repeats);

/* Spans of a running graph (engine/observe/spans.h): for each frame that is followed, its calls of stages and its waits
 * in their queues. The ledger has the spans of the frames themselves. A call with several frames makes a span for each
 * that is followed.
 *
 * Without spans, the pointers that guard these calls are NULL. Threads: begin and destroy like the graph's start and
 * destroy; the others like their callers. Memory is taken at the start alone. */
#pragma once

#include "engine/flow/wiring.h"
#include "engine/observe/spans.h"

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

/* Creates run->spans. MR_ERROR_MEMORY. */
int mr_follow_begin(mr_run *run, const mr_wiring *wiring, double share);
/* Call it when only programs that hold frames may still report. */
void mr_follow_destroy(mr_run *run);
/* The slot has another source now, without any frames yet. */
void mr_follow_rename(const mr_run *run, uint32_t source);

/* Call them around an entry's call, if entry->spans. `repeats`: the slot's call is not over. */
void mr_follow_begin_call(mr_entry_task *entry, const mr_slot *slot);
void mr_follow_end_call(mr_entry_task *entry, const mr_slot *slot, bool repeats);

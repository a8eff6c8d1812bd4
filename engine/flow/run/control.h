/* Stops a run, and notes the changes that readers of its summary wait for. Any thread. */
#ifndef MILLRACE_FLOW_RUN_CONTROL_H
#define MILLRACE_FLOW_RUN_CONTROL_H

#include <stdatomic.h>

#include "engine/flow/run/run.h"

/* Read through the functions below. */
typedef struct mr_control {
    _Atomic bool stopping, cancelled;
    _Atomic int64_t stop_ns;     /* when the stop was requested, on the real clock; 0: it was not */
    _Atomic uint64_t news;       /* changes that a reader of summaries expects to see at once */
    _Atomic uint64_t reopenings; /* requests to open files anew that were moved */
    void (*stop)(void *context);
    void *context;
} mr_control;

/* `stop` is called at each request to stop, after the flags below were set. MR_ERROR_MEMORY. */
int mr_control_create(mr_control **control, void (*stop)(void *context), void *context);
void mr_control_destroy(mr_control **control);

/* Asks sources to end (frames in flight are delivered), or, at once, drops the frames in flight. */
void mr_control_stop(const mr_run *run, bool at_once);
/* Nothing has run, and nothing is to begin. */
void mr_control_note_stop(const mr_run *run);
/* The run has failed: it is stopped, at once if nobody reads its output any more. The first failure is its outcome. */
void mr_control_fail(const mr_run *run, int status, const char *message);
/* The sources were asked to end. */
static inline bool mr_control_is_stopping(const mr_run *run) {
    return atomic_load(&run->control->stopping);
}
/* Frames in flight are dropped. */
static inline bool mr_control_is_cancelled(const mr_run *run) {
    return atomic_load_explicit(&run->control->cancelled, memory_order_relaxed);
}
/* When the stop was requested, on the real clock; 0: it was not. */
int64_t mr_control_stop_ns(const mr_run *run);

/* Something changed that a reader of summaries expects to see at once: a source's state or slot, a device, a stop. */
void mr_control_note_change(const mr_run *run);
/* The number of such changes. */
uint64_t mr_control_changes(const mr_run *run);
/* Files that were moved are to be opened anew; and the number of these requests. */
void mr_control_reopen(const mr_run *run);
uint64_t mr_control_reopenings(const mr_run *run);

#endif

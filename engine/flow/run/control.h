/* Stops a run, and counts changes that summary readers wait for. Any thread. */
#pragma once

#include <stdatomic.h>

#include "engine/flow/run/run.h"

/* Read it through the functions below. */
typedef struct mr_control {
    _Atomic bool stopping, cancelled;
    _Atomic int64_t stop_ns;     /* when the stop was requested, on the real clock; 0: not requested */
    _Atomic uint64_t news;       /* changes that a summary reader must see at once */
    _Atomic uint64_t reopenings; /* requests to reopen files that were moved */
    void (*stop)(void *context);
    void *context;
} mr_control;

/* `stop` is called at each stop request, after the flags are set. MR_ERROR_MEMORY. */
int mr_control_create(mr_control **control, void (*stop)(void *context), void *context);
void mr_control_destroy(mr_control **control);

/* Asks sources to end and delivers the frames in flight; `at_once` drops them. */
void mr_control_stop(const mr_run *run, bool at_once);
/* Sets the flag for a run that never started, so that nothing begins. */
void mr_control_note_stop(const mr_run *run);
/* Stops a failed run, at once if nobody reads its output. The first failure is the outcome. */
void mr_control_fail(const mr_run *run, int status, const char *message);
/* Whether the sources were asked to end. */
static inline bool mr_control_is_stopping(const mr_run *run) {
    return atomic_load(&run->control->stopping);
}
/* Whether frames in flight must be dropped. */
static inline bool mr_control_is_cancelled(const mr_run *run) {
    return atomic_load_explicit(&run->control->cancelled, memory_order_relaxed);
}
/* When the stop was requested, on the real clock; 0: not requested. */
int64_t mr_control_stop_ns(const mr_run *run);

/* Notes a change that summary readers must see at once: a source's state or slot, a device, a stop. */
void mr_control_note_change(const mr_run *run);
/* The number of such changes. */
uint64_t mr_control_changes(const mr_run *run);
/* Asks sinks to reopen files that were moved; and the number of such requests. */
void mr_control_reopen(const mr_run *run);
uint64_t mr_control_reopenings(const mr_run *run);

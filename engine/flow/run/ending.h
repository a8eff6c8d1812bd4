/* The end of a run: who keeps it from ending, its first failure, and its times. Any thread. */
#ifndef MILLRACE_FLOW_RUN_ENDING_H
#define MILLRACE_FLOW_RUN_ENDING_H

#include "engine/flow/run/run.h"

typedef struct mr_ending mr_ending;

typedef struct mr_run_times {
    int64_t started_ns;
    double started_cpu_s;
    uint64_t allocations; /* before the first frame */
    int64_t ended_ns;     /* 0: not yet */
    double ended_cpu_s;
} mr_run_times;

int mr_ending_create(mr_ending **ending);
void mr_ending_destroy(mr_ending **ending);

/* Keeps the run from ending until it is released as often: an instance, or a cut whose other end may not know yet how
 * its frames were settled. */
void mr_ending_hold(mr_ending *ending, size_t count);
void mr_ending_release(mr_ending *ending);
/* The first failure is the outcome of the run. */
void mr_ending_note_failure(mr_ending *ending, int status, const char *message);
/* The start has failed: that is the outcome, even if other failures followed from it. */
void mr_ending_replace_failure(mr_ending *ending, int status, const char *message);
/* Nothing has run: the run has ended with that failure. */
void mr_ending_give_up(mr_ending *ending, int status, const char *message);
/* The outcome so far, with the message of mr_fail. */
int mr_ending_outcome(mr_ending *ending);
/* The holds that are left after so long; negative: waits for the end, which is 0. */
size_t mr_ending_wait(mr_ending *ending, int64_t timeout_ns);

/* The start begins; and all is open, so that from now on allocations count. */
void mr_ending_note_start(mr_ending *ending);
void mr_ending_note_open(mr_ending *ending);
mr_run_times mr_ending_times(mr_ending *ending);

#endif

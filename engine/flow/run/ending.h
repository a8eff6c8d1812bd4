/* A run's start and end: instances being opened, holds on the end, the first failures, and the times. Any thread. */
#pragma once

#include "engine/flow/run/run.h"

typedef struct mr_ending mr_ending;

typedef struct mr_run_times {
    int64_t started_ns;
    double started_cpu_s;
    uint64_t allocations; /* made before the first frame */
    int64_t ended_ns;     /* 0: not yet */
    double ended_cpu_s;
} mr_run_times;

int mr_ending_create(mr_ending **ending);
void mr_ending_destroy(mr_ending **ending);

/* Keeps the run from ending until each hold is released. Instances hold it; so does a cut whose other end may not yet
 * know how frames were settled. */
void mr_ending_hold(mr_ending *ending, size_t count);
void mr_ending_release(mr_ending *ending);
/* The first failure while it runs. */
void mr_ending_note_failure(mr_ending *ending, int status, const char *message);
/* The start failed: something could not be opened or begun. This is the outcome, even if other failures followed. */
void mr_ending_fail_start(mr_ending *ending, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The start's first failure so far, with mr_fail's message. `all`: waits until every expected opening has ended. */
int mr_ending_start_status(mr_ending *ending, bool all);
/* The outcome so far; sets mr_fail's message. */
int mr_ending_outcome(mr_ending *ending);
/* Nothing has run: the run ends. */
void mr_ending_give_up(mr_ending *ending);
/* A thread will open an instance; it has tried. */
void mr_ending_expect_opening(mr_ending *ending);
void mr_ending_note_opening(mr_ending *ending);
/* Waits until the run has ended or the timeout passes; negative: no timeout. Returns how many holds are left. */
size_t mr_ending_wait(mr_ending *ending, int64_t timeout_ns);
/* Whether it has started and ended. */
bool mr_ending_is_over(mr_ending *ending);

/* The start begins; everything is open, so that allocations count from now on. */
void mr_ending_note_start(mr_ending *ending);
void mr_ending_note_open(mr_ending *ending);
mr_run_times mr_ending_times(mr_ending *ending);

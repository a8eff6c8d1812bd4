/* Shows a run's progress in one terminal line. Log lines appear above it.
 *
 * There can be only one progress line. Show and hide must come from one thread; log lines may come from any. */
#pragma once

#include <stdbool.h>

#include "millrace/millrace.h"

typedef struct mr_progress {
    double since_s;     /* the run's time at `since_frames`: the rate counts from there */
    uint64_t since_frames;
    double rate;        /* frames a second, over the last few seconds */
} mr_progress;

/* True if a line can be overwritten: standard error must be a terminal, and not a dumb one (TERM). */
bool mr_progress_suits_terminal(void);
/* Until the end, log lines appear above this one, and still go where they went before. */
void mr_progress_begin(mr_progress *progress);
/* Shows frames, frames per second, the share done if the total is known, drops and the time left. */
void mr_progress_show(mr_progress *progress, const mr_summary *summary);
/* Removes the line and restores the log. */
void mr_progress_end(mr_progress *progress);

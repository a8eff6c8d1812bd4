/* One line on a terminal with the progress of a run. Log lines are printed above it.
 *
 * One progress at a time; show and hide from one thread, log lines from any. */
#pragma once

#include <stdbool.h>

#include "millrace/millrace.h"

typedef struct mr_progress {
    double since_s;     /* the run's, at `since_frames`: the rate is measured from there */
    uint64_t since_frames;
    double rate;        /* frames a second, over the last few seconds */
} mr_progress;

/* True if a line can be overwritten: standard error is a terminal, and not a dumb one (TERM). */
bool mr_progress_suits_terminal(void);
/* Redirects the log, so that log lines do not run into this one. */
void mr_progress_begin(mr_progress *progress);
/* Frames, frames a second, done of total if it is known, drops, time left. */
void mr_progress_show(mr_progress *progress, const mr_summary *summary);
/* Removes the line and restores the log. */
void mr_progress_end(mr_progress *progress);

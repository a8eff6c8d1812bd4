/* Handles a run's signals on a separate thread. The first SIGINT or SIGTERM drains; the second exits at once, unless it
 * comes with the first (mr_signals_are_one). SIGHUP reopens files and reads the source list. If the run's terminal was
 * closed, SIGHUP drains and never exits; it does nothing if it is ignored, as under nohup. SIGUSR1 prints the summary
 * so far. The same thread accepts clients at the control socket if that was opened before (control.h).
 *
 * begin must be called before any other thread starts, since threads inherit the signal mask. end must be called before
 * the pipeline is destroyed. leave is called while it is destroyed, which can take as long as sinks linger. There can
 * be only one run at a time. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "millrace/millrace.h"

/* Two signals this soon after each other are one request: coreutils' `timeout` sends SIGTERM to its child and then to
 * the whole group. Signal handlers may call this too. */
static inline bool mr_signals_are_one(int64_t first_ns, int64_t second_ns) {
    return second_ns - first_ns < 500000000;
}

/* If the first signal arrives before a pipeline is watched, that pipeline is drained once it is watched. If no pipeline
 * is watched within `patience_ns` (0: ten seconds) after the signal, the process exits. */
int mr_signals_begin(int64_t patience_ns);
void mr_signals_watch(mr_pipeline *pipeline);
/* Signals stay blocked. A signal that did not drain a pipeline becomes pending again, for the next thread that takes
 * signals. A second call does nothing. */
void mr_signals_end(void);
/* Call it after end, with the control socket closed. `code` is the run's exit code; results may be in transit for a
 * while. The process exits if it has not ended within patience_ns (see begin) of the first signal, or when another
 * signal arrives. */
void mr_signals_leave(int code);
/* The first notes whether standard input or standard error is a terminal; the second, whether such a terminal has been
 * closed since. */
void mr_signals_note_terminal(void);
bool mr_signals_terminal_gone(void);
/* Adds the signals that a run takes to `set`; a thread that takes them blocks them first. */
void mr_signals_add(sigset_t *set);

/* Whether a signal has asked for the end, and when (mr_now_ns); 0: none has. */
bool mr_signals_came(void);
int64_t mr_signals_asked_ns(void);
/* The exit code of a verb that ends with `code`: 128 plus the signal if a signal ended it. Call it after
 * mr_signals_end. */
int mr_signals_code(int code);

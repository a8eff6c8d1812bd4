/* Signals of a run, on a thread of their own: SIGINT and SIGTERM drain, the second of them exits at once; SIGHUP (the
 * terminal is gone) drains, unless it is ignored, as under nohup, and never more than that; SIGUSR1 prints the summary
 * so far. The same thread serves the control socket, if one was opened before (control.h).
 *
 * begin comes before any other thread is started, since threads inherit what is blocked; end before the pipeline
 * is destroyed, and leave while it is, which may take as long as its sinks linger. One run at a time. */
#ifndef MILLRACE_TOOLS_RUN_SIGNALS_H
#define MILLRACE_TOOLS_RUN_SIGNALS_H

#include <signal.h>

#include "millrace/millrace.h"

/* A first signal that comes before a pipeline is watched drains the one that then is; after `patience_ns`, or ten
 * seconds where that is 0, it exits. */
int mr_signals_begin(int64_t patience_ns);
void mr_signals_watch(mr_pipeline *pipeline);
/* Signals stay blocked, and one that no pipeline was drained for is pending again, for who takes signals next. Once
 * more does nothing. */
void mr_signals_end(void);
/* After end, and with the control socket closed: what the run has come to, the exit code, is told, and results may be
 * on their way for a while. That is waited for as long as begin says, from the first signal on; then, or with one more,
 * the process exits. */
void mr_signals_leave(int code);
/* Those that a run takes; who takes them blocks them first. Added to `set`. */
void mr_signals_add(sigset_t *set);

#endif

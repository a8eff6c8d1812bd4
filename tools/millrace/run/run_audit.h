/* A run's audit log entries: the start, with the pipeline; signals that end it; the end. */
#pragma once

#include "millrace/plan.h"

/* Opens the log. NULL: there is none. */
int mr_run_audit_open(const char *path);
/* Enters the start of the pipeline with that plan, read from `file` ("-": standard input). */
void mr_run_audit_begin(const mr_plan_view *plan, const char *file);
/* Enters a signal that ends the run; `does` is the effect. Any thread. Does nothing without a log. */
#define MR_SIGNAL_READS "reopens files and reads sources"
#define MR_SIGNAL_DRAINS "drains"
#define MR_SIGNAL_EXITS "exits at once"
struct signalfd_siginfo;
void mr_run_audit_signal(const struct signalfd_siginfo *signal, const char *does);
/* For a signal that reopens files: reopens the log and enters the signal. */
void mr_run_audit_reopen(const struct signalfd_siginfo *signal);
/* Enters the end of the run with this status, and closes the log. `summary` may be NULL. */
void mr_run_audit_end(const mr_summary *summary, int status);

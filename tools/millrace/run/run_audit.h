/* A run's entries in the audit log: the start, with the pipeline, the signals that end it, and the end. */
#pragma once

#include "millrace/plan.h"

/* Opens the log; NULL is none. */
int mr_run_audit_open(const char *path);
/* The pipeline with that plan was read from `file` ("-": standard input) and starts. */
void mr_run_audit_begin(const mr_plan_view *plan, const char *file);
/* A signal that ends the run has arrived; `does` is the effect. Any thread; nothing without a log. */
#define MR_SIGNAL_READS "reopens files and reads sources"
#define MR_SIGNAL_DRAINS "drains"
#define MR_SIGNAL_EXITS "exits at once"
struct signalfd_siginfo;
void mr_run_audit_signal(const struct signalfd_siginfo *signal, const char *does);
/* A signal that asks for files to be opened anew: opens the log anew, and enters the signal. */
void mr_run_audit_reopen(const struct signalfd_siginfo *signal);
/* The run has ended with this status; `summary` may be NULL. Ends the log. */
void mr_run_audit_end(const mr_summary *summary, int status);

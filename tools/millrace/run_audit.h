/* What a run enters into the audit log: that it began, with which pipeline, and how it ended. */
#ifndef MILLRACE_TOOLS_RUN_AUDIT_H
#define MILLRACE_TOOLS_RUN_AUDIT_H

#include "millrace/millrace.h"

/* Opens the log; NULL is none. */
int mr_run_audit_open(const char *path);
/* A pipeline was read from `file` ("-": standard input) and starts. */
void mr_run_audit_begin(const mr_pipeline *pipeline, const char *file);
/* It has ended so; `summary` may be NULL. Ends the log. */
void mr_run_audit_end(const mr_summary *summary, int status);

#endif

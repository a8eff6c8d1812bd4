/* Reports from a node's process to its supervisor: the summary, as one JSON line. It is sent when the process has
 * started, twice a second, and once more with the exit code when it has ended.
 *
 * Written to the descriptor that MILLRACE_REPORT_FD names; without it nothing is reported. One thread. */
#pragma once

#include <stdio.h>

#include "millrace/millrace.h"

#define MR_REPORT_VARIABLE "MILLRACE_REPORT_FD"

typedef struct mr_report {
    FILE *stream; /* NULL: there is no supervisor */
} mr_report;

void mr_report_begin(mr_report *report);
/* The supervisor may be gone: errors are ignored. */
void mr_report_send(const mr_report *report, const mr_summary *summary, bool finished, int status);
void mr_report_end(mr_report *report);

/* Sends reports from a node's process to the supervisor: the summary as one JSON line. It is sent after the start,
 * twice a second, and at the end with the exit code.
 *
 * Writes to the descriptor in MILLRACE_REPORT_FD; without it, reports nothing. One thread. */
#pragma once

#include <stdio.h>

#include "millrace/millrace.h"

#define MR_REPORT_VARIABLE "MILLRACE_REPORT_FD"

typedef struct mr_report {
    FILE *stream; /* NULL: there is no supervisor */
} mr_report;

void mr_report_begin(mr_report *report);
/* Ignores errors, since the supervisor may be gone. */
void mr_report_send(const mr_report *report, const mr_summary *summary, bool finished, int status);
void mr_report_end(mr_report *report);

/* What the process of a node tells the one that watches over it: its summary, as one line of JSON, when it has started,
 * twice a second, and once more with the exit code when it has ended.
 *
 * It writes to the descriptor that MILLRACE_REPORT_FD names; without that nothing is told. One thread. */
#ifndef MILLRACE_TOOLS_RUN_REPORT_H
#define MILLRACE_TOOLS_RUN_REPORT_H

#include <stdio.h>

#include "millrace/millrace.h"

#define MR_REPORT_VARIABLE "MILLRACE_REPORT_FD"

typedef struct mr_report {
    FILE *stream; /* NULL: nobody wants to know */
} mr_report;

void mr_report_begin(mr_report *report);
/* A supervisor that is gone misses nothing. */
void mr_report_send(const mr_report *report, const mr_summary *summary, bool finished, int status);
void mr_report_end(mr_report *report);

#endif

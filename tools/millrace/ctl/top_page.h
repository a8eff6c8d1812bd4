/* The text of `millrace top`, from two summaries of a run. */
#pragma once

#include <stdio.h>

#include "millrace/millrace.h"

typedef struct mr_top_run {
    long pid;
    const char *command;       /* its command line, which distinguishes nodes and replicas */
    const char *why;           /* why `now` is missing or old; NULL: it is not */
    const mr_summary *before;  /* NULL: none yet; rates are then those since the start */
    const mr_summary *now;     /* NULL: none yet */
} mr_top_run;

/* Prints the run: totals, sources, stages and devices, with rates between the two summaries. Sources that are not live
 * come first; after `most_sources` the others are only counted. MR_OK or MR_ERROR_MEMORY. */
int mr_top_print(const mr_top_run *run, size_t most_sources, int width, FILE *stream);

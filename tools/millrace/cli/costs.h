/* Costs that were measured before: the output of `millrace plan --profile --json`, read again for planning. */
#pragma once

#include <stddef.h>

#include "millrace/millrace.h"

typedef struct mr_costs {
    size_t count;
    mr_measured_cost *cost; /* stage costs per source frame */
    void *text;             /* private: the text that they point into */
} mr_costs;

/* Reads a file; costs read before are discarded. For a stage on a device the time is the device's, for others the
 * processor's. MR_ERROR_NO_INPUT, MR_ERROR_IO, or MR_ERROR_DATA if it holds no profile. */
int mr_costs_read(mr_costs *costs, const char *path);
void mr_costs_fini(mr_costs *costs);

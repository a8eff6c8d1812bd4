/* Costs from an earlier measurement: reads the output of `millrace plan --profile --json` for planning. */
#pragma once

#include <stddef.h>

#include "millrace/millrace.h"

typedef struct mr_costs {
    size_t count;
    mr_measured_cost *cost; /* stage costs per source frame */
    void *text;             /* private: the text that the costs point into */
} mr_costs;

/* Reads a file and discards costs that were read before. Times are device times for stages on a device, else processor
 * times. MR_ERROR_NO_INPUT, MR_ERROR_IO, or MR_ERROR_DATA if the file holds no profile. */
int mr_costs_read(mr_costs *costs, const char *path);
void mr_costs_fini(mr_costs *costs);

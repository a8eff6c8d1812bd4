/* Costs that were measured before: what `millrace plan --profile --json` printed, read again for planning. */
#ifndef MILLRACE_TOOLS_CLI_COSTS_H
#define MILLRACE_TOOLS_CLI_COSTS_H

#include <stddef.h>

#include "millrace/millrace.h"

typedef struct mr_costs {
    size_t count;
    mr_measured_cost *cost; /* of stages, for each frame of the sources */
    void *text;             /* private: what they point into */
} mr_costs;

/* Reads a file; what was read before is forgotten. Of a stage on a device it takes the time of the device, of others
 * that of the processor. MR_ERROR_NO_INPUT, MR_ERROR_IO, or MR_ERROR_DATA where it holds no profile. */
int mr_costs_read(mr_costs *costs, const char *path);
void mr_costs_fini(mr_costs *costs);

#endif

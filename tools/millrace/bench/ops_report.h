/* `millrace bench ops` as the command runs it: arguments, devices, output. */
#pragma once

#include "tools/millrace/cli/command.h"

enum { MR_OPS_MOST = 16 }; /* devices, and networks */

typedef struct mr_ops_request {
    const char *devices[MR_OPS_MOST + 1], *models[MR_OPS_MOST + 1]; /* ended by NULL */
    size_t device_count, model_count;
    const char *only; /* NULL: all */
} mr_ops_request;

/* Adds the argument of an option that may be given several times. Returns an exit code. */
int mr_ops_add(const mr_usage *usage, const char *option, const char **list, size_t *count, const char *argument);
/* `seconds`: 0: as it comes. Returns an exit code. */
int mr_bench_ops(const mr_usage *usage, const mr_ops_request *request, long long seconds, bool as_json);

/* Runs `millrace bench ops` for the command: arguments, devices, output. */
#pragma once

#include "tools/millrace/cli/command.h"

typedef struct mr_ops_request {
    mr_words devices, models;
    const char *only; /* NULL: all */
} mr_ops_request;

/* Without devices, uses all available ones. `seconds` 0: the default. Returns an exit code. */
int mr_bench_ops(const mr_usage *usage, mr_ops_request *request, long long seconds, bool as_json);

/* Deterministic mode: no threads, a seeded order and a simulated clock. One thread at a time. */
#pragma once

#include "engine/flow/executor/executor.h"

/* Adds a simulated device, which mr_executor_drive advances. MR_ERROR_CONFIG: more than 64. */
int mr_executor_add_device(mr_executor *executor, mr_device *device) __attribute__((warn_unused_result));
/* Runs until nothing can run or is awaited, or until until_ns. False if nothing is left. */
bool mr_executor_drive(mr_executor *executor, int64_t until_ns);

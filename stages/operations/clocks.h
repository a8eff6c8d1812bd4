/* Clocks of processors and GPUs at this moment. Any thread. */
#ifndef MILLRACE_STAGES_OPERATIONS_CLOCKS_H
#define MILLRACE_STAGES_OPERATIONS_CLOCKS_H

#include "engine/device/device.h"
#include "millrace/operations.h"

/* All 0 of a simulated device. */
mr_operations_clocks mr_clocks_read(const mr_device *device);

#endif

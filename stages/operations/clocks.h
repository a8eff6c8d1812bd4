/* Current processor and GPU clocks. Any thread. */
#pragma once

#include "engine/device/device.h"
#include "millrace/operations.h"

/* All 0 for a simulated device. */
mr_operations_clocks mr_clocks_read(const mr_device *device);

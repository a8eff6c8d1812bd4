/* Does a simulated device's work. */
#pragma once

#include "engine/device/device.h"

/* The thread of a device that is not manual. */
void *mr_sim_run(void *device);
/* mr_device_advance for a simulated device whose `manual` is set. */
int64_t mr_sim_advance(mr_device *device, int64_t now_ns);

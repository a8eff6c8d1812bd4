/* Makes the view of this machine's devices (millrace/devices.h). */
#pragma once

#include "engine/device/probe/gpu.h"
#include "millrace/devices.h"

/* mr_machine_open with the calls in a given table. */
int mr_machine_open_with(const mr_machine **machine, const mr_gpu_access *access);

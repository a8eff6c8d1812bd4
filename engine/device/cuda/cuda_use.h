/* What every call of the CUDA runtime needs: the current device, errors, and other devices' memory. Any thread. */
#pragma once

#include <cuda_runtime_api.h>

#include "engine/device/device.h"

/* Fails with the runtime's message, and resets the runtime's error. */
int mr_cuda_failed(const mr_device *device, cudaError_t error, const char *what);
/* Every call of the runtime is about the thread's current device: from now on this one. */
int mr_cuda_use(const mr_device *device);
/* Whether more than one was ever opened in this process. */
bool mr_cuda_has_several(void);
/* A device is opened: it and all others that were opened in this process reach each other's memory from now on. */
void mr_cuda_meet_others(int index);

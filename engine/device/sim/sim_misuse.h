/* Misuse of simulated devices: logged and counted. Any thread. */
#pragma once

#include "engine/device/device.h"

/* Logs and counts misuse and answers MR_ERROR_INTERNAL with the message. */
int mr_sim_misuse(const mr_device *device, const mr_stage *stage, const mr_identity *frame, const char *what);
/* How many misuses this process has found on simulated devices. */
uint64_t mr_sim_misuses(void);

/* Failed calls: the reason for the ledger, and lost devices. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* The ledger's reason for frames dropped by this failure. */
const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status);
/* The slot's device failed: later calls go to another device if they can. */
void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot);

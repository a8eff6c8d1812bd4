/* Calls that fail: the ledger's reason, and devices that are lost. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_FAILURE_H
#define MILLRACE_FLOW_FAILURE_H

#include "engine/flow/instance/instance.h"

/* The ledger's reason for frames that such a failure drops. */
const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status);
/* The slot's device has failed: the next calls go elsewhere, if possible. */
void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot);

#endif

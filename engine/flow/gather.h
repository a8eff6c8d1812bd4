/* Collects a call's inputs from one link. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_GATHER_H
#define MILLRACE_FLOW_GATHER_H

#include "engine/flow/instance/instance.h"

/* Collects the next call's inputs in `slot`. True if they are complete; otherwise the entry will be woken. */
bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);

#endif

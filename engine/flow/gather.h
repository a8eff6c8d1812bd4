/* Collects a call's inputs from one link. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* Collects the next call's inputs in `slot`. True if they are complete; otherwise the entry will be woken. */
bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);

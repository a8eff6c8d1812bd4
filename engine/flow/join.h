/* A join's inputs for one call. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* mr_instance_gather for stages with several ports: takes one frame from each, matched by identity. */
bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);

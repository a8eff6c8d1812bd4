/* One run of an instance's entry. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* An entry's task: does all work that it can do now. */
void mr_instance_run(void *entry);

/* One run of an instance's entry. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_STEP_H
#define MILLRACE_FLOW_STEP_H

#include "engine/flow/instance/instance.h"

/* An entry's task: does all work that it can do now. */
void mr_instance_run(void *entry);

#endif

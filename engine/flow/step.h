/* One run of an instance. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_STEP_H
#define MILLRACE_FLOW_STEP_H

#include "engine/flow/instance/instance.h"

/* The task of an entry: does all work that can be done now. */
void mr_instance_run(void *entry);

#endif

/* Queue lengths and buffer counts. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Join queues, and output_buffers. The planner can call it again. MR_ERROR_MEMORY. */
int mr_plan_sizes(mr_plan_builder *builder);
/* Whether a link's frames can leave the stage that it leads to in their buffers. */
bool mr_plan_passes_on(const mr_plan_builder *builder, const mr_plan_link *link);

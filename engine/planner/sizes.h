/* Lengths of queues, and numbers of buffers. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* Queues of joins, and output_buffers; may be called again. MR_ERROR_MEMORY. */
int mr_plan_sizes(mr_plan_builder *builder);
/* Whether a link's frames may leave the stage that it leads to in their buffers. */
bool mr_plan_passes_on(const mr_plan_builder *builder, const mr_plan_link *link);

/* Endpoints for each process on each node, and the keys. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* After the cuts were made. MR_ERROR_MEMORY. */
int mr_plan_assign_endpoints(mr_plan_builder *builder);

/* Endpoints of each process of each node, and their keys. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* After the cuts were made. MR_ERROR_MEMORY. */
int mr_plan_assign_endpoints(mr_plan_builder *builder);

/* The memory account: rows and sums. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Makes the memory rows and sums. Must be called after the pools. MR_ERROR_MEMORY. */
int mr_plan_account(mr_plan_builder *builder);
/* The most memory that a pool needs on each device, for all instances. */
uint64_t mr_plan_pool_bytes(const mr_plan_vertex *vertex, const mr_view_pool *pool);

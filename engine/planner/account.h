/* The account of memory: rows and sums. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* The rows of memory and their sums; after the pools. MR_ERROR_MEMORY. */
int mr_plan_account(mr_plan_builder *builder);
/* The most memory that a pool of all instances needs, on each of its devices. */
uint64_t mr_plan_pool_bytes(const mr_plan_vertex *vertex, const mr_view_pool *pool);

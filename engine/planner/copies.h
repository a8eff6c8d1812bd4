/* Inserts copies between memories. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Numbers vertices and links anew. MR_ERROR_MEMORY. */
int mr_plan_insert_copies(mr_plan_builder *builder);

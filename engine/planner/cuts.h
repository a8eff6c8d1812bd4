/* Makes cuts between nodes, and sizes windows. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Inserts cuts between nodes; numbers vertices and links anew. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_insert_cuts(mr_plan_builder *builder);

/* Copies between memories. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* Numbers vertices and links anew. MR_ERROR_MEMORY. */
int mr_plan_insert_copies(mr_plan_builder *builder);

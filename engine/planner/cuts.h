/* Cuts between nodes, and their windows. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* Inserts cuts between nodes; numbers vertices and links anew. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_insert_cuts(mr_plan_builder *builder);

/* Chooses devices for stages that leave this to the planner. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Needs pools. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_place_auto(mr_plan_builder *builder);

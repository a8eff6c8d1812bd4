/* Devices of stages that leave the choice to the planner. Between the files of the planner. */
#pragma once

#include "engine/planner/builder.h"

/* Needs pools. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_place_auto(mr_plan_builder *builder);

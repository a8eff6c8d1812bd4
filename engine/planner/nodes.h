/* Decides which node runs which stage. Only planner files may use it. */
#pragma once

#include "engine/planner/graph/builder.h"

/* After the vertices were created. MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_assign_nodes(mr_plan_builder *builder);
/* Whether another process than the planned one runs a stage or source: the files need not be on this machine. */
bool mr_plan_is_elsewhere(const mr_plan_builder *builder, int vertex);
/* The same, and the files are not here either: it must be negotiated without opening anything. */
bool mr_plan_is_unseen(const mr_plan_builder *builder, int vertex);

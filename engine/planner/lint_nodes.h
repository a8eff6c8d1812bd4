/* Frames that come back to the node from which they came. See lint.h. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Runs that may stand still, or write results twice, after a process of that node was replaced (plan/renewal.h). Once
 * cuts are in the plan. */
int mr_lint_nodes(mr_plan_builder *builder);

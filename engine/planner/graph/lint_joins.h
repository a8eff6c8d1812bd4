/* Joins whose inputs can never carry the same frame, or not in one order. See lint.h. */
#pragma once

#include "engine/planner/graph/builder.h"

int mr_lint_joins(mr_plan_builder *builder);

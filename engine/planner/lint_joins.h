/* Joins whose inputs can never carry the same frame, or not in one order. See lint.h. */
#ifndef MILLRACE_PLANNER_LINT_JOINS_H
#define MILLRACE_PLANNER_LINT_JOINS_H

#include "engine/planner/builder.h"

int mr_lint_joins(mr_plan_builder *builder);

#endif

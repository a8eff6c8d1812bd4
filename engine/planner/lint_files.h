/* Stages that write one file, or over a file that is read. See lint.h. */
#ifndef MILLRACE_PLANNER_LINT_FILES_H
#define MILLRACE_PLANNER_LINT_FILES_H

#include "engine/planner/builder.h"

int mr_lint_files(mr_plan_builder *builder);

#endif

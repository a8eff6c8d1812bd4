/* Stages that write one file, or over a file that is read. See lint.h. */
#pragma once

#include "engine/planner/graph/builder.h"

int mr_lint_files(mr_plan_builder *builder);

/* What `require` demands of the pictures that leave a pipeline. See lint.h. */
#pragma once

#include "engine/planner/graph/builder.h"

int mr_lint_required(mr_plan_builder *builder);

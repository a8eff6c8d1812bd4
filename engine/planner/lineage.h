/* What the vectors at an input are made by (mr_lineage in millrace/stage.h): the stages before it, with their options.
 * One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/planner/graph/builder.h"
#include "millrace/stage.h"

/* Writes the text and its digest into the plan's arena. `before` has a false for each vertex; it becomes true for those
 * in the lineage. MR_ERROR_MEMORY; MR_ERROR_NO_INPUT: a file that an option names cannot be read. */
int mr_plan_lineage(const mr_plan_builder *b, int v, size_t input, bool *before, mr_lineage *lineage);

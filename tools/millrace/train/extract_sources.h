/* Finds the source in a plan that a data set's files replace. Any thread. */
#pragma once

#include <stdbool.h>

#include "millrace/plan.h"

/* Marks the stages that lead to `to`; `before` must have one entry per stage. */
void mr_extraction_mark(const mr_plan_view *plan, int to, bool *before);
/* The first source that leads to `classify`; all such sources must take the same way. MR_ERROR_CONFIG,
 * MR_ERROR_MEMORY. */
int mr_extraction_find_source(const mr_plan_view *plan, const mr_view_stage *classify, const mr_view_stage **source);

/* The source in whose place the files of a data set come, in a plan. Any thread. */
#pragma once

#include <stdbool.h>

#include "millrace/plan.h"

/* Marks the stages that lead to `to`; `before` is as long as the plan's stages. */
void mr_extraction_mark(const mr_plan_view *plan, int to, bool *before);
/* The first source that leads to `classify`, if the others that do go the same way. MR_ERROR_CONFIG,
 * MR_ERROR_MEMORY. */
int mr_extraction_find_source(const mr_plan_view *plan, const mr_view_stage *classify, const mr_view_stage **source);

/* Lint: known mistakes in a pipeline of which every key and every link is right by itself.
 *
 * A pipeline that can never work is refused. One that works, but not as the author must have meant it, gets a warning.
 * Each message has its place, the value found, the value expected, and a hint at the fix. Nothing is opened; files are
 * at most looked up, to find out whether two paths are one file. One thread at a time. All functions: MR_OK or
 * MR_ERROR_MEMORY. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Once formats are known. `linked`: every input was found. */
int mr_lint_plan(mr_plan_builder *builder, bool linked);
/* Must be called once queues and batches are decided, for a pipeline without errors. */
int mr_lint_sizes(mr_plan_builder *builder);

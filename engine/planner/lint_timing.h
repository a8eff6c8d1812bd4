/* Batches and deadlines. See lint.h. */
#pragma once

#include "engine/plan/plan_data.h"

struct mr_plan_builder;

/* Batches that never fill, or for which frames wait forever; queues of joins that are too short for the batches on the
 * way there. */
int mr_lint_batches(struct mr_plan_builder *builder);
/* Deadlines of sources that keep to no clock, or shorter than the wait for batches. */
int mr_lint_deadlines(struct mr_plan_builder *builder);
/* Warns about each deadline that is shorter than a frame's time on the longest way from its source: each stage's
 * measured cost and the wait for batches. `cost_ns` by vertex: nanoseconds inside it for one frame; a batch costs that
 * for each frame. MR_OK or MR_ERROR_MEMORY. */
int mr_lint_costs(const mr_plan *plan, const int64_t *cost_ns, mr_diagnostics *diagnostics);

/* Writes a time for people, to four digits: "33.33ms"; returns `text`. */
const char *mr_lint_print_time(int64_t ns, char *text, size_t bytes);

/* Lint: what is known to go wrong in a pipeline of which every key and every link is right by itself.
 *
 * What can never work is refused; what works, but not as its author must have meant it, is warned of. Each message
 * has its place, what was found, what was expected, and a hint at what to write. Nothing is opened: files are at
 * most looked up, to tell whether two paths are one file. One thread at a time. */
#ifndef MILLRACE_PLAN_LINT_H
#define MILLRACE_PLAN_LINT_H

#include "engine/plan/plan.h"

struct mr_plan_builder;

/* Once formats are known: what nobody takes, and the checks below. `linked`: every input was found. MR_OK or
 * MR_ERROR_MEMORY. */
int mr_lint_plan(struct mr_plan_builder *builder, bool linked);

/* lint_files.c: stages that write one file, or over a file that is read. */
int mr_lint_files(struct mr_plan_builder *builder);
/* lint_outputs.c: files that could not be written, since their folder is missing or forbids it; not for a plan that
 * opens nothing. */
int mr_lint_outputs(struct mr_plan_builder *builder);
/* lint_joins.c: joins whose inputs can never carry the same frame, or not in one order. */
int mr_lint_joins(struct mr_plan_builder *builder);

/* Once queues and batches are decided, of a pipeline without errors: the checks below. MR_OK or MR_ERROR_MEMORY. */
int mr_lint_sizes(struct mr_plan_builder *builder);

/* lint_batches.c: batches that never fill, or for which frames wait without end; queues of joins that are too
 * short for the batches on the way there. */
int mr_lint_batches(struct mr_plan_builder *builder);
/* lint_pools.c: pools that would have to be larger than they may be. */
int mr_lint_pools(struct mr_plan_builder *builder);
/* How long a frame may wait for its batch to fill: as long as `timeout`, or as the batch takes where that is known
 * to be less; 0 where neither is known. */
int64_t mr_lint_batch_wait_ns(const mr_plan *plan, const mr_plan_vertex *vertex);
/* lint_deadline.c: deadlines of sources that keep to no clock, or shorter than the wait for batches. */
int mr_lint_deadlines(struct mr_plan_builder *builder);

/* Warns, at its place, of each deadline that is shorter than what a frame takes on the longest way from its
 * source: the measured cost of each stage (`cost_ns` by vertex: nanoseconds inside it for one frame; a batch takes
 * so much for each of its frames) and the wait for batches. MR_OK or MR_ERROR_MEMORY. */
int mr_lint_costs(const mr_plan *plan, const int64_t *cost_ns, mr_diagnostics *diagnostics);

/* Writes a time for people, to four digits: "33.33ms"; returns `text`. */
const char *mr_lint_print_time(int64_t ns, char *text, size_t bytes);

#endif

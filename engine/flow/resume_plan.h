/* Whether a plan can be resumed, and how. Plans are only read: any thread. Internal to resume.c. */
#ifndef MILLRACE_FLOW_RESUME_PLAN_H
#define MILLRACE_FLOW_RESUME_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/flow/graph.h"

/* Whether the pipeline can be resumed; errors as of mr_resume_create. */
int mr_resume_check(const mr_plan *plan);
/* Whether a node of the plan reads sources or writes output; and whether a process of it can resume if it is
 * restarted. */
bool mr_resume_concerns(const mr_plan *plan, int node);
bool mr_resume_serves(const mr_plan *plan, int node);
/* Of a source's type and options: equal if it gives the same frames, as long as its files are the same. */
uint64_t mr_resume_digest(const mr_plan_vertex *source);
/* Tells the instances whether to leave settled frames out. MR_ERROR_MEMORY. */
int mr_resume_mark(mr_graph *graph);

#endif

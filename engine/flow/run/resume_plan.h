/* Whether a plan can be resumed, and how. Plans are only read: any thread. Internal to resume.c. */
#ifndef MILLRACE_FLOW_RUN_RESUME_PLAN_H
#define MILLRACE_FLOW_RUN_RESUME_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/plan/plan_data.h"

/* Whether the pipeline can be resumed; errors as of mr_resume_create. */
int mr_resume_check(const mr_plan *plan);
/* Whether a node of the plan reads sources or writes output; and whether a process of it can resume if it is
 * restarted. */
bool mr_resume_concerns(const mr_plan *plan, int node);
bool mr_resume_serves(const mr_plan *plan, int node);
/* Of a source's type and options: equal if it gives the same frames, as long as its files are the same. */
uint64_t mr_resume_digest(const mr_plan_vertex *source);
/* Which vertices process settled frames again, since they or a stage behind them keep state. MR_ERROR_MEMORY. */
int mr_resume_mark(const mr_plan *plan, bool **passes);

#endif

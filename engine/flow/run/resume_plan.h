/* Whether and how a plan can be resumed. Only reads the plan: any thread. Internal to resume.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/plan/plan_data.h"

/* Whether the pipeline can be resumed; returns mr_resume_create's errors. */
int mr_resume_check(const mr_plan *plan);
/* Whether a node reads sources or writes output; whether the node's process can resume if it is restarted. */
bool mr_resume_concerns(const mr_plan *plan, int node);
bool mr_resume_serves(const mr_plan *plan, int node);
/* A digest over the source's type and options. Equal digests give the same frames, if the files are unchanged. */
uint64_t mr_resume_digest(const mr_plan_vertex *source);
/* Which vertices must process settled frames again, since they or later stages keep state. MR_ERROR_MEMORY. */
int mr_resume_mark(const mr_plan *plan, bool **passes);

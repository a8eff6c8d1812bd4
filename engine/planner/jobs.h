/* How many sources are open at a time. Between the files of the planner. */
#pragma once

#include "engine/planner/graph/builder.h"

/* Whether the source is one of several that were written as one folder or glob, so the run can go on without it. */
bool mr_plan_may_spare(const mr_plan_builder *builder, int vertex);
/* Gives sources that could not be opened the formats of others in the folder. An error if none can be opened. */
void mr_plan_fill_unreadable(mr_plan_builder *builder);
/* Decides which sources wait. Must be called once they were negotiated. */
int mr_plan_settle_jobs(mr_plan_builder *builder);

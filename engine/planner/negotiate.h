/* Formats of all links. Between the files of the planner. */
#ifndef MILLRACE_PLANNER_NEGOTIATE_H
#define MILLRACE_PLANNER_NEGOTIATE_H

#include "engine/planner/builder.h"

/* MR_OK or MR_ERROR_MEMORY; diagnoses all else. */
int mr_plan_negotiate(mr_plan_builder *builder);

#endif

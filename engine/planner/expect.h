/* Expected frame rates. Between the files of the planner. */
#ifndef MILLRACE_PLANNER_EXPECT_H
#define MILLRACE_PLANNER_EXPECT_H

#include "engine/planner/builder.h"

/* plan->expected, if a device is like a card. MR_ERROR_MEMORY. */
int mr_plan_expect(mr_plan_builder *builder);

#endif

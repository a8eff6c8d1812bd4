/* Work that a later stage would not look at. */
#pragma once

#include "engine/plan/plan_data.h"

/* If a stage passes frames (mr_negotiation.every), lets the copies and stages before it, which make its input only,
 * pass them too. Such frames have no payload from there on, so no stage after it may need one (mr_stage_type.blind).
 * Call when all copies and cuts are inserted. MR_ERROR_MEMORY. */
int mr_plan_spare(mr_plan *plan);

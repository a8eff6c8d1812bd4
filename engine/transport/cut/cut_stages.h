/* Stage types for a cut's two ends (engine/plan/cut.h), which the planner inserts. */
#pragma once

#include "millrace/stage.h"

/* Producer's side: a sink. */
extern const mr_stage_type mr_cut_out_stage;
/* Consumer's side: one input port, to which the edge of the cut leads, and one output port. */
extern const mr_stage_type mr_cut_in_stage;

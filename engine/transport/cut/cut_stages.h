/* The stage types of the two ends of a cut (engine/plan/cut.h), for the planner to put in. */
#pragma once

#include "millrace/stage.h"

/* Producer's side: a sink. */
extern const mr_stage_type mr_cut_out_stage;
/* Consumer's side: one input port, to which the edge of the cut leads, and one output port. */
extern const mr_stage_type mr_cut_in_stage;

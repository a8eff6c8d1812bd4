/* The stage types of the two ends of a cut (engine/plan/cut.h), for the planner to put in. */
#ifndef MILLRACE_TRANSPORT_CUT_CUT_STAGES_H
#define MILLRACE_TRANSPORT_CUT_CUT_STAGES_H

#include "millrace/stage.h"

/* Producer's side: a sink. */
extern const mr_stage_type mr_cut_out_stage;
/* Consumer's side: one input port, to which the edge of the cut leads, and one output port. */
extern const mr_stage_type mr_cut_in_stage;

#endif

/* Whether the run begins with this process or goes on: what mr_stage_run_state answers.
 *
 * A run goes on where there was a checkpoint, or where a node before this one says so (engine/transport/session/session.h). Each
 * cut in tells what it has heard; every vertex goes by the cuts in that its frames come through. Any thread. */
#ifndef MILLRACE_FLOW_RUN_STATE_H
#define MILLRACE_FLOW_RUN_STATE_H

#include "engine/flow/graph.h"

/* Nothing has been heard yet. MR_ERROR_MEMORY. */
int mr_run_state_create(mr_graph *graph);
void mr_run_state_destroy(mr_graph *graph);

/* What the cut in at that vertex has heard; only the first word counts. */
void mr_run_state_tell(mr_graph *graph, int vertex, mr_run_state state);
/* How it stands with what comes to that vertex. */
mr_run_state mr_run_state_of(const mr_graph *graph, int vertex);

#endif

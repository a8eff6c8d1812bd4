/* Whether the run begins with this process or continues: the answer of mr_stage_run_state.
 *
 * A run continues if there was a checkpoint, or if a node before this one says so (engine/transport/session/session.h).
 * Each cut in reports its state; every vertex goes by the cuts in that its frames come through. Any thread. */
#ifndef MILLRACE_FLOW_RUN_STATE_H
#define MILLRACE_FLOW_RUN_STATE_H

#include "engine/flow/graph.h"

/* Nothing is known yet. MR_ERROR_MEMORY. */
int mr_run_state_create(mr_graph *graph);
void mr_run_state_destroy(mr_graph *graph);

/* The state that the cut in at that vertex received; only the first report counts. */
void mr_run_state_tell(mr_graph *graph, int vertex, mr_run_state state);
/* The state for frames that come to that vertex. */
mr_run_state mr_run_state_of(const mr_graph *graph, int vertex);

#endif

/* Whether the run begins or continues: the answer of mr_stage_run_state.
 *
 * A run continues if there was a checkpoint, or if a node before this one says so (engine/transport/session/session.h).
 * Each cut in reports its state; every vertex goes by the cuts in that its frames come through. Any thread. */
#ifndef MILLRACE_FLOW_RUN_RUN_STATES_H
#define MILLRACE_FLOW_RUN_RUN_STATES_H

#include "engine/flow/run/run.h"

typedef struct mr_run_states mr_run_states;

/* Nothing is known yet. MR_ERROR_MEMORY. */
int mr_run_state_create(mr_run *run);
void mr_run_state_destroy(mr_run *run);

/* The state that the cut in at that vertex received; only the first report counts. */
void mr_run_state_tell(const mr_run *run, int vertex, mr_run_state state);
/* The state for frames that come to that vertex. */
mr_run_state mr_run_state_of(const mr_run *run, int vertex);

#endif

/* Whether the run begins or continues: the answer of mr_stage_run_state.
 *
 * A run continues if there was a checkpoint, or if an earlier node says so (engine/transport/session/session.h). Each
 * cut in reports a state; a vertex follows the cuts through which its frames come. Any thread. */
#pragma once

#include "engine/flow/run/run.h"

typedef struct mr_run_states mr_run_states;

/* Starts without any report. MR_ERROR_MEMORY. */
int mr_run_state_create(mr_run *run);
void mr_run_state_destroy(mr_run *run);

/* Notes the state that the vertex, a cut in, received; only the first report counts. */
void mr_run_state_tell(const mr_run *run, int vertex, mr_run_state state);
/* The state for frames that reach this vertex. */
mr_run_state mr_run_state_of(const mr_run *run, int vertex);

/* Looks at frames that pass a stage while the run goes on (mr_pipeline_tap). A look waits for one frame and gets a copy
 * that refers to its payload and results, without its receipt: the ledger does not wait for a look. Nothing else waits
 * for one either: without a look, a frame costs an atomic read, and if several threads meet here, it passes unseen. Any
 * thread. */
#pragma once

#include "engine/flow/run/run.h"

typedef struct mr_taps mr_taps;

int mr_taps_create(mr_taps **taps, const mr_plan *plan);
void mr_taps_destroy(mr_taps **taps);
/* Shows a frame that passes a stage to the looks there. */
void mr_taps_show(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame);
/* Waits for the next frame, and for the device's work on it. MR_ERROR_AGAIN: none came in time; MR_ERROR_CLOSED: the
 * run has ended; MR_ERROR_DEVICE: the work failed. */
int mr_taps_wait(const mr_run *run, const mr_plan_vertex *stage, int64_t timeout_ns, mr_frame **frame);

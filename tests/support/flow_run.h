/* Pipelines of the stage types in flow_stages.h, from the text to the summary. Their file is called p.yaml. */
#pragma once

#include "tests/support/flow_stages.h"

/* Opens a pipeline that must be valid, and forgets the frames that were collected before. `seed` as in
 * mr_pipeline_params: 0 runs on threads. */
mr_pipeline *flow_open(const char *text, uint64_t seed, int workers);

/* Waits until a pipeline that was started has ended well. Returns the summary, whose ledger balances with nothing in
 * flight; to be destroyed before the pipeline. */
mr_summary *flow_end(mr_pipeline *pipeline);
/* Starts it before. */
mr_summary *flow_run(mr_pipeline *pipeline);

/* All of `frames` arrived in order of their numbers, and went through `stages` that add one; except those that were
 * lost to errors of devices. */
void flow_expect(const mr_summary *summary, uint64_t frames, uint64_t stages);

/* Calls run(text, seed, workers, context) with the text on the cpu and on a simulated accelerator, whose name comes in
 * place of %s (%1$s) in `format`: under the seeds 1 to `seeds`, and without one on each of the worker counts. */
typedef void flow_run_function(const char *text, uint64_t seed, int workers, void *context);
void flow_everywhere(const char *format, uint64_t seeds, flow_run_function *run, void *context);

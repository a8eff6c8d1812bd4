/* Runs pipelines with the stage types in flow_stages.h, from text to summary. The pipeline file is called p.yaml. */
#pragma once

#include "tests/support/flow_stages.h"

/* Opens a pipeline, which must be valid, and forgets frames collected before. `seed` is as in mr_pipeline_params: 0
 * uses threads. */
mr_pipeline *flow_open(const char *text, uint64_t seed, int workers);

/* Waits until a started pipeline has ended well. The ledger must balance with nothing in flight. The caller must
 * destroy the summary before the pipeline. */
mr_summary *flow_end(mr_pipeline *pipeline);
/* Starts it first. */
mr_summary *flow_run(mr_pipeline *pipeline);

/* Checks that all `frames` arrived in order after `stages` that each add one, except those lost to device errors. */
void flow_expect(const mr_summary *summary, uint64_t frames, uint64_t stages);

/* Calls run(text, seed, workers, context) for the cpu and for a simulated accelerator, whose name replaces %s (%1$s) in
 * `format`: with seeds 1 to `seeds`, and without a seed for each worker count. */
typedef void flow_run_function(const char *text, uint64_t seed, int workers, void *context);
void flow_everywhere(const char *format, uint64_t seeds, flow_run_function *run, void *context);

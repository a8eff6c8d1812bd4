/* Opens pipelines that must be valid, and waits until they end. */
#pragma once

#include "millrace/millrace.h"

/* Opens a pipeline, which the caller must destroy; if it is refused, prints the errors and fails the test. */
mr_pipeline *opened(const mr_pipeline_params *params);

/* How long a run may take: two minutes, and ten under qemu. */
int64_t patience_ns(void);
/* Waits until a run ends; fails the test if that takes longer. Returns what mr_pipeline_wait returns. */
int ended(mr_pipeline *pipeline);
/* Starts a pipeline, waits until it ends, and checks that the ledger balances. Returns what mr_pipeline_wait returns;
 * the caller must destroy the summary. */
int run_opened(mr_pipeline *pipeline, mr_summary **summary);
/* The summary of a run that has ended, whose ledger must balance. */
mr_summary *summed(mr_pipeline *pipeline);

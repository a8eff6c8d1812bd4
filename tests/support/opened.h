/* Opens pipelines that must be valid, and waits for their end. */
#pragma once

#include "millrace/millrace.h"

/* The pipeline, to be destroyed; if it is refused, the errors are printed and the test fails. */
mr_pipeline *opened(const mr_pipeline_params *params);

/* Waits for the end of a run; if it takes two minutes it hangs, and the test fails. Returns the status of
 * mr_pipeline_wait. */
int ended(mr_pipeline *pipeline);

/* Opens pipelines that must be valid, and waits until they end. */
#pragma once

#include "millrace/millrace.h"

/* Opens a pipeline, which the caller must destroy; if it is refused, prints the errors and fails the test. */
mr_pipeline *opened(const mr_pipeline_params *params);

/* Waits until a run ends; fails the test after two minutes. Returns what mr_pipeline_wait returns. */
int ended(mr_pipeline *pipeline);

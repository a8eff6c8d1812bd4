/* Opening what must be a pipeline, and seeing it end. */
#ifndef MILLRACE_TESTS_OPENED_H
#define MILLRACE_TESTS_OPENED_H

#include "millrace/millrace.h"

/* The pipeline, to be destroyed; where it is refused, what was wrong is printed and the test fails. */
mr_pipeline *opened(const mr_pipeline_params *params);

/* Waits for the end of a run that must come to one: where it takes two minutes it hangs, and the test fails. What
 * mr_pipeline_wait answers at the end. */
int ended(mr_pipeline *pipeline);

#endif

/* Opening what must be a pipeline. */
#ifndef MILLRACE_TESTS_OPENED_H
#define MILLRACE_TESTS_OPENED_H

#include "millrace/millrace.h"

/* The pipeline, to be destroyed; where it is refused, what was wrong is printed and the test fails. */
mr_pipeline *opened(const mr_pipeline_params *params);

#endif

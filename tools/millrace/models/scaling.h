/* Whether a network of the list gets pictures as it was trained: mean, std and channel order. A network takes any
 * values without an error, and then gives wrong answers. */
#pragma once

#include "millrace/diagnostics.h"
#include "millrace/plan.h"

/* Adds a warning for each `preprocess` that scales otherwise than the network it feeds directly, at the place of the
 * preprocess. The network is known by the file's name and, if the file is here, its size. MR_OK or MR_ERROR_MEMORY. */
int mr_scaling_check(const mr_plan_view *plan, mr_diagnostics *diagnostics);
/* The same for an open pipeline. */
int mr_scaling_check_pipeline(const mr_pipeline *pipeline, mr_diagnostics *diagnostics);

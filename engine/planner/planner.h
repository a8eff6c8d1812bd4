/* The planner: spec -> plan (plan.h). One thread at a time. */
#pragma once

#include "engine/plan/plan_data.h"

/* The plan takes ownership of `spec` on success only. A broken spec (spec.h) is checked as far as possible and then
 * refused. The status is that of the first error in `diagnostics`. */
int mr_plan_create(mr_plan **plan, mr_spec *spec, const mr_plan_params *params, mr_diagnostics *diagnostics);
/* Both steps at once: `diagnostics` has every error in the text and the graph, sorted by place and capped at
 * MR_DIAGNOSTICS_SHOWN. */
int mr_plan_load(mr_plan **plan, const mr_spec_params *spec, const mr_plan_params *params,
                 mr_diagnostics *diagnostics);

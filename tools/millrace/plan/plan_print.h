/* The plan as text and JSON. plan_rows.h has the parts that other verbs print too.
 *
 * Everything comes from the plan's view (millrace/plan.h); nothing here repeats a run's computations. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/plan_rows.h"

/* plan_text.c: tables no wider than `width`. MR_OK or MR_ERROR_MEMORY. */
int mr_plan_print(const mr_plan_view *plan, int width, FILE *stream);
/* plan_json.c: the members of the plan's JSON object. */
void mr_plan_put_json(yajl_gen json, const mr_plan_view *plan);

/* Any bytes as a pipeline: nothing may crash, leak, or take long, and what is refused is refused with a reason.
 *
 *     tests/fuzz/run 60 fuzz_spec */
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"

FUZZ(data, bytes) {
    char *text = (char *)fuzz_copy(data, bytes, 1);
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "dir/fuzz.yaml", .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true, .cuts = true};
    int status = mr_plan_load(&plan, &spec, &params, &diagnostics);
    fault_if((status == MR_OK) != (plan != NULL) || (status != MR_OK && diagnostics.errors == 0));
    mr_plan_destroy(&plan);
    mr_diagnostics_fini(&diagnostics);
    free(text);
}

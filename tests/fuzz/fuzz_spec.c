/* Any bytes as a pipeline: nothing may crash, leak, or take long, and what is refused is refused with a reason.
 *
 *     tests/fuzz/run 60 fuzz_spec */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* libFuzzer's own name for what it calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "dir/fuzz.yaml", .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true, .cuts = true};
    int status = mr_plan_load(&plan, &spec, &params, &diagnostics);
    if ((status == MR_OK) != (plan != NULL) || (status != MR_OK && diagnostics.errors == 0))
        abort();
    mr_plan_destroy(&plan);
    mr_diagnostics_fini(&diagnostics);
    free(text);
    return 0;
}

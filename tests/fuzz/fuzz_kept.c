/* Any bytes as files in JSON that millrace writes and reads again: a checkpoint, measured costs, and the figures of a
 * card. Nothing may crash or leak; what is refused is refused with a reason. The first byte chooses the file.
 *
 *     tests/fuzz/run 60 fuzz_kept */
#include <stdio.h>

#include "engine/device/sim/card_file.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/resume.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/cli/costs.h"

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */

static const char pipeline[] = "version: 1\npipeline: p\n"
                               "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}}\n"
                               "stages: {out: {type: jsonl, input: [a, b], path: out.jsonl}}\n";

static const mr_plan *the_plan(void) {
    static mr_plan *plan;
    static mr_diagnostics wrong;
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "p.yaml", .text = pipeline};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true};
    if (!plan && mr_plan_load(&plan, &spec, &params, &wrong)) {
        mr_diagnostics_print(&wrong, stderr);
        abort();
    }
    return plan;
}

static void read_checkpoint(const uint8_t *data, size_t bytes) {
    mr_run run = {.plan = the_plan()};
    mr_resume *resume = NULL;
    fault_if(mr_ledger_create(&run.ledger, run.plan->source_count));
    int status = mr_resume_create(&resume, &run, fuzz_file("checkpoint", data, bytes));
    fuzz_expect_reason(status);
    fault_if(status != MR_OK && resume);
    for (uint32_t source = 0; resume && source < run.plan->source_count; source++) {
        const mr_identity frame = {.source = source, .epoch = mr_resume_epoch(resume, source)};
        (void)mr_resume_settled(resume, &frame);
        (void)mr_resume_over(resume, source);
    }
    mr_resume_destroy(&resume);
    mr_ledger_release(&run.ledger);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void read_costs(const uint8_t *data, size_t bytes) {
    mr_costs costs = {0};
    fuzz_expect_reason(mr_costs_read(&costs, fuzz_file("costs.json", data, bytes)));
    mr_costs_fini(&costs);
}

static void read_card(const uint8_t *data, size_t bytes) {
    mr_card card;
    fuzz_expect_reason(mr_card_read(fuzz_file("card.json", data, bytes), &card));
}

FUZZ(data, bytes) {
    static void (*const read[])(const uint8_t *data, size_t bytes) = {read_checkpoint, read_costs, read_card};
    if (bytes)
        read[data[0] % 3](data + 1, bytes - 1);
}

#include "engine/plan/lint.h"

#include "engine/plan/builder.h"
#include "millrace/status.h"

/* ---- what nobody takes ----------------------------------------------------------------------------------------- */

static bool output_is_taken(const mr_plan_builder *b, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
        if (b->link[b->out.item[i]].from_port == port)
            return true;
    return false;
}

static void warn_of_output(mr_plan_builder *b, const mr_spec_vertex *vertex, int port) {
    char hint[192];
    if (vertex->is_source) {
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, vertex->place,
                    "name it in a stage's `input`, or take it away", "nothing reads the source \"%s\"", vertex->id);
        return;
    }
    snprintf(hint, sizeof hint, "add a stage that takes it with `input: %s%s%s`, or take this one away", vertex->id,
             port ? "." : "", port ? vertex->type->outputs[port].name : "");
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, vertex->place, hint,
                "nothing takes the output \"%s\" of \"%s\"", vertex->type->outputs[port].name, vertex->id);
}

static void warn_of_unused(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        const mr_spec_vertex *vertex = b->vertex[v];
        for (int port = 0; vertex->type && port < mr_port_count(vertex->type->outputs); port++)
            if (!vertex->type->outputs[port].optional && !output_is_taken(b, v, port))
                warn_of_output(b, vertex, port);
    }
}

/* ---- together -------------------------------------------------------------------------------------------------- */

int mr_lint_plan(mr_plan_builder *b, bool linked) {
    if (linked && !b->spec->broken)
        warn_of_unused(b);
    if (mr_lint_files(b) || mr_lint_outputs(b))
        return MR_ERROR_MEMORY;
    return linked ? mr_lint_joins(b) : MR_OK;
}

/* What is assumed for nothing is not what was meant. */
static void warn_of_assumed(mr_plan_builder *b) {
    for (size_t v = b->plan->source_count; v < b->plan->vertex_count; v++)
        for (size_t i = 0; i < mr_plan_parts(&b->plan->vertices[v]); i++)
            if (mr_plan_part(&b->plan->vertices[v], i) > 0)
                return;
    if (b->params.assume_count)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, (mr_place){.file = "--assume"},
                    "write device: auto in the stages that compute, or --set stages.ID.device=auto",
                    "no stage is on a device that is assumed: all are on the processors");
}

int mr_lint_sizes(mr_plan_builder *b) {
    warn_of_assumed(b);
    return mr_lint_deadlines(b) || mr_lint_batches(b) || mr_lint_pools(b) ? MR_ERROR_MEMORY : MR_OK;
}

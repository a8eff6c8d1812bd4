#include "engine/planner/planner.h"

#include <stdlib.h>

#include "engine/base/thread.h"
#include "engine/planner/auto.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/copies.h"
#include "engine/planner/cuts.h"
#include "engine/planner/plan_devices.h"
#include "engine/planner/expect.h"
#include "engine/planner/jobs.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/lint.h"
#include "engine/planner/negotiate.h"
#include "engine/planner/nodes.h"
#include "engine/planner/plan_memory.h"
#include "engine/planner/sizes.h"
#include "engine/planner/spare.h"
#include "engine/spec/spec_list.h"
#include "millrace/status.h"

enum { DEFAULT_QUEUE = 4 };
static const int64_t DEFAULT_GRACE_NS = 10000000000;

/* ---- vertices ------------------------------------------------------------------------------------------------- */

static void set_batch(mr_plan_builder *b, mr_plan_vertex *vertex, const mr_spec_vertex *spec) {
    const mr_spec_batch *batch = &spec->common.batch;
    vertex->calls.batch = batch->size > 1 ? (int)batch->size : 1;
    vertex->calls.batch_timeout_ns = batch->timeout_ns;
    if (vertex->calls.batch == 1 || !spec->type || spec->type->batches)
        return;
    mr_plan_error(b, mr_yaml_get(spec->node, "batch")->place, "remove `batch`",
                  "stages.%s.batch: %s takes one frame at a time", spec->id, spec->type->name);
}

static void set_vertex(mr_plan_builder *b, int v) {
    const mr_spec_vertex *spec = b->vertex[v];
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    *vertex = (mr_plan_vertex){
        .id = spec->id,
        .type = spec->type,
        .options = spec->options,
        .place = spec->place_text,
        .mark = spec->place,
        .role = spec->is_source ? MR_ROLE_SOURCE : MR_ROLE_STAGE,
        .source = spec->is_source ? (uint32_t)v : 0,
        .offer.reserved = spec->reserved,
        .handling.policy = (mr_policy)spec->common.queue.when_full,
        .handling.on_error = (mr_on_error)spec->common.on_error,
        .offer.deadline_ns = spec->common.deadline_ns,
    };
    set_batch(b, vertex, spec);
    vertex->handling.queue = spec->common.queue.size > 0 ? (int)spec->common.queue.size : DEFAULT_QUEUE;
    /* The next batch waits in the queue while the calls before it are under way. */
    if (spec->common.queue.size == 0 && vertex->handling.queue < vertex->calls.batch)
        vertex->handling.queue = vertex->calls.batch;
}

static int list_vertices(mr_plan_builder *b) {
    mr_spec *spec = b->spec;
    b->count = (int)(spec->source_count + spec->stage_count);
    b->vertex = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->vertex);
    b->unknown = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->unknown);
    if (!b->vertex || !b->unknown)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        size_t i = (size_t)v;
        b->vertex[v] = i < spec->source_count ? &spec->sources[i] : &spec->stages[i - spec->source_count];
        /* If a stage has the id of a source, which is diagnosed, the source is meant. */
        if (!mr_index_get(&b->ids, b->vertex[v]->id) &&
            mr_index_put(&b->ids, b->arena, b->vertex[v]->id, &b->vertex[v]))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

static int create_vertices(mr_plan_builder *b) {
    b->plan->vertices = mr_arena_array(b->arena, (size_t)b->count, sizeof *b->plan->vertices);
    if (!b->plan->vertices)
        return MR_ERROR_MEMORY;
    b->plan->vertex_count = (size_t)b->count;
    b->plan->source_count = b->spec->source_count;
    for (int v = 0; v < b->count; v++)
        set_vertex(b, v);
    return MR_OK;
}

/* ---- together ------------------------------------------------------------------------------------------------- */

static int count_workers(const mr_plan_builder *b) {
    if (b->params.deterministic)
        return 1;
    if (b->params.workers > 0)
        return b->params.workers;
    return b->spec->workers > 0 ? b->spec->workers : mr_usable_cores();
}

/* A node that runs elsewhere would need to know each source. */
static void refuse_nodes(mr_plan_builder *b) {
    if (b->spec->most_sources && b->plan->node_count)
        mr_plan_error(b, b->spec->most_place, "run it with --one-process, or remove `max`",
                      "sources.max: sources are added to a run of one process; with nodes they cannot be");
}

/* Its sources are added once the pipeline runs. Errors in the text must be found before. */
static void check_list(mr_plan_builder *b) {
    mr_spec_list *list = NULL;
    if (b->spec->sources_from && b->spec->reserved_count)
        mr_spec_list_read(&list, b->spec, mr_plan_ask_listed, b, b->diagnostics);
    mr_spec_list_destroy(&list);
}

static int build(mr_plan_builder *b) {
    size_t errors = b->diagnostics->errors;
    b->plan->name = b->spec->name;
    b->plan->workers = count_workers(b);
    b->plan->busy_poll_ns = b->spec->busy_poll_ns;
    b->plan->grace_ns = b->params.grace_ns > 0 ? b->params.grace_ns : DEFAULT_GRACE_NS;
    if (list_vertices(b) || mr_plan_resolve_links(b))
        return MR_ERROR_MEMORY;
    bool linked = b->diagnostics->errors == errors;
    size_t before_order = b->diagnostics->errors;
    if (mr_plan_order(b))
        return MR_ERROR_MEMORY;
    /* Without an order no more can be checked. */
    if (b->diagnostics->errors > before_order)
        return MR_OK;
    if (mr_plan_list_edges(b) || create_vertices(b) || mr_plan_assign_nodes(b) || mr_plan_reach(b))
        return MR_ERROR_MEMORY;
    refuse_nodes(b);
    check_list(b);
    if (mr_plan_negotiate(b) || mr_plan_settle_jobs(b) || mr_plan_place(b))
        return MR_ERROR_MEMORY;
    if (mr_lint_plan(b, linked))
        return MR_ERROR_MEMORY;
    /* If formats do not fit, there are no sizes. */
    if (b->diagnostics->errors > errors || b->spec->broken)
        return MR_OK;
    for (int v = 0; v < b->count; v++)
        mr_plan_set_calls(b, v);
    if (mr_plan_insert_cuts(b))
        return MR_ERROR_MEMORY;
    if (b->diagnostics->errors > errors)
        return MR_OK;
    /* The planner's choices depend on how much memory each stage needs, and that depends on the copies. */
    if (mr_plan_sizes(b) || mr_plan_pools(b) || mr_plan_place_auto(b) || mr_plan_insert_copies(b) ||
        mr_plan_spare(b->plan) || mr_plan_sizes(b))
        return MR_ERROR_MEMORY;
    return mr_lint_sizes(b) || mr_plan_memory(b) || mr_plan_expect(b) ? MR_ERROR_MEMORY : MR_OK;
}

int mr_plan_create(mr_plan **plan, mr_spec *spec, const mr_plan_params *params, mr_diagnostics *diagnostics) {
    *plan = NULL;
    mr_plan *made = calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    mr_plan_builder b = {
        .plan = made, .spec = spec, .params = *params, .diagnostics = diagnostics, .arena = &made->arena};
    size_t errors = diagnostics->errors;
    int status = build(&b);
    if (status)
        mr_diagnose(diagnostics, MR_SEVERITY_ERROR, status, (mr_location){.file = spec->file}, NULL, "%s",
                    mr_message());
    if (diagnostics->errors > errors || spec->broken) {
        mr_plan_destroy(&made);
        return mr_diagnostics_status(diagnostics);
    }
    made->spec = spec;
    *plan = made;
    return MR_OK;
}

int mr_plan_load(mr_plan **plan, const mr_spec_params *spec_params, const mr_plan_params *params,
                 mr_diagnostics *diagnostics) {
    mr_spec *spec;
    *plan = NULL;
    int status = mr_spec_parse(&spec, spec_params, diagnostics);
    if (spec)
        status = mr_plan_create(plan, spec, params, diagnostics);
    if (!*plan)
        mr_spec_destroy(&spec);
    mr_diagnostics_sort(diagnostics);
    mr_diagnostics_cap(diagnostics, MR_DIAGNOSTICS_SHOWN);
    return *plan ? MR_OK : diagnostics->errors ? mr_diagnostics_status(diagnostics) : status;
}

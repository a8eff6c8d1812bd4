/* millrace/plan.h: a plan's view, with devices, nodes and memory. */
#include "engine/pipeline/view.h"

#include "engine/base/memory.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "engine/flow/graph.h"
#include "engine/flow/run/resume_plan.h"
#include "engine/flow/run/sources.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/lint_timing.h"
#include "engine/text/yaml.h"

/* ---- devices --------------------------------------------------------------------------------------------------- */

static int fill_devices(mr_view *view, const mr_plan *plan) {
    mr_view_device *made = mr_arena_array(&view->arena, plan->device_count, sizeof *made);
    if (!made)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < plan->device_count; i++) {
        const mr_plan_device *device = &plan->devices[i];
        made[i] = (mr_view_device){
            .name = device->name,
            .alias = device->alias,
            .enabled = device->enabled,
            .assumed = device->assumed,
            .used = device->used,
            .limit_bytes = device->limit_bytes,
            .memory_bytes = device->memory_bytes,
            .memory = device->memory,
            .libraries = device->libraries,
        };
        if (device->card && !(made[i].card = mr_view_make_card(&view->arena, device->card)))
            return MR_ERROR_MEMORY;
    }
    view->shown.device_count = plan->device_count;
    view->shown.devices = made;
    return MR_OK;
}

/* ---- nodes and memory ------------------------------------------------------------------------------------------ */

_Static_assert((int)MR_VIEW_MOST_NODES == MR_SPEC_MAX_NODES, "the view promises as many nodes as there may be");
_Static_assert((int)MR_VIEW_MOST_REPLICAS == MR_SPEC_MAX_REPLICAS, "and as many processes of one");
_Static_assert((int)MR_VIEW_MOST_SOURCES == MR_SPEC_MAX_SOURCES, "and as many sources");

static int fill_nodes(mr_view *view, const mr_plan *plan) {
    mr_view_node *made = mr_arena_array(&view->arena, plan->node_count, sizeof *made);
    if (!made)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < plan->node_count; i++) {
        const mr_plan_node *node = &plan->nodes[i];
        made[i] = (mr_view_node){
            .id = node->id,
            .replicas = node->replicas,
            .busy_poll_ns = node->busy_poll_ns,
            .listen = node->listen,
            .address = node->address,
            .key = node->key,
            .public_key = node->public_key,
            .source_count = node->source_count,
            .stage_count = node->stage_count,
            .host = node->host,
            .pinned = node->pinned,
            .shared = node->shared,
            .queues = node->queues,
            .devices = node->devices,
            .restarts_matter = mr_resume_concerns(plan, (int)i),
            .restarts_continue = mr_resume_serves(plan, (int)i),
        };
    }
    view->shown.node_count = plan->node_count;
    view->shown.nodes = made;
    return MR_OK;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static void fill_plan(mr_plan_view *shown, const mr_plan *plan) {
    *shown = (mr_plan_view){
        .name = plan->name,
        .file = plan->spec->file,
        .digest = plan->spec->digest,
        .types = plan->spec->types,
        .plugins = mr_yaml_get(plan->spec->root, "plugins") != NULL,
        .workers = plan->workers,
        .asked_workers = plan->spec->workers,
        .continues = mr_resume_check(plan) == MR_OK,
        .jobs = plan->jobs,
        .waiting = mr_plan_waiting(plan),
        .busy_poll_ns = plan->busy_poll_ns,
        .grace_ns = plan->grace_ns,
        .assumed = plan->assumed,
        .expected = plan->expected,
        .row_count = plan->row_count,
        .rows = plan->rows,
        .link_count = plan->edge_count,
        .links = plan->edges,
        .source_count = plan->source_count,
        .host = plan->host,
        .pinned = plan->pinned,
        .shared = plan->shared,
        .queues = plan->queues,
        .most_sources = plan->spec->most_sources,
        .written_nodes = plan->spec->node_count,
        .node = plan->node,
        .replica = plan->replica,
    };
}

/* If `own` is not NULL the view owns the plan, also after a failure. */
static int make(const mr_plan_view **view, const mr_plan *plan, mr_plan *own) {
    mr_view *made = mr_calloc(1, sizeof *made);
    *view = NULL;
    if (!made) {
        mr_plan_destroy(&own);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the view of a plan");
    }
    made->plan = plan;
    made->own = own;
    fill_plan(&made->shown, plan);
    int status = fill_devices(made, plan);
    status = status ? status : fill_nodes(made, plan);
    status = status ? status : mr_view_fill_stages(made, plan);
    status = status ? status : mr_view_fill_threads(made, plan);
    status = status ? status : mr_view_fill_files(made);
    *view = &made->shown;
    if (status)
        mr_plan_view_close(view);
    return status;
}

int mr_plan_view_open_sized(const mr_plan_view **view, const mr_pipeline_params *params, size_t params_bytes,
                            mr_diagnostics *diagnostics) {
    MR_PLAIN_NUMBERS;
    mr_pipeline_params own;
    mr_plan *plan = NULL;
    *view = NULL;
    int status = mr_pipeline_params_copy(&own, params, params_bytes, diagnostics);
    status = status ? status : mr_pipeline_plan(&plan, &own, diagnostics);
    if (status)
        return status;
    status = make(view, plan, plan);
    return status ? mr_diagnose(diagnostics, MR_SEVERITY_ERROR, status, (mr_location){0}, NULL, "%s", mr_message())
                  : MR_OK;
}

int mr_pipeline_view(const mr_pipeline *pipeline, const mr_plan_view **view) {
    MR_PLAIN_NUMBERS;
    mr_graph *graph = pipeline->graph;
    if (graph)
        mr_sources_lock(graph->run.sources);
    int status = make(view, pipeline->plan, NULL);
    if (graph)
        mr_sources_unlock(graph->run.sources);
    return status;
}

int mr_plan_view_check_costs(const mr_plan_view *view, const int64_t *cost_ns, mr_diagnostics *diagnostics) {
    MR_PLAIN_NUMBERS;
    return mr_lint_costs(((const mr_view *)view)->plan, cost_ns, diagnostics);
}

const mr_view_http *mr_plan_view_http(const mr_plan_view *view) {
    return &((const mr_view *)view)->plan->spec->http;
}

const mr_view_hub *mr_plan_view_hub(const mr_plan_view *view) {
    return &((const mr_view *)view)->plan->spec->hub;
}

const mr_view_otlp *mr_plan_view_otlp(const mr_plan_view *view) {
    return &((const mr_view *)view)->plan->spec->otlp;
}

void mr_plan_view_close(const mr_plan_view **view) {
    mr_view *gone = (mr_view *)(uintptr_t)*view;
    if (gone) {
        mr_arena_fini(&gone->arena);
        mr_plan_destroy(&gone->own);
        mr_free(gone);
    }
    *view = NULL;
}

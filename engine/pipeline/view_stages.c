/* The stages of a view, with pools, links and cuts. */
#include <string.h>

#include "engine/pipeline/view.h"

static mr_view_role role_of(const mr_plan_vertex *vertex) {
    static const mr_view_role copies[] = {[MR_COPY_NONE] = MR_VIEW_STAGE,
                                          [MR_COPY_UPLOAD] = MR_VIEW_UPLOAD,
                                          [MR_COPY_DOWNLOAD] = MR_VIEW_DOWNLOAD,
                                          [MR_COPY_PEER] = MR_VIEW_PEER};
    switch (vertex->role) {
    case MR_ROLE_SOURCE:
        return MR_VIEW_SOURCE;
    case MR_ROLE_CUT_OUT:
        return MR_VIEW_CUT_OUT;
    case MR_ROLE_CUT_IN:
        return MR_VIEW_CUT_IN;
    default:
        return copies[vertex->copy];
    }
}

/* If a batch shares one buffer, its share may exceed the picture: a decoder's buffer is larger. */
static uint64_t output_bytes(const mr_plan_vertex *vertex, size_t port) {
    const mr_view_pool *pool = &vertex->pools[port];
    uint64_t bytes = mr_format_set_most_bytes(&vertex->outputs[port].set);
    uint64_t part = pool->count > 0 ? pool->bytes / (uint64_t)vertex->calls.batch : 0;
    return part > bytes ? part : bytes;
}

static int fill_output_bytes(mr_view *view, mr_view_stage *stage, const mr_plan_vertex *vertex) {
    uint64_t *bytes = mr_arena_array(&view->arena, vertex->output_count, sizeof *bytes);
    if (!bytes)
        return MR_ERROR_MEMORY;
    for (size_t port = 0; port < vertex->output_count; port++)
        bytes[port] = output_bytes(vertex, port);
    stage->output_bytes = bytes;
    return MR_OK;
}

/* ---- cuts ------------------------------------------------------------------------------------------------------ */

static mr_view_cut cut_of(const mr_plan_cut *entry, const mr_cut *cut) {
    static const char *const compressions[] = {
        [MR_CUT_PLAIN] = "none", [MR_CUT_LZ4] = "lz4", [MR_CUT_ZSTD] = "zstd"};
    return (mr_view_cut){
        .name = cut->name,
        .from = entry->from,
        .to = entry->to,
        .out = entry->out,
        .in = entry->in,
        .mode = cut->mode == MR_CUT_LIVE ? "live" : "reliable",
        .compression = compressions[cut->compression],
        .checksum_payload = cut->checksum_payload,
        .shared_memory = cut->shared_memory,
        .keys = cut->key != NULL,
        .window = cut->window,
        .frame_bytes = cut->frame_bytes,
        .window_bytes = cut->window_bytes,
        .listen = cut->listen,
        .connect_count = cut->connect_count,
        .connect = cut->connect,
    };
}

static int fill_cuts(mr_view *view, const mr_plan *plan) {
    mr_view_cut *made = mr_arena_array(&view->arena, plan->cut_count, sizeof *made);
    if (!made)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < plan->cut_count; i++)
        made[i] = cut_of(&plan->cuts[i], plan->cuts[i].cut);
    view->shown.cut_count = plan->cut_count;
    view->shown.cuts = made;
    return MR_OK;
}

/* The cut at this vertex, as seen by the process at that end. NULL, with *failed set if there is no memory. */
static const mr_view_cut *end_of(mr_view *view, const mr_plan *plan, int v, bool *failed) {
    const mr_cut *cut = mr_plan_cut_of(&plan->vertices[v]);
    for (size_t i = 0; cut && i < plan->cut_count; i++) {
        if (plan->cuts[i].out != v && plan->cuts[i].in != v)
            continue;
        mr_view_cut *made = mr_arena_alloc(&view->arena, sizeof *made);
        *failed = !made;
        if (made)
            *made = cut_of(&plan->cuts[i], cut);
        return made;
    }
    return NULL;
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

static mr_view_stage stage_of(const mr_plan *plan, const mr_plan_vertex *vertex) {
    static const char *const policies[] = {[MR_POLICY_BLOCK] = "block",
                                           [MR_POLICY_DROP_OLDEST] = "drop-oldest",
                                           [MR_POLICY_DROP_NEWEST] = "drop-newest"};
    mr_view_stage made = {
        .id = vertex->id,
        .type = vertex->type,
        .options = vertex->options,
        .place = vertex->place,
        .role = role_of(vertex),
        .source = vertex->source,
        .node = vertex->node,
        .devices = vertex->devices,
        .remarks = vertex->remarks,
        .calls = vertex->calls,
        .queue = vertex->handling.queue,
        .when_full = policies[vertex->handling.policy],
        .on_error = vertex->handling.on_error == MR_ON_ERROR_FAIL ? "fail" : "drop",
        .input_count = vertex->input_count,
        .inputs = vertex->inputs,
        .output_count = vertex->output_count,
        .outputs = vertex->outputs,
        .pools = vertex->pools,
        .memory = vertex->memory,
        .offer = vertex->offer,
        .source_count = vertex->source_count,
        .sources = vertex->sources,
    };
    made.devices.any = mr_plan_works_on_devices(vertex->type);
    if (vertex->role == MR_ROLE_SOURCE)
        made.offer.written =
            plan->spec->all_sources ? plan->spec->all_sources : mr_spec_source_name(plan->spec, vertex->source);
    return made;
}

int mr_view_fill_stages(mr_view *view, const mr_plan *plan) {
    mr_view_stage *made = mr_arena_array(&view->arena, plan->vertex_count, sizeof *made);
    bool failed = false;
    int status = made ? MR_OK : MR_ERROR_MEMORY;
    for (size_t v = 0; v < plan->vertex_count && !status; v++) {
        made[v] = stage_of(plan, &plan->vertices[v]);
        made[v].cut = end_of(view, plan, (int)v, &failed);
        status = failed ? MR_ERROR_MEMORY : fill_output_bytes(view, &made[v], &plan->vertices[v]);
    }
    view->shown.stage_count = plan->vertex_count;
    view->shown.stages = made;
    return status ? status : fill_cuts(view, plan);
}

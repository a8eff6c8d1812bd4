#include "engine/planner/spare.h"

#include "engine/base/memory.h"
#include "millrace/status.h"

static bool passes_some(const mr_plan_vertex *vertex) {
    return vertex->calls.every.frames > 1 || vertex->calls.every.time_ns > 0;
}

/* Whether it can leave out frames: it makes their payload from that of its only input. */
static bool can_spare(const mr_plan_vertex *vertex) {
    bool spares = vertex->input_count == 1 && (vertex->copy || (vertex->type && vertex->type->spares));
    for (const mr_planned_result *one = spares ? vertex->inputs[0].results : NULL; one; one = one->next)
        spares &= !one->kind->on_device; /* a copy must move those */
    return spares && !vertex->inputs[0].more_results;
}

/* The vertex whose only consumer this is, on the same node; -1: there is none. */
static int only_before(const mr_plan *plan, int v) {
    int before = -1, consumers = 0;
    for (size_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].to == v)
            before = before < 0 ? plan->edges[e].from : (int)plan->vertex_count;
    if (before < 0 || before == (int)plan->vertex_count || plan->vertices[before].node != plan->vertices[v].node)
        return -1;
    for (size_t e = 0; e < plan->edge_count; e++)
        consumers += plan->edges[e].from == before;
    return consumers == 1 && plan->vertices[before].output_count == 1 ? before : -1;
}

/* A stage that gathers reads no payload but that of the objects' frames. */
static bool is_blind(const mr_plan_vertex *vertex, int port) {
    return vertex->needs.blind || (vertex->type->cascade == MR_CASCADE_GATHER && port == 0);
}

/* Whether a vertex, or one to which it passes the frames on, reads their payload. `reads`: for later vertices, whether
 * the frames that they give need one. */
static bool reads_payload(const mr_plan *plan, const mr_view_link *edge, const bool *reads) {
    const mr_plan_vertex *to = &plan->vertices[edge->to];
    if (to->copy)
        return reads[edge->to];
    if (mr_plan_cut_of(to) || !is_blind(to, edge->to_port))
        return true;
    for (size_t i = 0; i < to->output_count; i++)
        if (to->outputs[i].shares == edge->to_port)
            return reads[edge->to];
    return false;
}

/* The frames that `vertex` passes go from `before` to it, or to the next one that spares them. */
static int pass_at(mr_plan *plan, mr_plan_vertex *before, const mr_plan_vertex *vertex) {
    if (before->copy)
        return MR_OK;
    before->calls.spacing = vertex->calls.spacing;
    const char *more = before->remarks.anywhere;
    before->remarks.anywhere = mr_arena_print(&plan->arena, "%s%smakes nothing for the frames that %s passes",
                                              more ? more : "", more ? "; " : "", vertex->id);
    return before->remarks.anywhere ? MR_OK : MR_ERROR_MEMORY;
}

/* The first vertex that passes the frames decides which these are. */
static int spare(mr_plan *plan, int v) {
    const mr_every every = plan->vertices[v].calls.every;
    int first = v, status = MR_OK;
    for (int before = only_before(plan, v); before >= 0 && can_spare(&plan->vertices[before]) && !status;
         before = only_before(plan, before)) {
        plan->vertices[first].calls.spared = true;
        plan->vertices[first].calls.every = (mr_every){0};
        first = before;
        status = pass_at(plan, &plan->vertices[before], &plan->vertices[v]);
    }
    plan->vertices[first].calls.every = every;
    return status;
}

/* Vertices are in topological order, so later vertices are known first. */
int mr_plan_spare(mr_plan *plan) {
    size_t first = 0;
    while (first < plan->vertex_count && !passes_some(&plan->vertices[first]))
        first++;
    if (first == plan->vertex_count)
        return MR_OK;
    bool *reads = mr_calloc(plan->vertex_count + 1, sizeof *reads);
    if (!reads)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    int status = MR_OK;
    for (size_t v = plan->vertex_count; v-- > 0 && !status;) {
        for (size_t e = 0; e < plan->edge_count; e++)
            reads[v] |= plan->edges[e].from == (int)v && reads_payload(plan, &plan->edges[e], reads);
        if (passes_some(&plan->vertices[v]) && !reads[v])
            status = spare(plan, (int)v);
    }
    mr_free(reads);
    return status;
}

#include "engine/planner/lint_nodes.h"

#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/plan/renewal.h"
#include "millrace/status.h"

typedef struct returning {
    bool *from;    /* by vertex: they have come over a cut from that node */
    bool *reached; /* by vertex: within its process from one end of a cut */
} returning;

static bool find_returning(const mr_plan *plan, int node, returning *r) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        r->from[v] = false;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        const bool leaves = plan->vertices[edge->from].node == node && plan->vertices[edge->to].node != node;
        r->from[edge->to] |= r->from[edge->from] || leaves;
    }
    for (size_t i = 0; i < plan->cut_count; i++)
        if (plan->cuts[i].to == node && r->from[plan->cuts[i].out])
            return true;
    return false;
}

/* The first vertex, from that end of a cut on within its process, that `is` so; NULL: there is none. */
static const mr_plan_vertex *find_after(const mr_plan *plan, int in, returning *r,
                                        bool (*is)(const mr_plan_vertex *vertex)) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        r->reached[v] = false;
    r->reached[in] = true;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (!r->reached[edge->from] || plan->vertices[edge->from].node != plan->vertices[edge->to].node)
            continue;
        r->reached[edge->to] = true;
        if (is(&plan->vertices[edge->to]))
            return &plan->vertices[edge->to];
    }
    return NULL;
}

static bool joins(const mr_plan_vertex *vertex) {
    return vertex->input_count > 1;
}

static bool is_sink(const mr_plan_vertex *vertex) {
    return vertex->output_count == 0 && vertex->role == MR_ROLE_STAGE;
}

/* A join waits for frames in order; the former process's can come before others. */
static void warn_of_standing_still(mr_plan_builder *b, const mr_plan_cut *cut, returning *r) {
    const char *node = b->plan->nodes[cut->to].id;
    const mr_plan_vertex *join = find_after(b->plan, cut->in, r, joins);
    char hint[384];
    if (!join || !r->from[cut->out] || mr_cut_maker(b->plan, &b->plan->vertices[cut->out]) == cut->to)
        return;
    snprintf(hint, sizeof hint,
             "put \"%s\" on a third node. Or between these stages: only reliable cuts, one process of \"%s\" and of "
             "each node that sends to another one, no join with frames from elsewhere, and no node twice", join->id,
             node);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, join->mark, hint,
                "stages.%s: it gets frames that come back to the node \"%s\" over \"%s\". If a process of that node "
                "dies and is replaced, the run may stand still", join->id, node, cut->cut->name);
}

/* The other node does again all that comes from a process that has replaced another. */
static void warn_of_twice(mr_plan_builder *b, const mr_plan_cut *cut, returning *r) {
    const mr_plan_vertex *sink = find_after(b->plan, cut->in, r, is_sink);
    if (!sink || !mr_cut_comes_back(b->plan, &b->plan->vertices[cut->in]))
        return;
    const char *node = b->plan->nodes[cut->from].id;
    char hint[192];
    snprintf(hint, sizeof hint, "put \"%s\" on a node from which nothing comes back to \"%s\", or on \"%s\" itself",
             sink->id, node, node);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, sink->mark, hint,
                "stages.%s: its frames come from the node \"%s\", and others go back there. If a process of that node "
                "dies and is replaced, it may get some frames twice", sink->id, node);
}

static void lint_nodes(mr_plan_builder *b, returning *r) {
    for (int node = 0; node < (int)b->plan->node_count; node++) {
        if (!find_returning(b->plan, node, r))
            continue;
        for (size_t i = 0; i < b->plan->cut_count; i++) {
            const mr_plan_cut *cut = &b->plan->cuts[i];
            if (cut->to == node)
                warn_of_standing_still(b, cut, r);
            if (cut->from == node)
                warn_of_twice(b, cut, r);
        }
    }
}

int mr_lint_nodes(mr_plan_builder *b) {
    returning r = {.from = mr_calloc(b->plan->vertex_count + 1, sizeof *r.from),
                   .reached = mr_calloc(b->plan->vertex_count + 1, sizeof *r.reached)};
    if (r.from && r.reached)
        lint_nodes(b, &r);
    const int status = r.from && r.reached ? MR_OK : MR_ERROR_MEMORY;
    mr_free(r.from);
    mr_free(r.reached);
    return status;
}

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

/* The first join after that end of a cut within its process; NULL: there is none. */
static const mr_plan_vertex *find_join(const mr_plan *plan, int in, returning *r) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        r->reached[v] = false;
    r->reached[in] = true;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (!r->reached[edge->from] || plan->vertices[edge->from].node != plan->vertices[edge->to].node)
            continue;
        r->reached[edge->to] = true;
        if (plan->vertices[edge->to].input_count > 1)
            return &plan->vertices[edge->to];
    }
    return NULL;
}

static bool is_sink(const mr_plan_vertex *vertex) {
    return vertex->output_count == 0 && vertex->role == MR_ROLE_STAGE;
}

/* A join waits for frames in order; the former process's can come before others. */
static void warn_of_standing_still(mr_plan_builder *b, const mr_plan_cut *cut, returning *r) {
    const char *node = b->plan->nodes[cut->to].id;
    const mr_plan_vertex *join = find_join(b->plan, cut->in, r);
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

/* Of sinks that leave nothing out: why, and what helps. */
static const struct {
    const char *why, *hint;
} twice[] = {
    [MR_AGAIN_TWICE_LIVE] = {"which nothing tells from others after a live cut", "use reliable cuts before it"},
    [MR_AGAIN_TWICE_WAYS] = {"since they reach it on several ways", "give each way a sink of its own, or join them"},
    [MR_AGAIN_TWICE_SHARED] = {"since its node has several processes", "put it on a node with one process"},
};

/* A process that has replaced another one makes its frames again. */
static void warn_of_twice(mr_plan_builder *b, const mr_plan_vertex *sink) {
    int maker;
    const mr_again again = mr_plan_again(b->plan, sink, &maker);
    char hint[256];
    if (again <= MR_AGAIN_LEFT_OUT)
        return;
    const char *node = b->plan->nodes[maker].id;
    snprintf(hint, sizeof hint, "%s; or put \"%s\" on \"%s\" itself, or on a node from which nothing comes back to it",
             twice[again].hint, sink->id, node);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, sink->mark, hint,
                "stages.%s: its frames come from the node \"%s\", and others go back there. If a process of that node "
                "dies and is replaced, it may get some frames twice, %s", sink->id, node, twice[again].why);
}

static void lint_nodes(mr_plan_builder *b, returning *r) {
    for (int node = 0; node < (int)b->plan->node_count; node++) {
        if (!find_returning(b->plan, node, r))
            continue;
        for (size_t i = 0; i < b->plan->cut_count; i++) {
            const mr_plan_cut *cut = &b->plan->cuts[i];
            if (cut->to == node)
                warn_of_standing_still(b, cut, r);
        }
    }
    for (size_t v = 0; v < b->plan->vertex_count; v++)
        if (is_sink(&b->plan->vertices[v]))
            warn_of_twice(b, &b->plan->vertices[v]);
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

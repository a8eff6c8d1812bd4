#include "engine/transport/cut/renewal.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/plan/cut.h"

bool mr_cut_comes_back(const mr_plan *plan, const mr_plan_vertex *in) {
    const ptrdiff_t here = in - plan->vertices;
    bool any = false, *before = mr_calloc(plan->vertex_count, sizeof *before);
    for (size_t i = 0; before && i < plan->cut_count && !any; i++) {
        if (strcmp(plan->cuts[i].cut->to_node, mr_plan_cut_of(in)->from_node) != 0)
            continue;
        memset(before, 0, plan->vertex_count * sizeof *before);
        mr_plan_mark_before(plan, plan->cuts[i].out, before);
        any = before[here];
    }
    mr_free(before);
    return any;
}

/* Marks what frames reach within this process from the vertices that are marked. Edges are in the order of the vertices
 * to which they lead. */
static void spread(const mr_plan *plan, bool *marked) {
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (mr_plan_is_here(plan, &plan->vertices[edge->from]) && mr_plan_is_here(plan, &plan->vertices[edge->to]))
            marked[edge->to] |= marked[edge->from];
    }
}

/* Marks the vertices here that get any frames which did not come from that node over reliable cuts. Live cuts say
 * nothing of another process: a join would get the mark over one way only. NULL: no memory. */
static bool *find_foreign(const mr_plan *plan, const char *node) {
    bool *foreign = mr_calloc(plan->vertex_count, sizeof *foreign);
    for (size_t v = 0; foreign && v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        const mr_cut *cut = vertex->role == MR_ROLE_CUT_IN ? mr_plan_cut_of(vertex) : NULL;
        foreign[v] = vertex->role == MR_ROLE_SOURCE ||
                     (cut && (cut->mode == MR_CUT_LIVE || strcmp(cut->from_node, node) != 0));
    }
    if (foreign)
        spread(plan, foreign);
    return foreign;
}

/* Marks what frames from the vertex reach here. NULL: no memory. */
static bool *find_reached(const mr_plan *plan, const mr_plan_vertex *from) {
    bool *reached = mr_calloc(plan->vertex_count, sizeof *reached);
    if (reached) {
        reached[from - plan->vertices] = true;
        spread(plan, reached);
    }
    return reached;
}

bool mr_cut_says_renewed(const mr_plan *plan, const mr_plan_vertex *in) {
    const mr_cut *cut = mr_plan_cut_of(in);
    if (cut->mode == MR_CUT_LIVE || cut->connect_count != 1 || !mr_cut_comes_back(plan, in))
        return false;
    bool *foreign = find_foreign(plan, cut->from_node), *reached = find_reached(plan, in);
    bool says = foreign && reached;
    for (size_t v = 0; says && v < plan->vertex_count; v++)
        says = !reached[v] || plan->vertices[v].input_count < 2 || !foreign[v];
    mr_free(foreign);
    mr_free(reached);
    return says;
}

/* Whether the end of a cut from that node leads to `out`; *says: whether all that do say what is renewed. */
static bool find_ends(const mr_plan *plan, const char *node, const mr_plan_vertex *out, bool *says) {
    bool any = false;
    *says = true;
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_plan_vertex *in = &plan->vertices[plan->cuts[i].in];
        if (!mr_plan_is_here(plan, in) || strcmp(plan->cuts[i].cut->from_node, node) != 0)
            continue;
        bool *reached = find_reached(plan, in);
        const bool leads = reached && reached[out - plan->vertices];
        any |= leads;
        *says &= reached && (!leads || mr_cut_says_renewed(plan, in));
        mr_free(reached);
    }
    return any;
}

bool mr_cut_is_renewed(const mr_plan *plan, const mr_plan_vertex *out) {
    const mr_cut *cut = mr_plan_cut_of(out);
    bool *foreign = find_foreign(plan, cut->to_node), says;
    const bool own = foreign && !foreign[out - plan->vertices] && cut->mode != MR_CUT_LIVE && cut->consumers <= 1;
    mr_free(foreign);
    return own && find_ends(plan, cut->to_node, out, &says) && says;
}

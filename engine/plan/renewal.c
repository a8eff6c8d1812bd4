#include "engine/plan/renewal.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/plan/cut.h"

enum { NOBODY = -1, NOT_KNOWN = -2 };

static const mr_plan_cut *find_cut(const mr_plan *plan, int end) {
    for (size_t i = 0; i < plan->cut_count; i++)
        if (plan->cuts[i].in == end || plan->cuts[i].out == end)
            return &plan->cuts[i];
    return NULL;
}

/* Whether frames from a vertex leave for that node later. */
static bool leads_to(const mr_plan *plan, int vertex, int node) {
    bool any = false, *before = mr_calloc(plan->vertex_count, sizeof *before);
    for (size_t i = 0; before && i < plan->cut_count && !any; i++) {
        if (plan->cuts[i].to != node)
            continue;
        mr_plan_mark_before(plan, plan->cuts[i].out, before);
        any = before[vertex];
    }
    mr_free(before);
    return any;
}

bool mr_cut_comes_back(const mr_plan *plan, const mr_plan_vertex *in) {
    const int here = (int)(in - plan->vertices);
    const mr_plan_cut *cut = find_cut(plan, here);
    return cut && leads_to(plan, here, cut->from);
}

/* Whose frames come over a cut; `before`: whose the frames are at its other end. */
static int maker_over(const mr_plan *plan, const mr_plan_cut *cut, int before) {
    if (cut->cut->mode == MR_CUT_LIVE || cut->cut->connect_count != 1)
        return NOBODY;
    if (leads_to(plan, cut->in, cut->from))
        return cut->from;
    return before != NOBODY && before != cut->to && leads_to(plan, cut->in, before) ? before : NOBODY;
}

/* Fills in who makes the frames at each vertex. `mute`: these ends of cuts say nothing. Edges are in the order of the
 * vertices to which they lead. */
static void find_makers(const mr_plan *plan, const bool *mute, int *maker) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        maker[v] = plan->vertices[v].input_count ? NOT_KNOWN : NOBODY;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        int made = maker[edge->from];
        if (plan->vertices[edge->to].role == MR_ROLE_CUT_IN)
            made = mute[edge->to] ? NOBODY : maker_over(plan, find_cut(plan, edge->to), made);
        maker[edge->to] = maker[edge->to] == NOT_KNOWN || maker[edge->to] == made ? made : NOBODY;
    }
}

/* Whether frames from that end of a cut meet others in a join of its process. */
static bool meets_others(const mr_plan *plan, const int *maker, int in, bool *reached) {
    bool meets = false;
    memset(reached, 0, plan->vertex_count * sizeof *reached);
    reached[in] = true;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (plan->vertices[edge->from].node != plan->vertices[edge->to].node)
            continue;
        reached[edge->to] |= reached[edge->from];
        meets |= reached[edge->to] && plan->vertices[edge->to].input_count > 1 && maker[edge->to] != maker[in];
    }
    return meets;
}

/* Who makes the frames at each vertex, where marks tell. Each end that may say nothing can make others meet foreign
 * frames. NULL: no memory. */
static int *list_makers(const mr_plan *plan) {
    int *maker = mr_calloc(plan->vertex_count + 1, sizeof *maker);
    bool *mute = mr_calloc(plan->vertex_count + 1, sizeof *mute);
    bool *reached = mr_calloc(plan->vertex_count + 1, sizeof *reached);
    for (bool again = maker && mute && reached; again;) {
        again = false;
        find_makers(plan, mute, maker);
        for (size_t i = 0; i < plan->cut_count; i++) {
            const int in = plan->cuts[i].in;
            const bool meets = maker[in] >= 0 && meets_others(plan, maker, in, reached);
            again |= meets;
            mute[in] |= meets;
        }
    }
    if (!mute || !reached)
        mr_free(maker);
    const bool whole = mute && reached;
    mr_free(mute);
    mr_free(reached);
    return whole ? maker : NULL;
}

int mr_cut_maker(const mr_plan *plan, const mr_plan_vertex *end) {
    int *makers = list_makers(plan);
    int maker = makers ? makers[end - plan->vertices] : NOBODY;
    const mr_cut *cut = mr_plan_cut_of(end);
    const mr_plan_cut *planned = find_cut(plan, (int)(end - plan->vertices));
    if (end->role == MR_ROLE_CUT_OUT && (cut->mode == MR_CUT_LIVE || (maker == planned->to && cut->consumers > 1)))
        maker = NOBODY;
    mr_free(makers);
    return maker < 0 ? NOBODY : maker;
}

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

bool mr_cut_is_exact(const mr_plan *plan, const mr_plan_vertex *vertex) {
    bool exact = true, *before = mr_calloc(plan->vertex_count, sizeof *before);
    if (!before)
        return false;
    mr_plan_mark_before(plan, (int)(vertex - plan->vertices), before);
    for (size_t i = 0; i < plan->cut_count; i++)
        exact &= plan->cuts[i].cut->mode == MR_CUT_RELIABLE ||
                 (!before[plan->cuts[i].in] && !before[plan->cuts[i].out]);
    mr_free(before);
    return exact;
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

/* ---- ends of ways ----------------------------------------------------------------------------------------------- */

void mr_plan_count_ways(const mr_plan *plan, uint32_t source, unsigned char *ways) {
    memset(ways, 0, plan->vertex_count);
    ways[source] = 1;
    for (size_t v = plan->source_count; v < plan->vertex_count; v++)
        for (size_t e = 0; e < plan->edge_count; e++) {
            const mr_view_link *edge = &plan->edges[e];
            if (edge->to != (int)v || !ways[edge->from])
                continue;
            bool joins = plan->vertices[v].input_count > 1;
            int sum = joins ? 1 : ways[v] + ways[edge->from];
            ways[v] = (unsigned char)(sum > 2 ? 2 : sum);
        }
}

/* Whether any source's frames reach a vertex on several ways. */
static bool has_several_ways(const mr_plan *plan, int vertex) {
    unsigned char *ways = mr_alloc(plan->vertex_count + 1);
    bool several = false;
    for (uint32_t s = 0; ways && s < plan->source_count && !several; s++) {
        mr_plan_count_ways(plan, s, ways);
        several = ways[vertex] > 1;
    }
    mr_free(ways);
    return several;
}

/* The node that makes frames again which come over a cut. The cut's end has forgotten them: it would take them for
 * repetitions. */
static int forgotten_for(const mr_plan *plan, const mr_plan_cut *cut, const int *makers) {
    return leads_to(plan, cut->in, cut->from) ? cut->from : makers[cut->in];
}

/* Marks what comes before a vertex in its process, and the vertex. */
static void mark_before_here(const mr_plan *plan, int vertex, bool *before) {
    memset(before, 0, plan->vertex_count * sizeof *before);
    before[vertex] = true;
    for (size_t e = plan->edge_count; e-- > 0;)
        before[plan->edges[e].from] |=
            before[plan->edges[e].to] && plan->vertices[plan->edges[e].from].node == plan->vertices[vertex].node;
}

/* Whether frames over a cut go to that node, then or later. */
static bool goes_back(const mr_plan *plan, const mr_plan_cut *cut, int node) {
    return cut->to == node || leads_to(plan, cut->in, node);
}

/* What an end of a way gets that node's frames again as. On that node itself only repetitions of a former process's
 * frames can come between others. */
static mr_again judge(const mr_plan *plan, int end, int maker) {
    const mr_plan_vertex *vertex = &plan->vertices[end];
    mr_again found = MR_AGAIN_LEFT_OUT;
    if (!mr_cut_is_exact(plan, vertex))
        found = MR_AGAIN_TWICE_LIVE;
    else if (has_several_ways(plan, end))
        found = MR_AGAIN_TWICE_WAYS;
    else if (plan->nodes[vertex->node].replicas > 1)
        found = MR_AGAIN_TWICE_SHARED;
    return found > MR_AGAIN_LEFT_OUT && vertex->node == maker ? MR_AGAIN_NOT : found;
}

static mr_again look_back(const mr_plan *plan, int end, const int *makers, int *maker);

/* What comes over a cut again. The cut's end forgets, or its other end gives again what it gets again: frames on their
 * way back, and those that it cannot leave out. */
static mr_again look_over(const mr_plan *plan, const mr_plan_cut *cut, int end, const int *makers, int *maker) {
    *maker = forgotten_for(plan, cut, makers);
    if (*maker >= 0)
        return judge(plan, end, *maker);
    const mr_again again = look_back(plan, cut->out, makers, maker);
    if (again != MR_AGAIN_NOT && goes_back(plan, cut, *maker))
        return judge(plan, end, *maker);
    return again == MR_AGAIN_LEFT_OUT ? MR_AGAIN_NOT : again;
}

/* The worst of all cuts into the vertex's process before it. */
static mr_again look_back(const mr_plan *plan, int end, const int *makers, int *maker) {
    mr_again found = MR_AGAIN_NOT;
    bool *before = mr_alloc((plan->vertex_count + 1) * sizeof *before);
    if (before)
        mark_before_here(plan, end, before);
    for (size_t i = 0; before && i < plan->cut_count; i++) {
        int node = NOBODY;
        const mr_again again =
            before[plan->cuts[i].in] ? look_over(plan, &plan->cuts[i], end, makers, &node) : MR_AGAIN_NOT;
        if (again <= found)
            continue;
        found = again;
        *maker = node;
    }
    mr_free(before);
    return found;
}

mr_again mr_plan_again(const mr_plan *plan, const mr_plan_vertex *end, int *maker) {
    int *makers = plan->cut_count ? list_makers(plan) : NULL;
    const int vertex = (int)(end - plan->vertices);
    *maker = NOBODY;
    mr_again found = makers ? look_back(plan, vertex, makers, maker) : MR_AGAIN_NOT;
    if (found > MR_AGAIN_NOT && end->role == MR_ROLE_CUT_OUT && goes_back(plan, find_cut(plan, vertex), *maker))
        found = MR_AGAIN_NOT;
    if (found == MR_AGAIN_NOT)
        *maker = NOBODY;
    mr_free(makers);
    return found;
}

#include "engine/planner/graph/gathering.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/planner/graph/links.h"
#include "millrace/status.h"

typedef struct search {
    const mr_plan_builder *b;
    bool *behind, *way;     /* by vertex: the other input, or this one, comes from it */
    mr_gathering *at;       /* by vertex */
} search;

void mr_gathering_merge(mr_gathering *worst, const mr_gathering *other) {
    if (other->all.frames > worst->all.frames)
        worst->all = other->all;
    if (other->untimed.frames > worst->untimed.frames)
        worst->untimed = other->untimed;
}

/* How many frames gather before one passes `v`'s links (one port's, if that is not -1), on the worst ways. */
static mr_gathering worst_ways(const search *s, int v, int port) {
    mr_gathering worst = {0};
    for (int i = s->b->in.start[v]; i < s->b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &s->b->link[s->b->in.item[i]];
        const mr_gathering *from = &s->at[link->from];
        if ((port < 0 || link->to_port == port) && from->here)
            mr_gathering_merge(&worst, from);
    }
    return worst;
}

static void hold(mr_held *held, int frames, int at) {
    held->frames = mr_plan_cap((int64_t)held->frames + frames);
    held->last = at;
}

static mr_gathering find(const search *s, int v, int one, int other) {
    mr_plan_mark_to(s->b, v, other, s->behind);
    mr_plan_mark_to(s->b, v, one, s->way);
    for (int at = 0; at < v; at++) {
        const mr_plan_vertex *vertex = &s->b->plan->vertices[at];
        s->at[at] = worst_ways(s, at, -1);
        s->at[at].here = s->way[at] && !s->behind[at];
        if (!s->at[at].here || !mr_plan_waits_for_batch(vertex))
            continue;
        hold(&s->at[at].all, mr_plan_call_frames(vertex), at);
        if (vertex->calls.batch_timeout_ns == 0)
            hold(&s->at[at].untimed, mr_plan_call_frames(vertex), at);
    }
    return worst_ways(s, v, one);
}

int mr_plan_gathering(const mr_plan_builder *b, int v, int one, int other, mr_gathering *found) {
    const size_t count = (size_t)b->count;
    search s = {.b = b, .behind = mr_calloc(count, 1), .way = mr_calloc(count, 1),
                .at = mr_calloc(count, sizeof *s.at)};
    const bool made = s.behind && s.way && s.at;
    *found = made ? find(&s, v, one, other) : (mr_gathering){0};
    mr_free(s.behind);
    mr_free(s.way);
    mr_free(s.at);
    return made ? MR_OK : MR_ERROR_MEMORY;
}

bool mr_plan_unites(const mr_plan_builder *b, int v) {
    const mr_stage_type *type = b->vertex[v]->type;
    return type && type->cascade == MR_CASCADE_GATHER && b->plan->vertices[v].input_count > MR_PLAN_OBJECTS;
}

static bool splits(const mr_plan_builder *b, int v) {
    return b->vertex[v]->type && b->vertex[v]->type->cascade == MR_CASCADE_SPLIT;
}

void mr_plan_mark_splits(const mr_plan_builder *b, int v, bool *marked) {
    memset(marked, 0, (size_t)b->count * sizeof *marked);
    for (int at = v; at >= 0; at--)
        for (int i = b->in.start[at]; (at == v || (marked[at] && !splits(b, at))) && i < b->in.start[at + 1]; i++) {
            const mr_plan_link *link = &b->link[b->in.item[i]];
            if (at != v || link->to_port == MR_PLAN_OBJECTS)
                marked[link->from] = true;
        }
    for (int at = 0; at < b->count; at++)
        marked[at] = marked[at] && splits(b, at);
}

int mr_plan_queue_beside(int frames) {
    return frames > 1 ? mr_plan_cap(2 * (int64_t)frames) : 0;
}

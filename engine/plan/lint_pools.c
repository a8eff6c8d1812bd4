/* Pools that would have to be larger than a pool may be.
 *
 * A pool is planned for all the places that may hold its buffers at once (plan.h); with fewer, stages would wait
 * for each other. The sizes of plan_sizes.c count a place once for each way to it, and stop at the limit. Where
 * one has met the limit, each place is counted here once. */
#include <stdio.h>

#include "engine/plan/builder.h"
#include "engine/plan/lint.h"
#include "millrace/status.h"

/* What may hold the output of one vertex, and the queue or the calls that hold most of it. */
typedef struct count {
    int64_t buffers;
    int64_t most;      /* of them, in one place */
    int64_t lanes;     /* and for each frame of that queue */
    int at;            /* whose queue that is; -1: none */
} count;

static void add_link(const mr_plan_builder *b, int v, const mr_plan_link *link, count *counted) {
    const mr_plan_vertex *to = &b->plan->vertices[link->to], *from = &b->plan->vertices[v];
    int64_t sources = from->entry == MR_ENTRY_PER_SOURCE ? 1 : (int64_t)mr_plan_at_once(b->plan, from);
    int64_t calls = (int64_t)to->in_flight * to->batch * (to->entry == MR_ENTRY_PER_SOURCE ? sources : 1);
    int64_t waiting = (int64_t)to->queue * sources;
    counted->buffers += waiting + calls;
    if (waiting <= counted->most)
        return;
    counted->most = waiting;
    counted->lanes = sources;
    counted->at = link->to;
}

/* Goes over the links behind `v` as far as frames pass on in the buffers that they came in. */
static count count_places(const mr_plan_builder *b, int v, bool *seen, int *stack) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    count counted = {.buffers = vertex->retained + (int64_t)vertex->in_flight * vertex->batch, .at = -1};
    int height = 0;
    for (int i = 0; i < b->count; i++)
        seen[i] = false;
    for (stack[height++] = v; height > 0;) {
        int at = stack[--height];
        for (int i = b->out.start[at]; i < b->out.start[at + 1]; i++) {
            const mr_plan_link *link = &b->link[b->out.item[i]];
            add_link(b, v, link, &counted);
            if (seen[link->to] || !mr_plan_passes_on(b, link))
                continue;
            seen[link->to] = true;
            stack[height++] = link->to;
        }
    }
    return counted;
}

static void refuse(const mr_plan_builder *b, int v, const count *counted) {
    const mr_plan_vertex *vertices = b->plan->vertices;
    int64_t fits = (MR_PLAN_MOST_BUFFERS - (counted->buffers - counted->most)) / counted->lanes;
    const mr_yaml *queue = b->vertex[counted->at]->node ? mr_yaml_get(b->vertex[counted->at]->node, "queue") : NULL;
    char hint[192], of_each[64] = "";
    if (fits > 0)
        snprintf(hint, sizeof hint, "write a queue of at most %lld in \"%.64s\"", (long long)fits,
                 vertices[counted->at].id);
    else
        snprintf(hint, sizeof hint, "write shorter queues behind \"%.64s\", or spread its sources over more stages",
                 vertices[v].id);
    if (counted->lanes > 1)
        snprintf(of_each, sizeof of_each, " of each of %lld sources", (long long)counted->lanes);
    mr_plan_error(b, queue ? queue->place : vertices[v].mark, hint,
                  "up to %lld frames of \"%s\" may be held at once, %d%s before \"%s\" alone, but a pool has at most "
                  "%d buffers",
                  (long long)counted->buffers, vertices[v].id, vertices[counted->at].queue, of_each,
                  vertices[counted->at].id, MR_PLAN_MOST_BUFFERS);
}

int mr_lint_pools(mr_plan_builder *b) {
    bool *seen = mr_arena_array(b->arena, (size_t)b->count, sizeof *seen);
    int *stack = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof *stack);
    uint64_t bytes;
    if (!seen || !stack)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        if (vertex->output_buffers < MR_PLAN_MOST_BUFFERS || !vertex->output_count ||
            !mr_plan_allocates(vertex, 0, &bytes))
            continue;
        count counted = count_places(b, v, seen, stack);
        if (counted.buffers > MR_PLAN_MOST_BUFFERS)
            refuse(b, v, &counted);
        else
            vertex->output_buffers = (int)counted.buffers;
    }
    return MR_OK;
}

/* How many buffers each stage's first output needs (the formula stands in plan.h). */
#include <string.h>

#include "engine/config/plan_builder.h"

enum { MOST_BUFFERS = 1 << 20 };

/* What may hold an output downstream: so many for each source of one producing instance, and so many in all. */
typedef struct holding {
    int64_t per_source, in_all;
} holding;

/* Whether frames may leave a stage in the buffers they came in: where something of the same kind comes out. */
static bool passes_through(const mr_plan_vertex *vertex, const mr_format *in) {
    mr_format met;
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].payload == in->payload && mr_format_meet(&vertex->outputs[i], in, &met))
            return true;
    return false;
}

static int64_t cap(int64_t value) {
    return value < MOST_BUFFERS ? value : MOST_BUFFERS;
}

void mr_plan_sizes(mr_plan_builder *b) {
    holding *behind = mr_arena_array(b->arena, (size_t)b->count, sizeof *behind);
    if (!behind)
        return;
    for (int v = b->count - 1; v >= 0; v--) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
            const mr_plan_edge *edge = &b->plan->edges[b->out.item[i]];
            const mr_plan_vertex *to = &b->plan->vertices[edge->to];
            int64_t calls = (int64_t)to->in_flight * to->batch;
            bool alone = to->entry == MR_ENTRY_PER_SOURCE;
            bool passes = passes_through(to, &edge->format);
            behind[v].per_source = cap(behind[v].per_source + to->queue + (alone ? calls : 0) +
                                       (passes ? behind[edge->to].per_source : 0));
            behind[v].in_all = cap(behind[v].in_all + (alone ? 0 : calls) + (passes ? behind[edge->to].in_all : 0));
        }
        bool alone = vertex->is_source || vertex->entry == MR_ENTRY_PER_SOURCE;
        int64_t sources = alone ? 1 : (int64_t)vertex->source_count;
        int64_t buffers = vertex->output_buffers + (int64_t)vertex->in_flight * vertex->batch +
                          behind[v].per_source * sources + behind[v].in_all;
        vertex->output_buffers = (int)cap(buffers);
    }
}

#include "engine/plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

size_t mr_plan_waiting(const mr_plan *plan) {
    size_t count = 0;
    for (size_t s = 0; s < plan->source_count; s++)
        count += plan->vertices[s].waits;
    return count;
}

size_t mr_plan_at_once(const mr_plan *plan, const mr_plan_vertex *vertex) {
    size_t waiting = 0;
    for (size_t i = 0; i < vertex->source_count; i++)
        waiting += plan->vertices[vertex->sources[i]].waits;
    size_t open = waiting > (size_t)plan->jobs ? (size_t)plan->jobs : waiting;
    return vertex->source_count - waiting + open;
}

bool mr_plan_same_devices(const mr_plan_vertex *a, const mr_plan_vertex *b) {
    return a->device_count == b->device_count && a->has_reserve == b->has_reserve &&
           (!a->has_reserve || a->reserve == b->reserve) &&
           memcmp(a->devices, b->devices, a->device_count * sizeof *a->devices) == 0;
}

bool mr_plan_works_on_devices(const mr_stage_type *type) {
    return type->map || type->streams;
}

void mr_plan_mark_before(const mr_plan *plan, int vertex, bool *before) {
    memset(before, 0, plan->vertex_count * sizeof *before);
    before[vertex] = true;
    /* Edges are ordered by the vertices they lead to: those of a reached vertex come after all that reach it. */
    for (size_t i = plan->edge_count; i-- > 0;)
        before[plan->edges[i].from] |= before[plan->edges[i].to];
}

bool mr_plan_is_reliable(const mr_plan *plan, int vertex) {
    bool reliable = false, *before = mr_calloc(plan->vertex_count, sizeof *before);
    if (!before)
        return false;
    mr_plan_mark_before(plan, vertex, before);
    for (size_t i = 0; i < plan->cut_count; i++)
        reliable |= before[plan->cuts[i].in] && plan->cuts[i].cut->mode == MR_CUT_RELIABLE;
    mr_free(before);
    return reliable;
}

/* Copies pass on pictures unchanged. */
static double shrink_by(const mr_plan *plan, int v, const mr_format *picture) {
    const mr_plan_vertex *vertex = &plan->vertices[v];
    if (vertex->copy)
        return mr_plan_shrink(plan, v, picture);
    const mr_format *output = vertex->output_count ? &vertex->formats[0] : NULL;
    return vertex->type->shrinks ? vertex->type->shrinks(vertex->options, output, picture) : 1.0;
}

double mr_plan_shrink(const mr_plan *plan, int vertex, const mr_format *picture) {
    double least = INFINITY;
    bool is_read = false;
    for (size_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from == vertex && plan->edges[e].from_port == 0) {
            least = fmin(least, shrink_by(plan, plan->edges[e].to, picture));
            is_read = true;
        }
    return is_read ? least : 1.0;
}

void mr_plan_destroy(mr_plan **plan) {
    if (!*plan)
        return;
    mr_spec *spec = (mr_spec *)(*plan)->spec;
    mr_spec_destroy(&spec);
    mr_arena_fini(&(*plan)->arena);
    free(*plan);
    *plan = NULL;
}

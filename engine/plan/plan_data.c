#include "engine/plan/plan_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

size_t mr_plan_waiting(const mr_plan *plan) {
    size_t count = 0;
    for (size_t s = 0; s < plan->source_count; s++)
        count += plan->vertices[s].offer.waits;
    return count;
}

size_t mr_plan_at_once(const mr_plan *plan, const mr_plan_vertex *vertex) {
    size_t waiting = 0;
    for (size_t i = 0; i < vertex->source_count; i++)
        waiting += plan->vertices[vertex->sources[i]].offer.waits;
    size_t open = waiting > (size_t)plan->jobs ? (size_t)plan->jobs : waiting;
    return vertex->source_count - waiting + open;
}

bool mr_plan_same_devices(const mr_plan_vertex *a, const mr_plan_vertex *b) {
    return a->devices.count == b->devices.count && a->devices.has_reserve == b->devices.has_reserve &&
           (!a->devices.has_reserve || a->devices.reserve == b->devices.reserve) &&
           memcmp(a->devices.at, b->devices.at, a->devices.count * sizeof *a->devices.at) == 0;
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

/* ---- sources that are added ------------------------------------------------------------------------------------ */

static const mr_plan_vertex *stage_of(const mr_plan *plan, const char *id) {
    for (size_t v = plan->source_count; v < plan->vertex_count; v++)
        if (plan->vertices[v].role == MR_ROLE_STAGE && strcmp(plan->vertices[v].id, id) == 0)
            return &plan->vertices[v];
    return NULL;
}

/* Whether each link from `source` has a matching one from `place`. */
static bool follows(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source) {
    for (size_t e = 0; e < with->edge_count; e++) {
        const mr_view_link *edge = &with->edges[e];
        bool found = edge->from != (int)source;
        for (size_t k = 0; k < plan->edge_count && !found; k++)
            found = plan->edges[k].from == (int)place && plan->edges[k].from_port == edge->from_port &&
                    plan->edges[k].to_port == edge->to_port &&
                    strcmp(plan->vertices[plan->edges[k].to].id, with->vertices[edge->to].id) == 0;
        if (!found)
            return false;
    }
    return true;
}

bool mr_plan_fits(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source) {
    const mr_plan_vertex *a = &plan->vertices[place], *b = &with->vertices[source];
    return a->type == b->type && follows(plan, place, with, source) && follows(with, source, plan, place);
}

static int exceeds(const mr_plan_vertex *planned, const mr_plan_vertex *vertex) {
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    for (size_t i = 0; i < vertex->output_count && i < planned->output_count; i++)
        if (!mr_format_set_holds(&planned->outputs[i].set, &vertex->outputs[i].set))
            return mr_fail(MR_ERROR_CONFIG, "%s would give %s, and was planned for %s", planned->id,
                           mr_format_set_print(&vertex->outputs[i].set, one, sizeof one),
                           mr_format_set_print(&planned->outputs[i].set, other, sizeof other));
    if (vertex->needs.retained > planned->needs.retained)
        return mr_fail(MR_ERROR_CONFIG, "%s would keep %d frames for itself, and was planned for %d", planned->id,
                       vertex->needs.retained, planned->needs.retained);
    return MR_OK;
}

int mr_plan_proves(const mr_plan *plan, uint32_t place, const mr_plan *with, uint32_t source) {
    const mr_plan_vertex *a = &plan->vertices[place], *b = &with->vertices[source];
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    for (size_t i = 0; i < b->output_count; i++)
        if (!mr_format_set_holds(&a->outputs[i].set, &b->outputs[i].set))
            return mr_fail(MR_ERROR_CONFIG, "it gives %s, and its slot was planned for %s",
                           mr_format_set_print(&b->outputs[i].set, one, sizeof one),
                           mr_format_set_print(&a->outputs[i].set, other, sizeof other));
    int status = MR_OK;
    for (size_t v = with->source_count; v < with->vertex_count && !status; v++) {
        const mr_plan_vertex *vertex = &with->vertices[v];
        const mr_plan_vertex *planned = vertex->role == MR_ROLE_STAGE ? stage_of(plan, vertex->id) : NULL;
        status = planned ? exceeds(planned, vertex) : MR_OK;
    }
    return status;
}

void mr_plan_seat(mr_plan *plan, uint32_t slot, const mr_plan_vertex *source, const char *id, const char *place,
                  const char *note) {
    mr_plan_vertex *to = &plan->vertices[slot];
    to->id = id;
    to->place = place;
    to->remarks.anywhere = note;
    to->options = source->options;
    to->mark = source->mark;
    to->calls.blocking = source->calls.blocking;
    to->offer.paced = source->offer.paced;
    to->offer.rate = source->offer.rate;
    to->offer.frames = source->offer.frames;
    to->offer.endless = source->offer.endless;
    to->offer.repeats = source->offer.repeats;
    to->offer.deadline_ns = source->offer.deadline_ns;
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

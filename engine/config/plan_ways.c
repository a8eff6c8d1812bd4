/* Where frames go in the buffers that they lie in, as far as memory is chosen by it: into the memory of a device, into
 * another process, or from memory that was lent. */
#include "engine/config/plan_builder.h"
#include "millrace/status.h"

int mr_plan_accelerator(const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < mr_plan_parts(vertex); i++)
        if (mr_plan_part(vertex, i))
            return mr_plan_part(vertex, i);
    return 0;
}

/* The device whose copies read a port (-1: any) in host memory, perhaps behind stages that send frames on in the
 * buffers they came in, so that it is pinned; 0: none. Those behind the vertex have been looked at. */
static int pinned_for(const mr_plan_builder *b, const int *pinned, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        int device = mr_plan_accelerator(&b->plan->vertices[link->to]);
        if (!device && pinned[link->to] && mr_plan_passes_on(b, link))
            device = pinned[link->to];
        if (device && (port < 0 || link->from_port == port))
            return device;
    }
    return 0;
}

static int find_pinned(const mr_plan_builder *b, int **pinned) {
    *pinned = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **pinned);
    for (int v = b->count - 1; *pinned && v >= 0; v--)
        (*pinned)[v] = b->plan->vertices[v].devices[0] ? 0 : pinned_for(b, *pinned, v, -1);
    return *pinned ? MR_OK : MR_ERROR_MEMORY;
}

/* Whether what comes out of a port (-1: of any) goes to another process of this host, perhaps through stages that
 * send frames on in the buffers they came in; those behind the vertex have been looked at. */
static bool is_shared(const mr_plan_builder *b, const bool *shared, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_vertex *to = &b->plan->vertices[link->to];
        const mr_cut *cut = mr_cut_of(to->type, to->options);
        if (port >= 0 && link->from_port != port)
            continue;
        if (cut ? cut->shared_memory : shared[link->to] && mr_plan_passes_on(b, link))
            return true;
    }
    return false;
}

/* What comes over a cut lies in memory of the other process, or in that of the message it came in. */
static int find_shared(const mr_plan_builder *b, bool **shared) {
    *shared = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **shared);
    for (int v = b->count - 1; *shared && v >= 0; v--) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        bool here = !mr_cut_of(vertex->type, vertex->options) && vertex->devices[0] == 0;
        (*shared)[v] = here && is_shared(b, *shared, v, -1);
    }
    return *shared ? MR_OK : MR_ERROR_MEMORY;
}

/* Whether frames of a vertex may lie in memory that was lent, by it or by one whose frames it sends on. */
static int find_lent(const mr_plan_builder *b, bool **lent) {
    *lent = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **lent);
    for (int v = 0; *lent && v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        (*lent)[v] = vertex->type == &mr_cut_in_stage;
        for (size_t port = 0; port < vertex->output_count; port++)
            (*lent)[v] = (*lent)[v] || vertex->outputs[port].lent;
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            const mr_plan_link *link = &b->link[b->in.item[i]];
            (*lent)[v] = (*lent)[v] || ((*lent)[link->from] && mr_plan_passes_on(b, link));
        }
    }
    return *lent ? MR_OK : MR_ERROR_MEMORY;
}

int mr_plan_find_ways(const mr_plan_builder *b, mr_plan_ways *w) {
    return find_shared(b, &w->shared) || find_lent(b, &w->lent) || find_pinned(b, &w->pinned) ? MR_ERROR_MEMORY : MR_OK;
}

int mr_plan_pinned_for(const mr_plan_builder *b, const mr_plan_ways *w, int v, int port) {
    return pinned_for(b, w->pinned, v, port);
}

bool mr_plan_is_shared(const mr_plan_builder *b, const mr_plan_ways *w, int v, int port) {
    return w->shared[v] && is_shared(b, w->shared, v, port);
}

bool mr_plan_gets_lent(const mr_plan_builder *b, const mr_plan_ways *w, int v) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (w->lent[b->link[b->in.item[i]].from])
            return true;
    return false;
}

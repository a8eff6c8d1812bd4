/* The graph's order: cycles, topological order, and which sources reach which vertex. */
#include <stdlib.h>

#include "engine/plan/builder.h"
#include "millrace/status.h"

/* Groups the links by one of their ends, keeping their order within a group (a counting sort). */
static int make_fan(mr_plan_builder *b, mr_plan_fan *fan, bool by_to) {
    fan->start = mr_arena_array(b->arena, (size_t)b->count + 2, sizeof *fan->start);
    fan->item = mr_arena_array(b->arena, b->link_count, sizeof *fan->item);
    if (!fan->start || !fan->item)
        return MR_ERROR_MEMORY;
    /* Counts stand two places up, so that after the sums start[v + 1] is where group v is to be filled from. */
    int *fill = fan->start + 1;
    for (size_t i = 0; i < b->link_count; i++)
        fan->start[(by_to ? b->link[i].to : b->link[i].from) + 2]++;
    for (int v = 0; v < b->count; v++)
        fan->start[v + 2] += fan->start[v + 1];
    for (size_t i = 0; i < b->link_count; i++)
        fan->item[fill[by_to ? b->link[i].to : b->link[i].from]++] = (int)i;
    return MR_OK;
}

int mr_plan_list_fans(mr_plan_builder *b) {
    return make_fan(b, &b->in, true) || make_fan(b, &b->out, false) ? MR_ERROR_MEMORY : MR_OK;
}

/* Kahn's algorithm; fills `order` with the vertices that are on no cycle and behind none, and says how many. Ties are
 * broken by the order of the YAML. */
static int sort_vertices(const mr_plan_builder *b, int *order, int *waiting) {
    int done = 0, found = 0;
    for (int v = 0; v < b->count; v++) {
        waiting[v] = b->in.start[v + 1] - b->in.start[v];
        if (waiting[v] == 0)
            order[found++] = v;
    }
    for (; done < found; done++)
        for (int i = b->out.start[order[done]]; i < b->out.start[order[done] + 1]; i++) {
            int to = b->link[b->out.item[i]].to;
            if (--waiting[to] == 0)
                order[found++] = to;
        }
    return found;
}

/* Names a cycle that vertex `v` is on, in the direction frames would flow. `seen` has the walk that
 * met each vertex. */
static int report_cycle(mr_plan_builder *b, int v, const int *before) {
    char text[1024];
    int length = 1;
    for (int at = before[v]; at != v; at = before[at])
        length++;
    int *ring = mr_arena_array(b->arena, (size_t)length, sizeof *ring);
    if (!ring)
        return MR_ERROR_MEMORY;
    for (int i = length - 1, at = v; i >= 0; i--, at = before[at])
        ring[i] = at;
    /* It begins at the stage that the file has first. */
    int first = 0;
    for (int i = 0; i < length; i++)
        if (ring[i] < ring[first])
            first = i;
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i <= length && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " -> " : "",
                                 b->vertex[ring[(first + i) % length]]->id);
    mr_plan_error(b, b->vertex[ring[first]]->place, "take one of these inputs away",
                  "stages go round in a circle: %s", text);
    return MR_OK;
}

/* What is left over by the sort waits for something that is left over: walking against the links ends in a cycle. */
static int report_cycles(mr_plan_builder *b, const int *waiting) {
    int *before = mr_arena_array(b->arena, (size_t)b->count, sizeof *before);
    int *walk = mr_arena_array(b->arena, (size_t)b->count, sizeof *walk);
    if (!before || !walk)
        return MR_ERROR_MEMORY;
    for (int start = 0; start < b->count; start++) {
        int at = start;
        while (waiting[at] > 0 && !walk[at]) {
            walk[at] = start + 1;
            for (int i = b->in.start[at]; i < b->in.start[at + 1]; i++)
                if (waiting[b->link[b->in.item[i]].from] > 0)
                    before[at] = b->link[b->in.item[i]].from;
            at = before[at];
        }
        if (waiting[at] > 0 && walk[at] == start + 1 && waiting[start] > 0 && report_cycle(b, at, before))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* Renumbers vertices and links by `order`, sources first. */
static int renumber(mr_plan_builder *b, const int *order) {
    int sources = (int)b->spec->source_count, next = sources;
    const mr_spec_vertex **vertex = mr_arena_array(b->arena, (size_t)b->count, sizeof *vertex);
    int *position = mr_arena_array(b->arena, (size_t)b->count, sizeof *position);
    mr_plan_link *link = mr_arena_array(b->arena, b->link_count, sizeof *link);
    if (!vertex || !position || !link)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < b->count; i++)
        position[order[i]] = order[i] < sources ? order[i] : next++;
    for (int v = 0; v < b->count; v++)
        vertex[position[v]] = b->vertex[v];
    /* Links by `to` in the new order. */
    size_t count = 0;
    for (int i = 0; i < b->count; i++)
        for (int k = b->in.start[order[i]]; k < b->in.start[order[i] + 1]; k++) {
            link[count] = b->link[b->in.item[k]];
            link[count].from = position[link[count].from];
            link[count].to = position[link[count].to];
            count++;
        }
    b->vertex = vertex;
    b->link = link;
    return mr_plan_list_fans(b);
}

int mr_plan_order(mr_plan_builder *b) {
    int *order = mr_arena_array(b->arena, (size_t)b->count, sizeof *order);
    int *waiting = mr_arena_array(b->arena, (size_t)b->count, sizeof *waiting);
    if (!order || !waiting || mr_plan_list_fans(b))
        return MR_ERROR_MEMORY;
    if (sort_vertices(b, order, waiting) < b->count)
        return report_cycles(b, waiting);
    return renumber(b, order);
}

/* ---- sources -------------------------------------------------------------------------------------------------- */

static int compare_sources(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The sources of all inputs of `v` together. `seen` has, for each source, the vertex that last counted it. */
static int unite(mr_plan_builder *b, int v, int *seen) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    size_t room = 0;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        room += b->plan->vertices[b->link[b->in.item[i]].from].source_count;
    if (room > b->spec->source_count)
        room = b->spec->source_count;
    uint32_t *sources = mr_arena_array(b->arena, room, sizeof *sources);
    if (!sources)
        return MR_ERROR_MEMORY;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_vertex *from = &b->plan->vertices[b->link[b->in.item[i]].from];
        for (size_t s = 0; s < from->source_count; s++)
            if (seen[from->sources[s]] != v + 1) {
                seen[from->sources[s]] = v + 1;
                sources[vertex->source_count++] = from->sources[s];
            }
    }
    qsort(sources, vertex->source_count, sizeof *sources, compare_sources);
    vertex->sources = sources;
    return MR_OK;
}

/* True where all inputs of `v` carry the same list, which is then shared: a long chain behind many
 * sources holds one. */
static bool same_sources(const mr_plan_builder *b, int v) {
    const uint32_t *first = NULL;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_vertex *from = &b->plan->vertices[b->link[b->in.item[i]].from];
        if (first && from->sources != first)
            return false;
        first = from->sources;
    }
    return first != NULL;
}

int mr_plan_reach(mr_plan_builder *b) {
    int *seen = mr_arena_array(b->arena, b->spec->source_count, sizeof *seen);
    if (!seen)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        if (vertex->role == MR_ROLE_SOURCE) {
            vertex->sources = &vertex->source;
            vertex->source_count = 1;
        } else if (same_sources(b, v)) {
            const mr_plan_vertex *from = &b->plan->vertices[b->link[b->in.item[b->in.start[v]]].from];
            vertex->sources = from->sources;
            vertex->source_count = from->source_count;
        } else if (unite(b, v, seen)) {
            return MR_ERROR_MEMORY;
        }
    }
    return MR_OK;
}

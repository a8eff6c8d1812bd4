/* Turns the graph of names into links between vertices, in topological order, and inserts the planner's vertices into
 * links. */
#include "engine/planner/graph/links.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/planner/graph/builder.h"
#include "engine/spec/join_hint.h"
#include "millrace/status.h"

/* ---- from names to links ----------------------------------------------------------------------------------------- */

/* One name being resolved for an input port on vertex `to`. `linked` has, for each vertex and its first ports, the last
 * consumer port that was linked to it, so that a repeated name is seen without searching. */
typedef struct reference {
    mr_plan_builder *b;
    const mr_spec_input *input;
    int to, to_port;
    int64_t *linked;
} reference;

enum { LINKED_PORTS = 4 };

static const mr_spec_vertex *consumer(const reference *r) {
    return r->b->vertex[r->to];
}

int mr_port_count(const mr_port *ports) {
    int count = 0;
    while (ports && ports[count].name)
        count++;
    return count;
}

static int add_link(const reference *r, int from, int from_port) {
    mr_plan_builder *b = r->b;
    int64_t mark = ((int64_t)r->to << 32 | r->to_port) + 1;
    int64_t *linked = from_port < LINKED_PORTS ? &r->linked[from * LINKED_PORTS + from_port] : NULL;
    if (linked && *linked == mark) {
        mr_plan_error(b, r->input->place, "name it once", "stages.%s: it takes \"%s\" twice", consumer(r)->id,
                      b->vertex[from]->id);
        return MR_OK;
    }
    if (linked)
        *linked = mark;
    if (b->link_count == MR_PLAN_MAX_LINKS) {
        mr_plan_error(b, r->input->place, NULL, "there are more than %d links", MR_PLAN_MAX_LINKS);
        b->link_count++;
    }
    if (b->link_count > MR_PLAN_MAX_LINKS)
        return MR_OK;
    if (mr_arena_grow(b->arena, (void **)&b->link, b->link_count, &b->link_room, sizeof *b->link))
        return MR_ERROR_MEMORY;
    b->link[b->link_count++] = (mr_plan_link){
        .from = from, .from_port = from_port, .to = r->to, .to_port = r->to_port, .place = r->input->place};
    return MR_OK;
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

/* With very many ids and very many unknown names: after this many comparisons, the next names get no suggestion. */
enum { MOST_OFFERED = 100000 };

void mr_plan_offer_ids(mr_plan_builder *b, mr_nearest *nearest, bool sources, bool stages) {
    for (int v = 0; v < b->count && b->offered < MOST_OFFERED && !mr_diagnostics_full(b->diagnostics); v++) {
        if (!(b->vertex[v]->is_source ? sources : stages))
            continue;
        mr_nearest_offer(nearest, b->vertex[v]->id);
        b->offered++;
    }
}

static bool is_stage_type(const mr_stage_type *const *types, const char *name) {
    for (; types && *types; types++)
        if (strcmp((*types)->name, name) == 0 && (*types)->inputs && (*types)->inputs[0].name)
            return true;
    return false;
}

static void unknown_input(const reference *r, const char *name) {
    char hint[256];
    mr_nearest nearest = {.wanted = name};
    /* Without any source, which is diagnosed, the name may have meant one. */
    if (r->b->spec->source_count == 0)
        return;
    mr_plan_offer_ids(r->b, &nearest, true, true);
    const char *other = strpbrk(name, ", ") ? "several inputs are a list: input: [a, b]"
                                            : "inputs are ids of sources and stages of this file";
    char add[160];
    if (is_stage_type(r->b->spec->types, name)) {
        snprintf(add, sizeof add, "add it under stages: %.100s: {input: ...}", name);
        other = add;
    }
    const char *advice = strcmp(name, "*") == 0 ? "sources.* means all of them"
                                                : mr_nearest_hint(&nearest, hint, sizeof hint, other);
    mr_plan_error(r->b, r->input->place, advice,
                  "stages.%s: there is no source or stage \"%s\" to take as input", consumer(r)->id, name);
}

static void unknown_output(const reference *r, const mr_spec_vertex *from, const char *port) {
    char hint[256] = "";
    for (const mr_port *output = from->type->outputs; output->name; output++) {
        size_t length = strlen(hint);
        snprintf(hint + length, sizeof hint - length, "%s%s", length ? ", " : "its outputs are: ", output->name);
    }
    mr_plan_error(r->b, r->input->place, hint, "stages.%s: \"%s\" (%s) has no output \"%s\"", consumer(r)->id,
                  from->id, from->type->name, port);
}

/* Links vertex `from` by the output `port`, or by the first output if that is NULL. */
static int link_vertex(const reference *r, int from, const char *port) {
    const mr_spec_vertex *producer = r->b->vertex[from];
    const mr_stage_type *type = producer->type;
    int index = 0;
    if (from == r->to) {
        mr_plan_error(r->b, r->input->place, NULL, "stages.%s: it reads itself", producer->id);
        return MR_OK;
    }
    if (!type) /* An error, and diagnosed. The link is kept, so that cycles are found. */
        return add_link(r, from, 0);
    if (!type->outputs) {
        mr_plan_error(r->b, r->input->place, "write the input of that stage instead",
                      "stages.%s: \"%s\" (%s) is a sink and has no output", consumer(r)->id, producer->id,
                      type->name);
        return MR_OK;
    }
    while (port && type->outputs[index].name && strcmp(type->outputs[index].name, port) != 0)
        index++;
    if (!type->outputs[index].name) {
        unknown_output(r, producer, port);
        return MR_OK;
    }
    return add_link(r, from, index);
}

/* The sources that were written as one; NULL if there are none of that name. */
static const mr_spec_group *find_group(const mr_spec *spec, const char *name) {
    for (size_t g = 0; g < spec->group_count; g++)
        if (strcmp(spec->groups[g].name, name) == 0)
            return &spec->groups[g];
    return NULL;
}

static int link_group(const reference *r, const mr_spec_group *group) {
    for (size_t s = group->first; s < group->first + group->count; s++)
        if (link_vertex(r, (int)s, NULL))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* sources.NAME, where NAME may hold * and ?. */
static int link_sources(const reference *r, const char *pattern) {
    size_t before = r->b->link_count;
    size_t errors = r->b->diagnostics->errors;
    for (size_t s = 0; s < r->b->spec->source_count; s++)
        if (fnmatch(pattern, r->b->vertex[s]->id, 0) == 0 && link_vertex(r, (int)s, NULL))
            return MR_ERROR_MEMORY;
    if (r->b->link_count == before && r->b->diagnostics->errors == errors && r->b->spec->source_count > 0)
        mr_plan_error(r->b, r->input->place, "sources.* means all of them", "stages.%s: there is no source \"%s\"",
                      consumer(r)->id, pattern);
    return MR_OK;
}

static int resolve(const reference *r) {
    const char *name = r->input->from, *dot = strchr(name, '.');
    mr_plan_builder *b = r->b;
    if (strncmp(name, "sources.", 8) == 0)
        return find_group(b->spec, name + 8) ? link_group(r, find_group(b->spec, name + 8))
                                             : link_sources(r, name + 8);
    if (b->spec->all_sources && strcmp(name, b->spec->all_sources) == 0)
        return link_sources(r, "*");
    if (find_group(b->spec, name))
        return link_group(r, find_group(b->spec, name));
    const char *id = dot ? mr_arena_text(b->arena, name, (size_t)(dot - name)) : name;
    if (!id)
        return MR_ERROR_MEMORY;
    const mr_spec_vertex **found = mr_index_get(&b->ids, id);
    if (!found) {
        unknown_input(r, id);
        return MR_OK;
    }
    return link_vertex(r, (int)(found - b->vertex), dot ? dot + 1 : NULL);
}

/* ---- ports ---------------------------------------------------------------------------------------------------- */

static void unknown_port(const mr_plan_builder *b, const mr_spec_vertex *stage, const mr_spec_input *input) {
    char hint[256];
    mr_nearest nearest = {.wanted = input->port};
    for (const mr_port *port = stage->type->inputs; port->name; port++)
        mr_nearest_offer(&nearest, port->name);
    mr_plan_error(b, input->place, mr_nearest_hint(&nearest, hint, sizeof hint, "`millrace inspect` shows its ports"),
                  "stages.%s: %s has no input port \"%s\"", stage->id, stage->type->name, input->port);
}

/* The input port that the i-th input of a stage stands for; -1 if there is none, which is diagnosed. */
static int port_of(const mr_plan_builder *b, const mr_spec_vertex *stage, size_t i) {
    const mr_spec_input *input = &stage->inputs[i];
    if (!stage->type || !stage->joins)
        return 0;
    if (stage->type->inputs[0].many)
        return (int)i;
    for (int port = 0; stage->type->inputs[port].name; port++)
        if (strcmp(stage->type->inputs[port].name, input->port) == 0)
            return port;
    unknown_port(b, stage, input);
    return -1;
}

/* Every port of a type needs an input; for a join, `join` names it. */
static void check_ports(const mr_plan_builder *b, const mr_spec_vertex *stage, size_t errors) {
    if (!stage->type || stage->input_count == 0 || b->diagnostics->errors > errors)
        return;
    const mr_port *ports = stage->type->inputs;
    char hint[256];
    if (ports[0].many) {
        if (!stage->joins && !ports[0].optional)
            mr_plan_error(b, stage->inputs[0].place,
                          mr_join_hint(mr_yaml_get(stage->node, "input"), hint, sizeof hint),
                          "stages.%s: %s takes its inputs by name, under `join`", stage->id, stage->type->name);
        return;
    }
    for (int port = 0; ports[port].name; port++) {
        bool taken = !stage->joins && port == 0;
        for (size_t i = 0; stage->joins && i < stage->input_count; i++)
            taken = taken || strcmp(stage->inputs[i].port, ports[port].name) == 0;
        if (!taken)
            mr_plan_error(b, stage->place, "name each input under `join`",
                          "stages.%s: the input port \"%s\" of %s is not connected", stage->id, ports[port].name,
                          stage->type->name);
    }
}

static int resolve_stage(mr_plan_builder *b, int v, int64_t *linked) {
    const mr_spec_vertex *stage = b->vertex[v];
    size_t errors = b->diagnostics->errors;
    for (size_t i = 0; i < stage->input_count; i++) {
        int port = port_of(b, stage, i);
        const reference r = {.b = b, .input = &stage->inputs[i], .to = v, .to_port = port, .linked = linked};
        if (port >= 0 && resolve(&r))
            return MR_ERROR_MEMORY;
    }
    check_ports(b, stage, errors);
    return MR_OK;
}

int mr_plan_resolve_links(mr_plan_builder *b) {
    int64_t *linked = mr_arena_array(b->arena, (size_t)b->count * LINKED_PORTS, sizeof *linked);
    if (!linked)
        return MR_ERROR_MEMORY;
    for (int v = (int)b->spec->source_count; v < b->count; v++)
        if (resolve_stage(b, v, linked))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

int mr_plan_list_edges(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    plan->edges = mr_arena_array(b->arena, b->link_count, sizeof *plan->edges);
    if (!plan->edges)
        return MR_ERROR_MEMORY;
    plan->edge_count = b->link_count;
    for (size_t i = 0; i < b->link_count; i++)
        plan->edges[i] = (mr_view_link){.from = b->link[i].from,
                                        .from_port = b->link[i].from_port,
                                        .to = b->link[i].to,
                                        .to_port = b->link[i].to_port};
    return MR_OK;
}

/* Groups links by one end and keeps their order within a group (a counting sort). */
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

static int list_fans(mr_plan_builder *b) {
    return make_fan(b, &b->in, true) || make_fan(b, &b->out, false) ? MR_ERROR_MEMORY : MR_OK;
}

/* Kahn's algorithm. Fills `order` with the vertices that are neither on a cycle nor after one, and returns how many.
 * The YAML's order breaks ties. */
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

/* Names a cycle that vertex `v` is on, in the direction that frames would flow. `seen` has the walk that met each
 * vertex. */
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
    mr_plan_error(b, b->vertex[ring[first]]->place, "remove one of these inputs",
                  "stages form a cycle: %s", text);
    return MR_OK;
}

/* Each vertex left over by the sort waits for another left over: walking against the links ends in a cycle. */
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
    return list_fans(b);
}

int mr_plan_order(mr_plan_builder *b) {
    int *order = mr_arena_array(b->arena, (size_t)b->count, sizeof *order);
    int *waiting = mr_arena_array(b->arena, (size_t)b->count, sizeof *waiting);
    if (!order || !waiting || list_fans(b))
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

/* The sources for all of `v`'s inputs together. `seen` has, for each source, the vertex that last counted it. */
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

/* Whether all inputs of `v` carry the same list, which is then shared: a long chain after many sources has one. */
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

void mr_plan_mark_to(const mr_plan_builder *b, int v, int port, bool *marked) {
    memset(marked, 0, (size_t)b->count * sizeof *marked);
    for (int at = v; at >= 0; at--)
        for (int i = b->in.start[at]; (at == v || marked[at]) && i < b->in.start[at + 1]; i++) {
            const mr_plan_link *link = &b->link[b->in.item[i]];
            if (at != v || link->to_port == port)
                marked[link->from] = true;
        }
}

/* ---- vertices of the planner ------------------------------------------------------------------------------------- */

/* Inserts the planner's vertices into links. The graph is renumbered, with each new vertex before the first stage that
 * reads its output. */
/* The vertices inserted after one output port, and the next list after the same vertex. */
typedef struct spliced {
    int from_port;
    const mr_plan_vertex *reader; /* the first stage that reads it */
    int position;                 /* the last vertex's, in the new numbering */
    struct spliced *next;
} spliced;

/* The graph being built anew. */
typedef struct rebuild {
    mr_plan_builder *b;
    const mr_plan_insertion *insertion;
    spliced **behind; /* by old vertex */
    int *position;    /* by old vertex */
    int count;        /* vertices */
    mr_plan_vertex *vertices;
    const mr_spec_vertex **specs;
    size_t link_count;
    mr_plan_link *link;
} rebuild;

static void keep_link(rebuild *r, mr_plan_link link) {
    r->link[r->link_count++] = link;
}

static spliced *find_spliced(const rebuild *r, const mr_plan_link *link) {
    spliced *found = r->behind[link->from];
    while (found && (found->from_port != link->from_port ||
                     !r->insertion->shared(found->reader, &r->b->plan->vertices[link->to])))
        found = found->next;
    return found;
}

/* The new vertices, one after the other, and the links that lead into them. */
static int add_spliced(rebuild *r, const mr_plan_link *link) {
    spliced *added = mr_arena_alloc(r->b->arena, sizeof *added);
    mr_spec_vertex *specs = mr_arena_array(r->b->arena, (size_t)r->insertion->count, sizeof *specs);
    if (!added || !specs || r->insertion->make(r->b, link, &r->vertices[r->count], specs))
        return MR_ERROR_MEMORY;
    mr_plan_link into = {.from = r->position[link->from], .from_port = link->from_port, .place = link->place};
    for (int i = 0; i < r->insertion->count; i++) {
        into.to = r->count;
        keep_link(r, into);
        into = (mr_plan_link){.from = r->count, .place = link->place};
        r->specs[r->count++] = &specs[i];
    }
    *added = (spliced){.from_port = link->from_port,
                       .reader = &r->b->plan->vertices[link->to],
                       .position = r->count - 1,
                       .next = r->behind[link->from]};
    r->behind[link->from] = added;
    return MR_OK;
}

/* Adds an old vertex, after the inserted vertices that it is the first to read. */
static int add_vertex(rebuild *r, int v) {
    mr_plan_builder *b = r->b;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        if (r->insertion->needed(b, link) && !find_spliced(r, link) && add_spliced(r, link))
            return MR_ERROR_MEMORY;
    }
    r->position[v] = r->count;
    r->vertices[r->count] = b->plan->vertices[v];
    r->specs[r->count++] = b->vertex[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        mr_plan_link link = b->link[b->in.item[i]];
        const spliced *between = r->insertion->needed(b, &link) ? find_spliced(r, &link) : NULL;
        link.from = between ? between->position : r->position[link.from];
        link.from_port = between ? 0 : link.from_port;
        link.to = r->position[v];
        keep_link(r, link);
    }
    return MR_OK;
}

static int adopt(rebuild *r) {
    mr_plan_builder *b = r->b;
    mr_plan *plan = b->plan;
    for (size_t i = 0; i < plan->cut_count; i++) {
        plan->cuts[i].out = r->position[plan->cuts[i].out];
        plan->cuts[i].in = r->position[plan->cuts[i].in];
    }
    plan->vertices = r->vertices;
    plan->vertex_count = (size_t)r->count;
    b->count = r->count;
    b->vertex = r->specs;
    b->link = r->link;
    b->link_count = r->link_count;
    return mr_plan_list_edges(b) || list_fans(b) ? MR_ERROR_MEMORY : MR_OK;
}

int mr_plan_splice(mr_plan_builder *b, const mr_plan_insertion *insertion) {
    rebuild r = {.b = b, .insertion = insertion};
    size_t needed = 0;
    for (size_t i = 0; i < b->link_count; i++)
        needed += insertion->needed(b, &b->link[i]);
    if (needed == 0)
        return MR_OK;
    size_t more = needed * (size_t)insertion->count, most = (size_t)b->count + more;
    r.behind = mr_arena_array(b->arena, (size_t)b->count, sizeof(spliced *));
    r.position = mr_arena_array(b->arena, (size_t)b->count, sizeof *r.position);
    r.vertices = mr_arena_array(b->arena, most, sizeof *r.vertices);
    r.specs = mr_arena_array(b->arena, most, sizeof(mr_spec_vertex *));
    r.link = mr_arena_array(b->arena, b->link_count + more, sizeof *r.link);
    if (!r.behind || !r.position || !r.vertices || !r.specs || !r.link)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++)
        if (add_vertex(&r, v))
            return MR_ERROR_MEMORY;
    return adopt(&r);
}

int mr_plan_repeat(mr_plan_builder *b, mr_plan_vertex *vertex, const mr_plan_vertex *from, int port) {
    const mr_planned_output *given = &from->outputs[port];
    mr_planned_input *input = mr_arena_alloc(b->arena, sizeof *input);
    mr_planned_output *output = mr_arena_alloc(b->arena, sizeof *output);
    mr_format *format = mr_arena_alloc(b->arena, sizeof *format);
    if (!input || !output || !format)
        return MR_ERROR_MEMORY;
    *format = mr_format_set_common(&given->set);
    *input = (mr_planned_input){.port = vertex->type->inputs[0].name,
                                .from = from->id,
                                .set = given->set,
                                .format = *format,
                                .results = given->results,
                                .more_results = given->more_results,
                                .mean_pixels = given->mean_pixels,
                                .references = given->references,
                                .stills = given->stills};
    *output = (mr_planned_output){.set = given->set,
                                  .follows = -1,
                                  .shares = 0,
                                  .results = given->results,
                                  .more_results = given->more_results,
                                  .mean_pixels = given->mean_pixels,
                                  .references = given->references,
                                  .stills = given->stills};
    vertex->input_count = 1;
    vertex->inputs = input;
    vertex->output_count = vertex->type->outputs ? 1 : 0;
    vertex->outputs = output;
    vertex->formats = format;
    return MR_OK;
}

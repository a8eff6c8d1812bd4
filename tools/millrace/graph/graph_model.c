/* Makes a chart from a plan. Only the first section reads properties of the plan. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/format_set.h"
#include "millrace/status.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/graph/graph_model.h"

/* Up to FEW similar sources are drawn one by one. */
enum { FEW = 3, UNUSED = -1 };

typedef struct maker {
    mr_chart *graph;
    const mr_plan_view *plan;
    int *start; /* vertex v's edges: indices start[v] to start[v + 1] - 1 in by_from */
    int *by_from;
    int *node;    /* each vertex's */
    int *members; /* how many vertices each node has */
} maker;

/* ---- properties of the plan ------------------------------------------------------------------------------------ */

/* "cuda:0"; "fast (cuda:0)" if the YAML names it; several, with commas, if frames are spread. */
static const char *device_of(maker *m, const mr_view_stage *vertex) {
    const char *names = "";
    for (size_t i = 0; names && i < vertex->devices.count; i++) {
        const mr_view_device *device = &m->plan->devices[vertex->devices.at[i]];
        const char *alias = device->alias;
        names = mr_arena_print(&m->graph->arena, "%s%s%s%s%s%s", names, i ? ", " : "", alias ? alias : "",
                               alias ? " (" : "", device->name, alias ? ")" : "");
    }
    return names;
}

/* The group around the box: the device, or, with nodes, the node and device. */
static const char *frame_of(maker *m, const mr_view_stage *vertex, const char *devices) {
    if (m->plan->node_count == 0)
        return devices;
    const mr_view_node *node = &m->plan->nodes[vertex->node];
    bool host = vertex->devices.count == 1 && vertex->devices.at[0] == 0;
    return mr_arena_print(&m->graph->arena, "node %s%s%s%s", node->id, host ? "" : " (", host ? "" : devices,
                          host ? "" : ")");
}

static const char *format_of(maker *m, const mr_view_link *edge) {
    char text[MR_FORMAT_SET_TEXT];
    mr_format_set_print(&m->plan->stages[edge->from].outputs[edge->from_port].set, text, sizeof text);
    return mr_arena_text(&m->graph->arena, text, strlen(text));
}

static mr_chart_kind kind_of(const mr_view_stage *vertex) {
    if (vertex->role == MR_VIEW_SOURCE)
        return MR_CHART_SOURCE;
    if (!mr_plan_is_authored(vertex))
        return MR_CHART_COPY;
    return vertex->output_count == 0 ? MR_CHART_SINK : MR_CHART_STAGE;
}

static const char *from_name(const mr_view_stage *vertex, int port) {
    return vertex->output_count > 1 ? vertex->type->outputs[port].name : "";
}

static const char *to_name(const mr_view_stage *vertex, int port) {
    return vertex->input_count > 1 ? vertex->inputs[port].port : "";
}

/* Between a cut's ends, frames are in transit, not queued. */
static const char *queue_of(maker *m, const mr_view_stage *from, const mr_view_stage *to) {
    const mr_view_cut *cut = from->cut;
    if (cut && from->node != to->node)
        return mr_arena_print(&m->graph->arena, "window %d, %s", cut->window, cut->mode);
    return mr_arena_print(&m->graph->arena, "queue %d, %s", to->queue, to->when_full);
}

static const char *entry_words(const mr_view_stage *vertex) {
    switch (vertex->calls.entry) {
    case MR_ENTRY_STATELESS:
        return "one instance, several workers at once";
    case MR_ENTRY_PER_SOURCE:
        return "one instance for each source";
    default:
        return "one instance";
    }
}

/* "copy of 588 KiB": the most bytes per copy, if they are bounded. */
static const char *copy_words(maker *m, const char *what, uint64_t bytes) {
    char words[MR_WORDS];
    return mr_arena_print(&m->graph->arena, "%s%s%s", what, bytes ? " of " : "",
                          bytes ? mr_words_bytes(bytes, words) : "");
}

/* For a copy: the size. For others: the type if the name does not show it, the batch, and the copy into a stage with
 * several devices. */
static const char *about_of(maker *m, const mr_view_stage *vertex) {
    mr_arena *arena = &m->graph->arena;
    const mr_view_cut *cut = vertex->cut;
    if (cut)
        return vertex->type->outputs ? ""
                                     : mr_arena_print(arena, "%s, %d at most", cut->mode, cut->window);
    if (mr_plan_is_copy(vertex))
        return copy_words(m, "copy", vertex->output_bytes[0]);
    const char *about = strcmp(vertex->id, vertex->type->name) == 0 ? "" : vertex->type->name;
    if (vertex->calls.batch > 1)
        about = mr_arena_print(arena, "%s%sbatch %d", about, *about ? ", " : "", vertex->calls.batch);
    const char *staging = vertex->memory.staging.count ? copy_words(m, "own copy", vertex->memory.staging.bytes) : "";
    if (!about || !staging)
        return NULL;
    return mr_arena_print(arena, "%s%s%s", about, *about && *staging ? ", " : "", staging);
}

/* All other properties, for tooltips. */
static const char *facts_of(maker *m, const mr_view_stage *vertex, const char *devices) {
    mr_arena *arena = &m->graph->arena;
    const char *reason = vertex->devices.reason;
    const char *device = mr_arena_print(arena, "type: %s\ndevice: %s%s%s%s", vertex->type->name, devices,
                                        reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
    if (!device || vertex->role == MR_VIEW_SOURCE)
        return device;
    const char *batch = vertex->calls.batch > 1 ? mr_arena_print(arena, "\nbatch: %d", vertex->calls.batch) : "";
    const char *threads = "";
    if (vertex->calls.threads > 0)
        threads = mr_arena_print(arena, "\nthreads of libraries: %d for each instance", vertex->calls.threads);
    if (!batch || !threads)
        return NULL;
    return mr_arena_print(arena, "%s\nruns as: %s\nworkers at once: %d%s\ncalls in flight: %d%s%s", device,
                          entry_words(vertex), vertex->calls.entries, vertex->calls.blocking ? ", its own thread" : "",
                          vertex->calls.in_flight, batch, threads);
}

/* ---- similar sources ------------------------------------------------------------------------------------------- */

static int compare_edges(const mr_view_link *a, const mr_view_link *b) {
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->to_port != b->to_port)
        return a->to_port < b->to_port ? -1 : 1;
    return (a->from_port > b->from_port) - (a->from_port < b->from_port);
}

static int compare_outputs(const mr_view_stage *a, const mr_view_stage *b) {
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    int order = (a->output_count > b->output_count) - (a->output_count < b->output_count);
    for (size_t i = 0; order == 0 && i < a->output_count; i++)
        order = strcmp(mr_format_set_print(&a->outputs[i].set, one, sizeof one),
                       mr_format_set_print(&b->outputs[i].set, other, sizeof other));
    return order;
}

static int compare_sources(const maker *m, int a, int b) {
    const mr_view_stage *left = &m->plan->stages[a], *right = &m->plan->stages[b];
    int count = m->start[a + 1] - m->start[a], others = m->start[b + 1] - m->start[b];
    if (count != others)
        return count < others ? -1 : 1;
    for (int i = 0; i < count; i++) {
        int order =
            compare_edges(&m->plan->links[m->by_from[m->start[a] + i]], &m->plan->links[m->by_from[m->start[b] + i]]);
        if (order)
            return order;
    }
    int order = strcmp(left->type->name, right->type->name);
    order = order ? order : strcmp(left->devices.first, right->devices.first);
    return order ? order : compare_outputs(left, right);
}

static int by_likeness(const void *left, const void *right, void *context) {
    int a = *(const int *)left, b = *(const int *)right;
    int order = compare_sources(context, a, b);
    return order ? order : (a > b) - (a < b);
}

/* Folds the sources: node[v] is the first vertex in v's box. */
static int fold(maker *m) {
    int count = (int)m->plan->source_count;
    int *sorted = mr_arena_array(&m->graph->arena, (size_t)count, sizeof *sorted);
    if (!sorted)
        return MR_ERROR_MEMORY;
    for (int s = 0; s < count; s++)
        sorted[s] = m->node[s] = s;
    qsort_r(sorted, (size_t)count, sizeof *sorted, by_likeness, m);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && compare_sources(m, sorted[first], sorted[end]) == 0;)
            end++;
        for (int i = first; end - first > FEW && i < end; i++)
            m->node[sorted[i]] = sorted[first];
    }
    return MR_OK;
}

/* The length of the prefix that all members of a fold share, without trailing digits. */
static size_t shared_letters(const maker *m, int first) {
    const char *name = m->plan->stages[first].id;
    size_t length = strlen(name);
    for (size_t s = 0; s < m->plan->source_count; s++)
        for (size_t i = 0; m->node[s] == first && i < length; i++)
            if (m->plan->stages[s].id[i] != name[i])
                length = i;
    size_t named = length;
    while (named > 0 && name[named - 1] >= '0' && name[named - 1] <= '9')
        named--;
    return named > 0 ? named : length;
}

/* "camera-*" if that matches exactly the members; else the first and the last. */
static const char *fold_name(maker *m, int first) {
    mr_arena *arena = &m->graph->arena;
    const mr_view_stage *vertices = m->plan->stages;
    size_t letters = shared_letters(m, first), last = (size_t)first;
    bool means_others = false;
    for (size_t s = 0; s < m->plan->source_count; s++) {
        bool begins_so = strncmp(vertices[s].id, vertices[first].id, letters) == 0;
        means_others = means_others || (begins_so && m->node[s] != first);
        last = m->node[s] == first ? s : last;
    }
    if (means_others)
        return mr_arena_print(arena, "%s ... %s (%d sources)", vertices[first].id, vertices[last].id,
                              m->members[first]);
    return mr_arena_print(arena, "%.*s* (%d sources)", (int)letters, vertices[first].id, m->members[first]);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

static int group_of(mr_chart *graph, const char *device) {
    int g = 0;
    while (g < graph->group_count && strcmp(graph->group[g], device) != 0)
        g++;
    if (g < graph->group_count)
        return g;
    graph->group[g] = mr_arena_text(&graph->arena, device, strlen(device));
    graph->group_count += graph->group[g] != NULL;
    return graph->group[g] ? g : MR_ERROR_MEMORY;
}

static int add_node(maker *m, int v) {
    const mr_view_stage *vertex = &m->plan->stages[v];
    mr_chart *graph = m->graph;
    mr_chart_node *node = &graph->node[graph->node_count];
    bool folded = m->members[v] > 1;
    node->name = folded ? fold_name(m, v) : mr_arena_print(&graph->arena, "%s", vertex->id);
    node->about = folded ? mr_arena_print(&graph->arena, "%s", vertex->type->name) : about_of(m, vertex);
    node->kind = kind_of(vertex);
    const char *devices = device_of(m, vertex);
    node->facts = devices ? facts_of(m, vertex, devices) : NULL;
    const char *group = devices ? frame_of(m, vertex, devices) : NULL;
    node->group = group ? group_of(graph, group) : MR_ERROR_MEMORY;
    return node->name && node->about && node->facts && node->group >= 0 ? graph->node_count++ : MR_ERROR_MEMORY;
}

/* Numbers nodes in plan order; node[v] is then the node's number. */
static int make_nodes(maker *m) {
    mr_chart *graph = m->graph;
    int count = (int)m->plan->stage_count;
    for (int v = 0; v < count; v++)
        m->members[m->node[v]]++;
    graph->node = mr_arena_array(&graph->arena, (size_t)count + 1, sizeof *graph->node);
    graph->group = mr_arena_array(&graph->arena, (size_t)count, sizeof *graph->group);
    int *number = mr_arena_array(&graph->arena, (size_t)count, sizeof *number);
    if (!graph->node || !graph->group || !number)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < count; v++) {
        number[v] = m->node[v] == v ? add_node(m, v) : UNUSED;
        if (number[v] == MR_ERROR_MEMORY)
            return MR_ERROR_MEMORY;
    }
    for (int v = 0; v < count; v++)
        m->node[v] = m->node[v] == v ? number[v] : UNUSED;
    return MR_OK;
}

static int make_edge(maker *m, const mr_view_link *edge, mr_chart_edge *made) {
    mr_arena *arena = &m->graph->arena;
    const mr_view_stage *from = &m->plan->stages[edge->from], *to = &m->plan->stages[edge->to];
    *made = (mr_chart_edge){.from = m->node[edge->from],
                            .from_port = edge->from_port,
                            .to = m->node[edge->to],
                            .to_port = edge->to_port,
                            .format = format_of(m, edge),
                            .from_name = mr_arena_print(arena, "%s", from_name(from, edge->from_port)),
                            .to_name = mr_arena_print(arena, "%s", to_name(to, edge->to_port)),
                            .queue = queue_of(m, from, to)};
    return made->format && made->from_name && made->to_name && made->queue ? MR_OK : MR_ERROR_MEMORY;
}

static int make_edges(maker *m) {
    mr_chart *graph = m->graph;
    graph->edge = mr_arena_array(&graph->arena, m->plan->link_count, sizeof *graph->edge);
    if (!graph->edge)
        return MR_ERROR_MEMORY;
    for (size_t e = 0; e < m->plan->link_count; e++) {
        const mr_view_link *edge = &m->plan->links[e];
        /* The other members of the fold have the same links. */
        if (m->node[edge->from] == UNUSED)
            continue;
        mr_chart_edge *made = &graph->edge[graph->edge_count++];
        if (make_edge(m, edge, made))
            return MR_ERROR_MEMORY;
        graph->node[made->to + 1].first_edge = graph->edge_count;
    }
    for (int n = 0; n < graph->node_count; n++)
        if (graph->node[n + 1].first_edge < graph->node[n].first_edge)
            graph->node[n + 1].first_edge = graph->node[n].first_edge;
    return MR_OK;
}

/* Edges by producer; one vertex's in plan order. */
static int sort_edges(maker *m) {
    const mr_plan_view *plan = m->plan;
    m->start = mr_arena_array(&m->graph->arena, plan->stage_count + 2, sizeof *m->start);
    m->by_from = mr_arena_array(&m->graph->arena, plan->link_count, sizeof *m->by_from);
    if (!m->start || !m->by_from)
        return MR_ERROR_MEMORY;
    for (size_t e = 0; e < plan->link_count; e++)
        m->start[plan->links[e].from + 2]++;
    for (size_t v = 0; v < plan->stage_count; v++)
        m->start[v + 2] += m->start[v + 1];
    for (size_t e = 0; e < plan->link_count; e++)
        m->by_from[m->start[plan->links[e].from + 1]++] = (int)e;
    return MR_OK;
}

static char *shown_name(mr_arena *arena, const char *name) {
    size_t room = mr_print_into(NULL, 0, "%s", name) + 1;
    char *shown = mr_arena_alloc(arena, room);
    if (shown)
        mr_print_into(shown, room, "%s", name);
    return shown;
}

int mr_chart_make(mr_chart *graph, const mr_plan_view *plan) {
    *graph = (mr_chart){0};
    maker m = {.graph = graph, .plan = plan};
    m.node = mr_arena_array(&graph->arena, plan->stage_count, sizeof *m.node);
    m.members = mr_arena_array(&graph->arena, plan->stage_count, sizeof *m.members);
    graph->name = shown_name(&graph->arena, plan->name);
    if (!m.node || !m.members || !graph->name || sort_edges(&m))
        goto fail;
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        m.node[v] = (int)v;
    if (fold(&m) || make_nodes(&m) || make_edges(&m))
        goto fail;
    return MR_OK;
fail:
    mr_chart_fini(graph);
    return MR_ERROR_MEMORY;
}

void mr_chart_fini(mr_chart *graph) {
    mr_arena_fini(&graph->arena);
    *graph = (mr_chart){0};
}

/* Which node runs which stage: the names under `nodes` are found in the graph, and the rest is decided. */
#include "engine/planner/nodes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/nearest.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/links.h"
#include "engine/text/options.h"
#include "millrace/status.h"

enum { NO_NODE = -1 };

/* The names being assigned; `owner` has the node of each vertex, or NO_NODE. */
typedef struct assignment {
    mr_plan_builder *b;
    mr_index vertices; /* id to element in b->vertex */
    int *owner;
} assignment;

static const mr_spec_node *node_of(const mr_plan_builder *b, int n) {
    return &b->spec->nodes[n];
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static void unknown_name(const assignment *a, const mr_spec_node *node, bool sources, const char *name,
                         mr_location place) {
    char hint[256];
    mr_nearest nearest = {.wanted = name};
    mr_plan_offer_ids(a->b, &nearest, sources, !sources);
    mr_plan_error(
        a->b, place,
        mr_nearest_hint(&nearest, hint, sizeof hint,
                        sources ? "its sources are ids under `sources`" : "its stages are ids under `stages`"),
        "nodes.%s.%s: there is no %s \"%s\"", node->id, sources ? "sources" : "stages", sources ? "source" : "stage",
        name);
}

static void take_name(const assignment *a, int n, bool sources, size_t i) {
    const mr_spec_node *node = node_of(a->b, n);
    const char *key = sources ? "sources" : "stages", *name = (sources ? &node->sources : &node->stages)->item[i];
    mr_location place = mr_yaml_item_place(node->node, key, i);
    const mr_spec_vertex **found = mr_index_get(&a->vertices, name);
    if (!found || (*found)->is_source != sources) {
        if (found)
            mr_plan_error(a->b, place, sources ? "name it under `stages`" : "name it under `sources`",
                          "nodes.%s.%s: \"%s\" is a %s", node->id, key, name, sources ? "stage" : "source");
        else
            unknown_name(a, node, sources, name, place);
        return;
    }
    int *owner = &a->owner[found - a->b->vertex];
    if (*owner == n)
        mr_plan_error(a->b, place, "name it once", "nodes.%s.%s: \"%s\" is named twice", node->id, key, name);
    else if (*owner != NO_NODE)
        mr_plan_error(a->b, place, "keep one of them; `replicas` runs a node in several processes",
                      "nodes.%s.%s: \"%s\" is already in the node \"%s\"", node->id, key, name,
                      node_of(a->b, *owner)->id);
    else
        *owner = n;
}

static void take_names(const assignment *a) {
    for (int n = 0; n < (int)a->b->spec->node_count; n++) {
        const mr_spec_node *node = node_of(a->b, n);
        for (size_t i = 0; i < node->stages.count; i++)
            take_name(a, n, false, i);
        for (size_t i = 0; i < node->sources.count; i++)
            take_name(a, n, true, i);
    }
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

/* A source that no node names is read where its readers run. */
static void follow_readers(const assignment *a, int v) {
    const mr_plan_builder *b = a->b;
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        int reader = a->owner[b->link[b->out.item[i]].to];
        if (reader == NO_NODE || reader == a->owner[v])
            continue;
        if (a->owner[v] != NO_NODE) {
            mr_plan_error(a->b, b->vertex[v]->place, "name it under `sources` of one of them",
                          "sources.%s: the nodes \"%s\" and \"%s\" both read it", b->vertex[v]->id,
                          node_of(b, a->owner[v])->id, node_of(b, reader)->id);
            return;
        }
        a->owner[v] = reader;
    }
}

static void refuse_ownerless(const assignment *a, int v) {
    const mr_spec_vertex *spec = a->b->vertex[v];
    if (!spec->is_source && a->b->params.cuts) {
        mr_plan_error(a->b, spec->place, "name it under `stages` of a node", "stages.%s: it is in no node", spec->id);
        return;
    }
    /* A source without readers, which is reported elsewhere, runs in the first node. In one process it does not matter,
     * and programs can add stages that no node names. */
    a->owner[v] = 0;
}

static int take_all(assignment *a) {
    mr_plan_builder *b = a->b;
    a->owner = mr_arena_array(b->arena, (size_t)b->count, sizeof *a->owner);
    if (!a->owner)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        a->owner[v] = NO_NODE;
        if (mr_index_put(&a->vertices, b->arena, b->vertex[v]->id, &b->vertex[v]))
            return MR_ERROR_MEMORY;
    }
    size_t before = b->diagnostics->errors;
    take_names(a);
    bool found = b->diagnostics->errors == before && !b->spec->nodes_broken;
    for (int v = 0; v < b->count && found; v++) {
        if (a->owner[v] == NO_NODE && b->vertex[v]->is_source)
            follow_readers(a, v);
        if (a->owner[v] == NO_NODE)
            refuse_ownerless(a, v);
    }
    return MR_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static int make_nodes(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    plan->nodes = mr_arena_array(b->arena, b->spec->node_count, sizeof *plan->nodes);
    if (!plan->nodes)
        return MR_ERROR_MEMORY;
    plan->node_count = b->spec->node_count;
    for (size_t n = 0; n < plan->node_count; n++) {
        const mr_spec_node *from = &b->spec->nodes[n];
        plan->nodes[n] = (mr_plan_node){.id = from->id,
                                        .mark = from->place,
                                        .replicas = (int)from->replicas,
                                        .busy_poll_ns =
                                            from->busy_poll_ns < 0 ? plan->busy_poll_ns : from->busy_poll_ns,
                                        .key = from->key,
                                        .public_key = from->public_key};
    }
    return MR_OK;
}

/* The node that the process with that number runs. */
static void choose_by_number(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    int all = 0, process = b->params.process;
    for (size_t n = 0; n < plan->node_count; n++) {
        if (plan->node < 0 && process < all + plan->nodes[n].replicas) {
            plan->node = (int)n;
            plan->replica = process - all;
        }
        all += plan->nodes[n].replicas;
    }
    if (all != b->params.processes)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_USAGE, (mr_location){.file = b->spec->file},
                    "start one process for each node, or name the node of each with --node",
                    "%d process%s started, but the pipeline has %d nodes", b->params.processes,
                    b->params.processes == 1 ? " was" : "es were", all);
}

/* The node to plan for. */
static void choose_node(mr_plan_builder *b) {
    char hint[256];
    mr_plan *plan = b->plan;
    plan->node = -1;
    plan->replica = b->params.replica;
    if (!b->params.node && b->params.processes > 0)
        choose_by_number(b);
    if (!b->params.node)
        return;
    mr_nearest nearest = {.wanted = b->params.node};
    for (size_t n = 0; n < plan->node_count; n++) {
        mr_nearest_offer(&nearest, plan->nodes[n].id);
        if (strcmp(plan->nodes[n].id, b->params.node) == 0)
            plan->node = (int)n;
    }
    mr_location file = {.file = b->spec->file};
    if (plan->node < 0)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_USAGE, file,
                    mr_nearest_hint(&nearest, hint, sizeof hint, "nodes are named under `nodes`"),
                    "there is no node \"%s\"", b->params.node);
    else if (plan->replica >= plan->nodes[plan->node].replicas)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_USAGE, plan->nodes[plan->node].mark, NULL,
                    "the node \"%s\" has %d process%s: there is no number %d", b->params.node,
                    plan->nodes[plan->node].replicas, plan->nodes[plan->node].replicas == 1 ? "" : "es",
                    plan->replica);
}

static void count_parts(mr_plan_builder *b, const int *owner) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        vertex->node = owner[v] == NO_NODE ? 0 : owner[v];
        mr_plan_node *node = &b->plan->nodes[vertex->node];
        *(vertex->role == MR_ROLE_SOURCE ? &node->source_count : &node->stage_count) += 1;
    }
}

static void warn_of_idle(mr_plan_builder *b) {
    for (size_t n = 0; n < b->plan->node_count; n++) {
        const mr_plan_node *node = &b->plan->nodes[n];
        if (node->source_count == 0 && node->stage_count == 0)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, node->mark,
                        "name its stages or sources, or remove it", "nodes.%s: it runs nothing", node->id);
    }
}

/* Warns about a sink that writes a file or into a pipe and cannot resume. Only in a plan for all nodes: otherwise each
 * process would repeat it. */
static void warn_of_beginning_anew(mr_plan_builder *b) {
    for (int v = 0; v < b->count && b->plan->node < 0; v++) {
        const mr_stage_type *type = b->vertex[v]->type;
        bool written = false;
        for (const mr_option *option = type ? type->options : NULL; option && option->name; option++)
            written |= option->file == MR_FILE_WRITTEN;
        if (written && !type->outputs && !type->resumes)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, b->vertex[v]->place,
                        "write with jsonl, which can be continued",
                        "stages.%s: if the node %s dies and is restarted, the output of %s cannot be continued and "
                        "starts again from the beginning", b->vertex[v]->id,
                        b->plan->nodes[b->plan->vertices[v].node].id, type->name);
    }
}

/* A source must be read once, however many processes there are. */
static void refuse_several_readers(mr_plan_builder *b) {
    for (size_t n = 0; n < b->plan->node_count; n++) {
        const mr_plan_node *node = &b->plan->nodes[n];
        if (node->replicas > 1 && node->source_count > 0)
            mr_plan_error(b, node->mark, "read sources in a node of one process, which gives their frames to this one",
                          "nodes.%s: it reads sources, so that several processes would each read all of them",
                          node->id);
    }
}

int mr_plan_assign_nodes(mr_plan_builder *b) {
    assignment a = {.b = b};
    if (b->params.node && b->spec->node_count == 0)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_USAGE, (mr_location){.file = b->spec->file},
                    "add nodes: {camera: {stages: [...]}}", "there is no node \"%s\": the pipeline has no nodes",
                    b->params.node);
    if (b->spec->node_count == 0)
        return MR_OK;
    if (take_all(&a))
        return MR_ERROR_MEMORY;
    /* Errors in nodes, but for stages that none names, are reported even if one process runs all. */
    if (!b->params.cuts)
        return MR_OK;
    if (make_nodes(b))
        return MR_ERROR_MEMORY;
    choose_node(b);
    if (b->plan->node >= 0)
        b->plan->busy_poll_ns = b->plan->nodes[b->plan->node].busy_poll_ns;
    count_parts(b, a.owner);
    warn_of_idle(b);
    warn_of_beginning_anew(b);
    refuse_several_readers(b);
    return MR_OK;
}

/* ---- files on other machines ----------------------------------------------------------------------------------- */

bool mr_plan_is_elsewhere(const mr_plan_builder *b, int v) {
    return b->plan->node_count > 0 && b->plan->node >= 0 && b->plan->vertices[v].node != b->plan->node;
}

/* Whether all files that a stage's options read are here: cameras and the like are not opened twice. */
static bool all_here(const mr_option *table, const char *fields) {
    for (const mr_option *option = table; option && option->name; option++) {
        if (option->elsewhere)
            continue;
        if (option->kind == MR_OPTION_MAP && !all_here(option->fields, fields + option->offset))
            return false;
        if (option->file != MR_FILE_READ || !mr_option_string(option, fields))
            continue;
        const char *path = mr_option_path(option, fields);
        if (!path || access(path, R_OK))
            return false;
    }
    return true;
}

bool mr_plan_is_unseen(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    return mr_plan_is_elsewhere(b, v) && !all_here(vertex->type->options, vertex->options);
}

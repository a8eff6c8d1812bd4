/* From the names in `input` and `join` to links between vertices. */
#include <fnmatch.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/plan/builder.h"
#include "millrace/status.h"

/* One name being resolved for an input port of vertex `to`. `linked` has, for each vertex and its first ports, the
 * last consumer port that was linked to it, so that a name given twice is seen without searching. */
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

/* Room for one link more. */
static int grow(mr_plan_builder *b) {
    if (b->link_count < b->link_room)
        return MR_OK;
    size_t room = b->link_room ? 2 * b->link_room : 64;
    mr_plan_link *wider = mr_arena_array(b->arena, room, sizeof *wider);
    if (!wider)
        return MR_ERROR_MEMORY;
    if (b->link_count)
        memcpy(wider, b->link, b->link_count * sizeof *wider);
    b->link = wider;
    b->link_room = room;
    return MR_OK;
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
    if (grow(b))
        return MR_ERROR_MEMORY;
    b->link[b->link_count++] = (mr_plan_link){
        .from = from, .from_port = from_port, .to = r->to, .to_port = r->to_port, .place = r->input->place};
    return MR_OK;
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

/* Of very many ids beside very many unknown names: where these have been compared so often, the next go without. */
enum { MOST_OFFERED = 100000 };

void mr_plan_offer_ids(mr_plan_builder *b, mr_nearest *nearest, bool sources, bool stages) {
    for (int v = 0; v < b->count && b->offered < MOST_OFFERED && !mr_diagnostics_full(b->diagnostics); v++) {
        if (!(b->vertex[v]->is_source ? sources : stages))
            continue;
        mr_nearest_offer(nearest, b->vertex[v]->id);
        b->offered++;
    }
}

static void unknown_input(const reference *r, const char *name) {
    char hint[256];
    mr_nearest nearest = {.wanted = name};
    /* Without any source, which is diagnosed, it was one of those. */
    if (r->b->spec->source_count == 0)
        return;
    mr_plan_offer_ids(r->b, &nearest, true, true);
    mr_plan_error(r->b, r->input->place,
                  strcmp(name, "*") == 0 ? "sources.* means all of them"
                                         : mr_nearest_hint(&nearest, hint, sizeof hint,
                                                           "inputs are ids of sources and stages of this file"),
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

/* Links vertex `from`, by its output `port` or, where that is NULL, its first. */
static int link_vertex(const reference *r, int from, const char *port) {
    const mr_spec_vertex *producer = r->b->vertex[from];
    const mr_stage_type *type = producer->type;
    int index = 0;
    if (from == r->to) {
        mr_plan_error(r->b, r->input->place, NULL, "stages.%s: it reads itself", producer->id);
        return MR_OK;
    }
    if (!type) /* Wrong, and diagnosed. The link is kept, so that cycles are found. */
        return add_link(r, from, 0);
    if (!type->outputs) {
        mr_plan_error(r->b, r->input->place, "take the input of that stage instead",
                      "stages.%s: \"%s\" (%s) is a sink and gives nothing", consumer(r)->id, producer->id,
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

/* The sources that were written as one; NULL if none of that name were. */
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
        mr_plan_error(r->b, r->input->place, "sources.* means all of them", "stages.%s: no source is called \"%s\"",
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

/* The input port that the i-th input of a stage stands for; -1 where there is none, which is diagnosed. */
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

/* Every port of a type takes something, and one that joins is told what. */
static void check_ports(const mr_plan_builder *b, const mr_spec_vertex *stage, size_t errors) {
    if (!stage->type || stage->input_count == 0 || b->diagnostics->errors > errors)
        return;
    const mr_port *ports = stage->type->inputs;
    char hint[256];
    if (ports[0].many) {
        if (!stage->joins && !ports[0].optional)
            mr_plan_error(b, stage->inputs[0].place,
                          mr_spec_hint_join(mr_yaml_get(stage->node, "input"), hint, sizeof hint),
                          "stages.%s: %s takes its inputs by name, under `join`", stage->id, stage->type->name);
        return;
    }
    for (int port = 0; ports[port].name; port++) {
        bool taken = !stage->joins && port == 0;
        for (size_t i = 0; stage->joins && i < stage->input_count; i++)
            taken = taken || strcmp(stage->inputs[i].port, ports[port].name) == 0;
        if (!taken)
            mr_plan_error(b, stage->place, "name each input under `join`",
                          "stages.%s: the input port \"%s\" of %s is missing", stage->id, ports[port].name,
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

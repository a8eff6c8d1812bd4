/* Copies that the planner puts in where frames go from one memory to another: one for each output port and device
 * that reads it. The graph is numbered anew, with each copy before the first stage that reads it. */
#include <string.h>

#include "engine/config/plan_builder.h"
#include "engine/data/copy.h"
#include "millrace/status.h"

enum { COPY_QUEUE = 2, COPY_IN_FLIGHT = 2 };

/* A copy that was put in, and the next one of the same producer. */
typedef struct made_copy {
    int from_port;
    const mr_plan_vertex *reader; /* the first stage that reads it: another on the same devices reads it too */
    int position;                 /* in the new numbering */
    struct made_copy *next;
} made_copy;

/* The graph being built anew. */
typedef struct rebuild {
    mr_plan_builder *b;
    made_copy **copies; /* of each old vertex */
    int *position;      /* of each old vertex */
    int count, room;    /* vertices */
    mr_plan_vertex *vertices;
    const mr_spec_vertex **specs;
    size_t link_count, link_room;
    mr_plan_link *link;
} rebuild;

/* ---- whether a link needs one ---------------------------------------------------------------------------------- */

static bool on_host(const mr_plan_vertex *vertex) {
    return vertex->devices[0] == 0;
}

/* What has a device in reserve takes its frames from the host: a device in between might be the one that fails. */
static bool goes_home(const mr_plan_vertex *to) {
    return on_host(to) || to->has_reserve;
}

bool mr_plan_same_devices(const mr_plan_vertex *a, const mr_plan_vertex *b) {
    return a->device_count == b->device_count && a->has_reserve == b->has_reserve &&
           (!a->has_reserve || a->reserve == b->reserve) &&
           memcmp(a->devices, b->devices, a->device_count * sizeof *a->devices) == 0;
}

/* Whether frames hold memory of a device: a payload of ours, or tensors among their results. */
static bool holds_memory(const mr_planned_output *output) {
    if (output->set.payload == MR_PAYLOAD_PACKET)
        return false;
    if (output->set.payload != MR_PAYLOAD_RESULTS || output->more_results)
        return true;
    for (const mr_planned_result *result = output->results; result; result = result->next)
        if (result->kind == MR_RESULT_TENSOR)
            return true;
    return false;
}

static bool needs_copy(const mr_plan_builder *b, const mr_plan_link *link) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    /* A stage on several devices brings in what it gets itself, one with a device in reserve only from the host. */
    if (mr_plan_parts(to) > 1 && (on_host(from) || !to->has_reserve))
        return false;
    return !mr_plan_same_devices(from, to) && holds_memory(&from->outputs[link->from_port]);
}

/* ---- one copy -------------------------------------------------------------------------------------------------- */

static const char *name_copy(mr_plan_builder *b, const mr_plan_link *link) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    const mr_port *port = &from->type->outputs[link->from_port];
    return mr_arena_print(b->arena, "%s%s%s->%s", from->id, link->from_port ? "." : "",
                          link->from_port ? port->name : "",
                          goes_home(to) ? "host" : b->plan->devices[to->devices[0]].name);
}

static int fill_ends(mr_plan_builder *b, mr_plan_vertex *copy, const mr_plan_link *link) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from];
    const mr_planned_output *given = &from->outputs[link->from_port];
    mr_planned_input *input = mr_arena_alloc(b->arena, sizeof *input);
    mr_planned_output *output = mr_arena_alloc(b->arena, sizeof *output);
    mr_format *format = mr_arena_alloc(b->arena, sizeof *format);
    if (!input || !output || !format)
        return MR_ERROR_MEMORY;
    *format = mr_format_set_common(&given->set);
    *input = (mr_planned_input){.port = mr_copy_stage.inputs[0].name,
                                .from = from->id,
                                .set = given->set,
                                .format = *format,
                                .results = given->results,
                                .more_results = given->more_results};
    *output = (mr_planned_output){
        .set = given->set, .follows = -1, .results = given->results, .more_results = given->more_results};
    copy->input_count = copy->output_count = 1;
    copy->inputs = input;
    copy->outputs = output;
    copy->formats = format;
    return MR_OK;
}

/* Behind several devices what one of them is still at waits for it here, a batch of each and the next: the others go
 * on. */
static int copy_calls(const mr_plan_vertex *works) {
    return COPY_IN_FLIGHT * (int)mr_plan_parts(works) * (works->device_count > 1 ? works->turn : 1);
}

/* The vertex that the link needs, and what stands for it among what the author wrote. */
static int make_copy(mr_plan_builder *b, const mr_plan_link *link, mr_plan_vertex *copy, mr_spec_vertex *spec) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    const mr_plan_vertex *works = goes_home(to) ? from : to;
    mr_copy_options *options = mr_arena_alloc(b->arena, sizeof *options);
    const char *id = name_copy(b, link);
    if (!options || !id)
        return MR_ERROR_MEMORY;
    options->to_host = goes_home(to);
    *copy = (mr_plan_vertex){
        .id = id,
        .type = &mr_copy_stage,
        .options = options,
        .place = to->place,
        .mark = to->mark,
        .device_count = works->device_count,
        .devices = works->devices,
        .has_reserve = works->has_reserve,
        .reserve = works->reserve,
        .copy = goes_home(to)   ? MR_COPY_DOWNLOAD
                : on_host(from) ? MR_COPY_UPLOAD
                                : MR_COPY_PEER,
        .instances = 1,
        .entry = MR_ENTRY_STATELESS,
        .entries = 1,
        .in_flight = copy_calls(works),
        .batch = 1,
        .queue = COPY_QUEUE,
        .turn = works->turn,
        .source_count = from->source_count,
        .sources = from->sources,
    };
    *spec = (mr_spec_vertex){
        .id = id, .place = to->mark, .place_text = to->place, .type = &mr_copy_stage, .options = options};
    mr_plan_name_device(b, copy);
    return fill_ends(b, copy, link);
}

/* ---- the new graph --------------------------------------------------------------------------------------------- */

static void add_link(rebuild *r, mr_plan_link link) {
    r->link[r->link_count++] = link;
}

static made_copy *find_copy(const rebuild *r, const mr_plan_link *link) {
    made_copy *copy = r->copies[link->from];
    while (copy && (copy->from_port != link->from_port ||
                    !mr_plan_same_devices(copy->reader, &r->b->plan->vertices[link->to])))
        copy = copy->next;
    return copy;
}

static int add_copy(rebuild *r, const mr_plan_link *link) {
    made_copy *copy = mr_arena_alloc(r->b->arena, sizeof *copy);
    mr_spec_vertex *spec = mr_arena_alloc(r->b->arena, sizeof *spec);
    if (!copy || !spec || make_copy(r->b, link, &r->vertices[r->count], spec))
        return MR_ERROR_MEMORY;
    *copy = (made_copy){.from_port = link->from_port,
                        .reader = &r->b->plan->vertices[link->to],
                        .position = r->count,
                        .next = r->copies[link->from]};
    r->copies[link->from] = copy;
    r->specs[r->count++] = spec;
    add_link(r, (mr_plan_link){.from = r->position[link->from],
                               .from_port = link->from_port,
                               .to = copy->position,
                               .place = link->place});
    return MR_OK;
}

/* Adds an old vertex, behind the copies that it is the first to read. */
static int add_vertex(rebuild *r, int v) {
    mr_plan_builder *b = r->b;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        if (needs_copy(b, link) && !find_copy(r, link) && add_copy(r, link))
            return MR_ERROR_MEMORY;
    }
    r->position[v] = r->count;
    r->vertices[r->count] = b->plan->vertices[v];
    r->specs[r->count++] = b->vertex[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        mr_plan_link link = b->link[b->in.item[i]];
        const made_copy *copy = needs_copy(b, &link) ? find_copy(r, &link) : NULL;
        link.from = copy ? copy->position : r->position[link.from];
        link.from_port = copy ? 0 : link.from_port;
        link.to = r->position[v];
        add_link(r, link);
    }
    return MR_OK;
}

static int adopt(rebuild *r) {
    mr_plan_builder *b = r->b;
    mr_plan *plan = b->plan;
    plan->vertices = r->vertices;
    plan->vertex_count = (size_t)r->count;
    b->count = r->count;
    b->vertex = r->specs;
    b->link = r->link;
    b->link_count = r->link_count;
    return mr_plan_list_edges(b) || mr_plan_list_fans(b) ? MR_ERROR_MEMORY : MR_OK;
}

int mr_plan_insert_copies(mr_plan_builder *b) {
    rebuild r = {.b = b};
    size_t needed = 0;
    for (size_t i = 0; i < b->link_count; i++)
        needed += needs_copy(b, &b->link[i]);
    if (needed == 0)
        return MR_OK;
    size_t most = (size_t)b->count + needed;
    r.copies = mr_arena_array(b->arena, (size_t)b->count, sizeof(made_copy *));
    r.position = mr_arena_array(b->arena, (size_t)b->count, sizeof *r.position);
    r.vertices = mr_arena_array(b->arena, most, sizeof *r.vertices);
    r.specs = mr_arena_array(b->arena, most, sizeof(mr_spec_vertex *));
    r.link = mr_arena_array(b->arena, b->link_count + needed, sizeof *r.link);
    if (!r.copies || !r.position || !r.vertices || !r.specs || !r.link)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++)
        if (add_vertex(&r, v))
            return MR_ERROR_MEMORY;
    return adopt(&r);
}

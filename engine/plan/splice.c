/* Putting vertices of the planner's own into links: the graph is numbered anew, with each of them before the first
 * stage that reads what it gives. */
#include "engine/plan/builder.h"
#include "millrace/status.h"

/* What was put in behind one output port, and the next that was behind the same vertex. */
typedef struct spliced {
    int from_port;
    const mr_plan_vertex *reader; /* the first stage that reads it */
    int position;                 /* of the last vertex, in the new numbering */
    struct spliced *next;
} spliced;

/* The graph being built anew. */
typedef struct rebuild {
    mr_plan_builder *b;
    const mr_plan_insertion *insertion;
    spliced **behind; /* of each old vertex */
    int *position;    /* of each old vertex */
    int count;        /* vertices */
    mr_plan_vertex *vertices;
    const mr_spec_vertex **specs;
    size_t link_count;
    mr_plan_link *link;
} rebuild;

static void add_link(rebuild *r, mr_plan_link link) {
    r->link[r->link_count++] = link;
}

static spliced *find(const rebuild *r, const mr_plan_link *link) {
    spliced *found = r->behind[link->from];
    while (found && (found->from_port != link->from_port ||
                     !r->insertion->shared(found->reader, &r->b->plan->vertices[link->to])))
        found = found->next;
    return found;
}

/* The new vertices, one behind the other, and the links that lead into them. */
static int add_spliced(rebuild *r, const mr_plan_link *link) {
    spliced *added = mr_arena_alloc(r->b->arena, sizeof *added);
    mr_spec_vertex *specs = mr_arena_array(r->b->arena, (size_t)r->insertion->count, sizeof *specs);
    if (!added || !specs || r->insertion->make(r->b, link, &r->vertices[r->count], specs))
        return MR_ERROR_MEMORY;
    mr_plan_link into = {.from = r->position[link->from], .from_port = link->from_port, .place = link->place};
    for (int i = 0; i < r->insertion->count; i++) {
        into.to = r->count;
        add_link(r, into);
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

/* Adds an old vertex, behind what it is the first to read. */
static int add_vertex(rebuild *r, int v) {
    mr_plan_builder *b = r->b;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        if (r->insertion->needed(b, link) && !find(r, link) && add_spliced(r, link))
            return MR_ERROR_MEMORY;
    }
    r->position[v] = r->count;
    r->vertices[r->count] = b->plan->vertices[v];
    r->specs[r->count++] = b->vertex[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        mr_plan_link link = b->link[b->in.item[i]];
        const spliced *between = r->insertion->needed(b, &link) ? find(r, &link) : NULL;
        link.from = between ? between->position : r->position[link.from];
        link.from_port = between ? 0 : link.from_port;
        link.to = r->position[v];
        add_link(r, link);
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
    return mr_plan_list_edges(b) || mr_plan_list_fans(b) ? MR_ERROR_MEMORY : MR_OK;
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
                                .references = given->references};
    *output = (mr_planned_output){
        .set = given->set, .follows = -1, .results = given->results, .more_results = given->more_results,
        .mean_pixels = given->mean_pixels, .references = given->references};
    vertex->input_count = 1;
    vertex->inputs = input;
    vertex->output_count = vertex->type->outputs ? 1 : 0;
    vertex->outputs = output;
    vertex->formats = format;
    return MR_OK;
}

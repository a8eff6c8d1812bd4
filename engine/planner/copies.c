/* Copies that the planner inserts if frames go from one memory to another: one for each output port and device that
 * reads it. */
#include "engine/planner/copies.h"

#include "engine/plan/copy_options.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/plan_memory.h"
#include "millrace/status.h"

enum { COPY_QUEUE = 2, COPY_IN_FLIGHT = 2 };

/* ---- whether a link needs one ---------------------------------------------------------------------------------- */

static bool on_host(const mr_plan_vertex *vertex) {
    return vertex->devices.at[0] == 0;
}

/* A stage with a device in reserve must read frames from the host: a device in between might be the one that fails. */
static bool goes_home(const mr_plan_vertex *to) {
    return on_host(to) || to->devices.has_reserve;
}

/* Whether frames hold device memory: our payload, or tensors among the results. */
static bool holds_memory(const mr_planned_output *output) {
    if (output->set.payload == MR_PAYLOAD_PACKET)
        return false;
    if (output->set.payload != MR_PAYLOAD_RESULTS || output->more_results)
        return true;
    for (const mr_planned_result *result = output->results; result; result = result->next)
        if (result->kind->on_device)
            return true;
    return false;
}

static bool needs_copy(const mr_plan_builder *b, const mr_plan_link *link) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    /* A stage on several devices uploads inputs itself; one with a device in reserve does so only from the host. */
    if (mr_plan_parts(to) > 1 && (on_host(from) || !to->devices.has_reserve))
        return false;
    return !mr_plan_same_devices(from, to) && holds_memory(&from->outputs[link->from_port]);
}

/* ---- one copy -------------------------------------------------------------------------------------------------- */

static const char *name_copy(mr_plan_builder *b, const mr_plan_link *link) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    const mr_port *port = &from->type->outputs[link->from_port];
    return mr_arena_print(b->arena, "%s%s%s->%s", from->id, link->from_port ? "." : "",
                          link->from_port ? port->name : "",
                          goes_home(to) ? "host" : b->plan->devices[to->devices.at[0]].name);
}

/* After several devices, frames wait here for the slowest one, a batch from each and the next, while the others
 * continue. */
static int copy_calls(const mr_plan_vertex *works) {
    return COPY_IN_FLIGHT * (int)mr_plan_parts(works) * (works->devices.count > 1 ? works->devices.turn : 1);
}

/* Frames that one call may copy together: as many small ones as the stages on either side process at once. On several
 * devices one would have to wait for the other. */
static int copy_batch(const mr_plan_builder *b, const mr_plan_link *link, const mr_plan_vertex *works) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    const mr_planned_output *output = &from->outputs[link->from_port];
    uint64_t bytes;
    bool known = mr_plan_frame_bytes(&output->set, output->results, output->more_results, &bytes) && bytes;
    if (!known || bytes > MR_COPY_SMALL_BYTES || mr_plan_parts(works) > 1)
        return 1;
    int most = (int)(MR_COPY_GATHERED_BYTES / bytes), wanted = on_host(from) ? 1 : from->calls.batch;
    for (size_t i = 0; i < b->link_count; i++) {
        const mr_plan_link *other = &b->link[i];
        const mr_plan_vertex *reader = &b->plan->vertices[other->to];
        if (other->from == link->from && other->from_port == link->from_port && mr_plan_same_devices(reader, to))
            wanted = reader->calls.batch > wanted ? reader->calls.batch : wanted;
    }
    most = most < MR_COPY_BATCH ? most : MR_COPY_BATCH;
    return wanted < most ? wanted : most;
}

/* Room for a batch, from all sources together. */
static int copy_queue(int batch, size_t sources) {
    int each = sources ? (batch + (int)sources - 1) / (int)sources : batch;
    return each > COPY_QUEUE ? each : COPY_QUEUE;
}

/* The vertex that the link needs, and the author's stage that it stands for. */
static int make_copy(mr_plan_builder *b, const mr_plan_link *link, mr_plan_vertex *copy, mr_spec_vertex *spec) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *to = &b->plan->vertices[link->to];
    const mr_plan_vertex *works = goes_home(to) ? from : to;
    mr_copy_options *options = mr_arena_alloc(b->arena, sizeof *options);
    const char *id = name_copy(b, link);
    const int batch = copy_batch(b, link, works);
    if (!options || !id)
        return MR_ERROR_MEMORY;
    options->to_host = goes_home(to);
    *copy = (mr_plan_vertex){
        .id = id,
        .type = b->params.inserted->copy,
        .role = MR_ROLE_COPY,
        .options = options,
        .place = to->place,
        .mark = to->mark,
        .devices.count = works->devices.count,
        .devices.at = works->devices.at,
        .devices.has_reserve = works->devices.has_reserve,
        .devices.reserve = works->devices.reserve,
        .copy = goes_home(to)   ? MR_COPY_DOWNLOAD
                : on_host(from) ? MR_COPY_UPLOAD
                                : MR_COPY_PEER,
        .calls.instances = 1,
        .calls.entry = MR_ENTRY_STATELESS,
        .calls.entries = 1,
        .calls.in_flight = copy_calls(works),
        .calls.batch = batch,
        .handling.queue = copy_queue(batch, from->source_count),
        .devices.turn = works->devices.turn,
        .source_count = from->source_count,
        .sources = from->sources,
        .node = works->node,
    };
    *spec = (mr_spec_vertex){
        .id = id, .place = to->mark, .place_text = to->place, .type = copy->type, .options = options};
    mr_plan_name_device(b, copy);
    return mr_plan_repeat(b, copy, from, link->from_port);
}

int mr_plan_insert_copies(mr_plan_builder *b) {
    return mr_plan_splice(b, &(mr_plan_insertion){.needed = needs_copy, .shared = mr_plan_same_devices, .count = 1,
                                                  .make = make_copy});
}

/* `device: auto`: stages are placed one after the other in the order of the graph, or, where costs were measured, the
 * most expensive first: each where a neighbour is, so that nothing is copied between them, or on the first device that
 * can take it (by costs: plan_balance.c); else on the processors. */
#include <stdio.h>
#include <string.h>

#include "engine/plan/builder.h"
#include "millrace/status.h"

/* A search for a stage's device, and what was said against those that were not taken. */
typedef struct search {
    mr_plan_builder *b;
    int v;
    uint64_t bytes;        /* that it would take */
    const uint64_t *taken; /* by stages placed before, by device */
    mr_plan_balance *balance;
    char against[1024];
    char words[512]; /* of the last objection, where a stage type raised it */
} search;

static void object(search *s, const char *name, const char *why) {
    size_t length = strlen(s->against);
    snprintf(s->against + length, sizeof s->against - length, "%s%s %s", length ? ", " : "", name, why);
}

uint64_t mr_plan_most_bytes(const mr_plan_device *device) {
    uint64_t limit = device->limit_bytes, memory = device->memory_bytes;
    return !limit || (memory && memory < limit) ? memory : limit;
}

/* Why a device cannot take the stage; NULL where it can. */
static const char *objection(search *s, int d) {
    mr_plan_device *device = &s->b->plan->devices[d];
    const mr_stage_type *type = s->b->plan->vertices[s->v].type;
    if (!device->enabled)
        return "is disabled";
    if (mr_plan_is_cuda(device) && !type->cuda && !s->b->plan->assumed)
        return "has no kernel for it in this version";
    bool here = !mr_plan_is_elsewhere(s->b, s->v);
    if (here && mr_plan_probe(s->b, device))
        return "is not there";
    bool asked = here && type->check_device && !s->b->params.offline && !device->assumed;
    if (asked && (type->check_device(s->b->plan->vertices[s->v].options, device->name) ||
                  mr_plan_check_inputs(s->b, s->v, device->name, false))) {
        snprintf(s->words, sizeof s->words, "cannot do it: %s", mr_message());
        return s->words;
    }
    uint64_t most = mr_plan_most_bytes(device);
    return most && s->taken[d] + s->bytes > most ? "has not memory enough" : NULL;
}

/* Puts the stage where a neighbour is, if it can be there. */
static bool join_neighbour(search *s, const mr_plan_vertex *neighbour) {
    mr_plan_vertex *vertex = &s->b->plan->vertices[s->v];
    if (neighbour->devices[0] == 0 || (neighbour->device_count > 1 && vertex->entry != MR_ENTRY_STATELESS))
        return false;
    for (size_t i = 0; i < neighbour->device_count; i++)
        if (objection(s, neighbour->devices[i]))
            return false;
    vertex->devices = neighbour->devices;
    vertex->device_count = neighbour->device_count;
    vertex->device_reason =
        mr_arena_print(s->b->arena, "with %s, so that nothing is copied between them", neighbour->id);
    return true;
}

static bool join_any_neighbour(search *s) {
    const mr_plan_builder *b = s->b;
    for (int i = b->in.start[s->v]; i < b->in.start[s->v + 1]; i++)
        if (join_neighbour(s, &b->plan->vertices[b->link[b->in.item[i]].from]))
            return true;
    for (int i = b->out.start[s->v]; i < b->out.start[s->v + 1]; i++)
        if (join_neighbour(s, &b->plan->vertices[b->link[b->out.item[i]].to]))
            return true;
    return false;
}

/* Lists the devices that can take it, up to so many. */
static size_t list_willing(search *s, int *devices, size_t most) {
    const mr_plan *plan = s->b->plan;
    size_t count = 0;
    for (int d = 1; d < (int)plan->device_count && count < most; d++) {
        /* What only another stage names is that stage's. */
        if (!plan->devices[d].alias && !plan->devices[d].assumed)
            continue;
        const char *why = objection(s, d);
        if (why)
            object(s, plan->devices[d].name, why);
        else
            devices[count++] = d;
    }
    return count;
}

static int take_one(search *s) {
    mr_plan_builder *b = s->b;
    mr_plan_vertex *vertex = &b->plan->vertices[s->v];
    bool by_cost = b->params.cost_count > 0;
    int *device = mr_arena_array(b->arena, b->plan->device_count, sizeof *device);
    if (!device)
        return MR_ERROR_MEMORY;
    size_t willing = list_willing(s, device, by_cost ? b->plan->device_count : 1);
    bool found = willing > 0;
    if (found && by_cost)
        return mr_plan_balance_take(b, s->balance, s->v, device, willing);
    if (!found && !*s->against)
        object(s, "no other device", "is named under devices");
    vertex->devices = device;
    vertex->device_reason =
        found && *s->against ? mr_arena_print(b->arena, "the first device that can take it (%s)", s->against)
        : found              ? "the first device that can take it"
                             : mr_arena_print(b->arena, "%s", s->against);
    return MR_OK;
}

/* Where a device without a CUDA variant was taken, since it is only assumed. */
static void warn_of_kernels(mr_plan_builder *b, int v) {
    for (size_t i = 0; !mr_plan_is_elsewhere(b, v) && i < b->plan->vertices[v].device_count; i++)
        if (mr_plan_is_cuda(&b->plan->devices[b->plan->vertices[v].devices[i]])) {
            mr_plan_check_device(b, b->vertex[v], mr_yaml_get(b->vertex[v]->node, "device")->place,
                                 b->plan->vertices[v].devices[i]);
            return;
        }
}

static int remark(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    int status = MR_OK;
    for (size_t i = 0; i < vertex->device_count && status != MR_ERROR_MEMORY; i++) {
        const mr_plan_device *device = &b->plan->devices[vertex->devices[i]];
        if (!b->params.offline && !device->assumed && !mr_plan_is_elsewhere(b, v))
            status = mr_plan_check_inputs(b, v, device->name, true);
    }
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

static int place_auto(mr_plan_builder *b, mr_plan_balance *balance, int v, const uint64_t *taken) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    search s = {.b = b, .v = v, .bytes = mr_plan_estimate(b, v), .taken = taken, .balance = balance};
    if (!mr_plan_works_on_devices(vertex->type)) {
        vertex->device_reason = mr_arena_print(b->arena, "%s works nowhere else", vertex->type->name);
    } else if (!join_any_neighbour(&s) && take_one(&s)) {
        return MR_ERROR_MEMORY;
    }
    mr_plan_set_calls(b, v);
    mr_plan_settle_reserve(vertex);
    mr_plan_name_device(b, vertex);
    warn_of_kernels(b, v);
    return vertex->device_reason ? remark(b, v) : MR_ERROR_MEMORY;
}

static void take_memory(mr_plan_builder *b, int v, uint64_t *taken) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    uint64_t bytes = mr_plan_estimate(b, v);
    for (size_t i = 0; i < vertex->device_count; i++)
        taken[vertex->devices[i]] += bytes;
}

int mr_plan_place_auto(mr_plan_builder *b) {
    uint64_t *taken = mr_arena_array(b->arena, b->plan->device_count, sizeof *taken);
    bool *placed = mr_arena_array(b->arena, (size_t)b->count, sizeof *placed);
    mr_plan_balance balance;
    if (!taken || !placed || mr_plan_balance_begin(b, &balance))
        return MR_ERROR_MEMORY;
    /* First what stages that name their device take there. */
    for (int v = 0; v < b->count; v++)
        if (!mr_plan_is_auto(b->vertex[v]))
            take_memory(b, v, taken);
    for (int v; (v = mr_plan_balance_next(b, &balance, placed)) >= 0; placed[v] = true) {
        if (place_auto(b, &balance, v, taken))
            return MR_ERROR_MEMORY;
        take_memory(b, v, taken);
    }
    mr_plan_set_turns(b);
    return MR_OK;
}

/* `device: auto`: stages are placed one after the other in the order of the graph, or, if costs were measured, the most
 * expensive first. Each goes to a neighbour's device, so that nothing is copied between them, or to the first device
 * that it can run on; else to the processors. */
#include "engine/planner/auto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"
#include "engine/planner/nodes.h"
#include "engine/planner/plan_memory.h"
#include "millrace/status.h"

/* ---- by measured costs ------------------------------------------------------------------------------------------- */

/* Linked stages are placed together, so that nothing must be copied between them, the most expensive group first. A
 * group that needs more than an even share of all device work is spread over as many devices as make its shares even.
 * Otherwise it goes to the device with the least work. */
/* Measured costs for stages whose device the planner chooses. */
typedef struct balance_of_costs {
    int *group;     /* by vertex: the first of the stages that it is linked with; -1: it has no choice */
    double *cost;   /* by first vertex: nanoseconds on devices per source frame */
    bool *together; /* by first vertex: if a stage of it remembers earlier frames, all are on one device */
    double *load;   /* by device: work placed there */
    double total;   /* for all */
} balance_of_costs;

/* How much of a device's time sources that keep to a clock can use: frames do not come evenly. */
static const double COMFORTABLE = 0.8;

static double cost_of(const mr_plan_builder *b, int v) {
    for (size_t i = 0; i < b->params.cost_count; i++)
        if (strcmp(b->params.costs[i].stage, b->plan->vertices[v].id) == 0)
            return b->params.costs[i].ns;
    return 0;
}

static bool takes_part(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    return vertex->role != MR_ROLE_SOURCE && b->vertex[v]->type && mr_plan_is_auto(b->vertex[v]) &&
           mr_plan_works_on_devices(vertex->type);
}

/* A group is named by the first stage; two groups become one if a link joins them. */
static void join_groups(balance_of_costs *to, int count, int a, int b) {
    int kept = to->group[a] < to->group[b] ? to->group[a] : to->group[b];
    int gone = to->group[a] < to->group[b] ? to->group[b] : to->group[a];
    for (int v = 0; v < count; v++)
        if (to->group[v] == gone)
            to->group[v] = kept;
}

static void find_groups(const mr_plan_builder *b, balance_of_costs *to) {
    for (int v = 0; v < b->count; v++)
        to->group[v] = takes_part(b, v) ? v : -1;
    for (size_t i = 0; i < b->link_count; i++)
        if (to->group[b->link[i].from] >= 0 && to->group[b->link[i].to] >= 0)
            join_groups(to, b->count, b->link[i].from, b->link[i].to);
}

static void sum_costs(const mr_plan_builder *b, balance_of_costs *to) {
    for (int v = 0; v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        double cost = cost_of(b, v);
        if (to->group[v] >= 0) {
            to->cost[to->group[v]] += cost;
            to->together[to->group[v]] |= vertex->calls.entry != MR_ENTRY_STATELESS;
            to->total += cost;
        }
        /* Stages that name devices are placed already. */
        for (size_t i = 0; to->group[v] < 0 && i < vertex->devices.count; i++)
            to->load[vertex->devices.at[i]] += cost / (double)vertex->devices.count;
    }
    for (size_t d = 1; d < b->plan->device_count; d++)
        to->total += to->load[d];
}

static int begin_balance(const mr_plan_builder *b, balance_of_costs *balance) {
    size_t count = (size_t)b->count;
    *balance = (balance_of_costs){.group = mr_arena_array(b->arena, count, sizeof(int)),
                                 .cost = mr_arena_array(b->arena, count, sizeof(double)),
                                 .together = mr_arena_array(b->arena, count, sizeof(bool)),
                                 .load = mr_arena_array(b->arena, b->plan->device_count, sizeof(double))};
    if (!balance->group || !balance->cost || !balance->together || !balance->load)
        return MR_ERROR_MEMORY;
    find_groups(b, balance);
    sum_costs(b, balance);
    return MR_OK;
}

static int next_by_cost(const mr_plan_builder *b, const balance_of_costs *balance, const bool *placed) {
    int best = -1;
    for (int v = 0; v < b->count; v++) {
        if (placed[v] || !mr_plan_is_auto(b->vertex[v]))
            continue;
        double cost = balance->group[v] < 0 ? 0 : balance->cost[balance->group[v]];
        double most = best < 0 || balance->group[best] < 0 ? 0 : balance->cost[balance->group[best]];
        if (best < 0 || cost > most)
            best = v;
    }
    return best;
}

/* As many devices as keep up with sources that keep to a clock; `most` if a source does not. */
static size_t needed(const mr_plan_builder *b, double cost_ns, size_t most) {
    double rate = 0;
    for (size_t s = 0; s < b->plan->source_count; s++) {
        if (!b->plan->vertices[s].offer.paced || b->plan->vertices[s].offer.rate <= 0)
            return most;
        rate += b->plan->vertices[s].offer.rate;
    }
    double devices = rate * cost_ns * 1e-9 / COMFORTABLE;
    return devices >= (double)most ? most : (size_t)devices + 1;
}

static size_t count_devices(const mr_plan_builder *b, const balance_of_costs *balance, int group, size_t most) {
    double cost = balance->cost[group];
    if (balance->together[group] || cost <= 0)
        return 1;
    double even = balance->total / (double)most;
    size_t count = (size_t)(cost / even + 0.5), enough = needed(b, cost, most);
    count = count > most ? most : count < 1 ? 1 : count;
    return count < enough ? count : enough;
}

/* Finds the device with the least work in the list, at or after `from`, and moves it there. */
static void bring_forward(const balance_of_costs *balance, int *devices, size_t count, size_t from) {
    size_t least = from;
    for (size_t i = from + 1; i < count; i++)
        if (balance->load[devices[i]] < balance->load[devices[least]])
            least = i;
    int found = devices[least];
    memmove(&devices[from + 1], &devices[from], (least - from) * sizeof *devices);
    devices[from] = found;
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static int take_by_cost(mr_plan_builder *b, balance_of_costs *balance, int v, int *devices, size_t count) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    int group = balance->group[v];
    double cost = balance->cost[group];
    size_t taken = count_devices(b, balance, group, count);
    for (size_t i = 0; i < taken; i++)
        bring_forward(balance, devices, count, i);
    double before = balance->load[devices[0]];
    qsort(devices, taken, sizeof *devices, by_number);
    for (size_t i = 0; i < taken; i++)
        balance->load[devices[i]] += cost / (double)taken;
    vertex->devices.at = devices;
    vertex->devices.count = taken;
    if (cost <= 0)
        vertex->devices.reason = "the least loaded device; the stage's cost was not measured";
    else if (taken > 1)
        vertex->devices.reason = mr_arena_print(
            b->arena, "spread over %zu devices, since this stage takes %.3g ms of the %.3g ms that a frame takes on "
                      "devices",
            taken, cost * 1e-6, balance->total * 1e-6);
    else
        vertex->devices.reason = mr_arena_print(
            b->arena, "the least loaded device: %.3g ms a frame before, %.3g ms more with this stage", before * 1e-6,
            cost * 1e-6);
    return vertex->devices.reason ? MR_OK : MR_ERROR_MEMORY;
}

/* ---- one after the other ----------------------------------------------------------------------------------------- */

/* A search for a stage's device, with the objections to those that were refused. */
typedef struct search {
    mr_plan_builder *b;
    int v;
    uint64_t bytes;        /* needed by the stage */
    const uint64_t *taken; /* in use by stages placed before, by device */
    balance_of_costs *balance;
    char against[1024];
    char words[512]; /* the last objection's text, if a stage type raised it */
} search;

static void object(search *s, const char *name, const char *why) {
    size_t length = strlen(s->against);
    snprintf(s->against + length, sizeof s->against - length, "%s%s %s", length ? ", " : "", name, why);
}

/* Why a device cannot run the stage; NULL if it can. */
static const char *objection(search *s, int d) {
    mr_plan_device *device = &s->b->plan->devices[d];
    const mr_stage_type *type = s->b->plan->vertices[s->v].type;
    if (!device->enabled)
        return "is disabled";
    if (mr_plan_is_cuda(device) && !type->cuda && !s->b->plan->assumed)
        return "has no kernel for it in this version";
    bool here = !mr_plan_is_elsewhere(s->b, s->v);
    if (here && mr_plan_probe(s->b, device))
        return "is not available";
    bool asked = here && type->check_device && !s->b->params.offline && !device->assumed;
    if (asked && (type->check_device(s->b->plan->vertices[s->v].options, device->name) ||
                  mr_plan_check_inputs(s->b, s->v, device->name, false))) {
        snprintf(s->words, sizeof s->words, "cannot run it: %s", mr_message());
        return s->words;
    }
    uint64_t most = mr_plan_most_bytes(device);
    return most && s->taken[d] + s->bytes > most ? "has too little memory" : NULL;
}

/* Puts the stage on a neighbour's device, if it can run there. */
static bool join_neighbour(search *s, const mr_plan_vertex *neighbour) {
    mr_plan_vertex *vertex = &s->b->plan->vertices[s->v];
    if (neighbour->devices.at[0] == 0 || (neighbour->devices.count > 1 && vertex->calls.entry != MR_ENTRY_STATELESS))
        return false;
    for (size_t i = 0; i < neighbour->devices.count; i++)
        if (objection(s, neighbour->devices.at[i]))
            return false;
    vertex->devices.at = neighbour->devices.at;
    vertex->devices.count = neighbour->devices.count;
    vertex->devices.reason =
        mr_arena_print(s->b->arena, "the same as %s, so that nothing is copied between them", neighbour->id);
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

/* Lists the devices that can run it, up to that many. */
static size_t list_willing(search *s, int *devices, size_t most) {
    const mr_plan *plan = s->b->plan;
    size_t count = 0;
    for (int d = 1; d < (int)plan->device_count && count < most; d++) {
        /* A device that only another stage names is reserved for that stage. */
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
        return take_by_cost(b, s->balance, s->v, device, willing);
    if (!found && !*s->against)
        object(s, "no other device", "is named under devices");
    vertex->devices.at = device;
    vertex->devices.reason =
        found && *s->against ? mr_arena_print(b->arena, "the first device that can take it (%s)", s->against)
        : found              ? "the first device that can take it"
                             : mr_arena_print(b->arena, "%s", s->against);
    return MR_OK;
}

/* Warns about a device that lacks the stage's CUDA variant and was taken because it is only assumed. */
static void warn_of_kernels(mr_plan_builder *b, int v) {
    for (size_t i = 0; !mr_plan_is_elsewhere(b, v) && i < b->plan->vertices[v].devices.count; i++)
        if (mr_plan_is_cuda(&b->plan->devices[b->plan->vertices[v].devices.at[i]])) {
            mr_plan_check_device(b, b->vertex[v], mr_yaml_get(b->vertex[v]->node, "device")->place,
                                 b->plan->vertices[v].devices.at[i]);
            return;
        }
}

static int remark(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    int status = MR_OK;
    for (size_t i = 0; i < vertex->devices.count && status != MR_ERROR_MEMORY; i++) {
        const mr_plan_device *device = &b->plan->devices[vertex->devices.at[i]];
        if (!b->params.offline && !device->assumed && !mr_plan_is_elsewhere(b, v))
            status = mr_plan_check_inputs(b, v, device->name, true);
    }
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

static int place_auto(mr_plan_builder *b, balance_of_costs *balance, int v, const uint64_t *taken) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    search s = {.b = b, .v = v, .bytes = mr_plan_estimate(b, v), .taken = taken, .balance = balance};
    if (!mr_plan_works_on_devices(vertex->type)) {
        vertex->devices.reason = mr_arena_print(b->arena, "%s runs on processors only", vertex->type->name);
    } else if (!join_any_neighbour(&s) && take_one(&s)) {
        return MR_ERROR_MEMORY;
    }
    mr_plan_set_calls(b, v);
    mr_plan_settle_reserve(vertex);
    mr_plan_name_device(b, vertex);
    warn_of_kernels(b, v);
    return vertex->devices.reason ? remark(b, v) : MR_ERROR_MEMORY;
}

static void take_memory(mr_plan_builder *b, int v, uint64_t *taken) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    uint64_t bytes = mr_plan_estimate(b, v);
    for (size_t i = 0; i < vertex->devices.count; i++)
        taken[vertex->devices.at[i]] += bytes;
}

int mr_plan_place_auto(mr_plan_builder *b) {
    uint64_t *taken = mr_arena_array(b->arena, b->plan->device_count, sizeof *taken);
    bool *placed = mr_arena_array(b->arena, (size_t)b->count, sizeof *placed);
    balance_of_costs balance;
    if (!taken || !placed || begin_balance(b, &balance))
        return MR_ERROR_MEMORY;
    /* Memory for stages that name a device must come first. */
    for (int v = 0; v < b->count; v++)
        if (!mr_plan_is_auto(b->vertex[v]))
            take_memory(b, v, taken);
    for (int v; (v = next_by_cost(b, &balance, placed)) >= 0; placed[v] = true) {
        if (place_auto(b, &balance, v, taken))
            return MR_ERROR_MEMORY;
        take_memory(b, v, taken);
    }
    mr_plan_set_turns(b);
    return MR_OK;
}

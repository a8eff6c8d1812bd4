/* `device: auto` by measured cost: stages that are linked, so that nothing is copied between them, are placed together,
 * the most expensive first. What takes more than an even share of all work on devices is spread over as many as make
 * its shares even; what takes less goes to the device that has least to do. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/builder.h"
#include "millrace/status.h"

/* Of a device's time as much as sources that keep to a clock may take: their frames do not come evenly. */
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

/* Groups are called by their first stage; two that turn out to be linked become one. */
static void join_groups(mr_plan_balance *to, int count, int a, int b) {
    int kept = to->group[a] < to->group[b] ? to->group[a] : to->group[b];
    int gone = to->group[a] < to->group[b] ? to->group[b] : to->group[a];
    for (int v = 0; v < count; v++)
        if (to->group[v] == gone)
            to->group[v] = kept;
}

static void find_groups(const mr_plan_builder *b, mr_plan_balance *to) {
    for (int v = 0; v < b->count; v++)
        to->group[v] = takes_part(b, v) ? v : -1;
    for (size_t i = 0; i < b->link_count; i++)
        if (to->group[b->link[i].from] >= 0 && to->group[b->link[i].to] >= 0)
            join_groups(to, b->count, b->link[i].from, b->link[i].to);
}

static void sum_costs(const mr_plan_builder *b, mr_plan_balance *to) {
    for (int v = 0; v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        double cost = cost_of(b, v);
        if (to->group[v] >= 0) {
            to->cost[to->group[v]] += cost;
            to->together[to->group[v]] |= vertex->entry != MR_ENTRY_STATELESS;
            to->total += cost;
        }
        /* What names its devices is there already. */
        for (size_t i = 0; to->group[v] < 0 && i < vertex->device_count; i++)
            to->load[vertex->devices[i]] += cost / (double)vertex->device_count;
    }
    for (size_t d = 1; d < b->plan->device_count; d++)
        to->total += to->load[d];
}

int mr_plan_balance_begin(const mr_plan_builder *b, mr_plan_balance *balance) {
    size_t count = (size_t)b->count;
    *balance = (mr_plan_balance){.group = mr_arena_array(b->arena, count, sizeof(int)),
                                 .cost = mr_arena_array(b->arena, count, sizeof(double)),
                                 .together = mr_arena_array(b->arena, count, sizeof(bool)),
                                 .load = mr_arena_array(b->arena, b->plan->device_count, sizeof(double))};
    if (!balance->group || !balance->cost || !balance->together || !balance->load)
        return MR_ERROR_MEMORY;
    find_groups(b, balance);
    sum_costs(b, balance);
    return MR_OK;
}

int mr_plan_balance_next(const mr_plan_builder *b, const mr_plan_balance *balance, const bool *placed) {
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

/* So many devices as keep up with sources that keep to a clock; `most` where one does not. */
static size_t needed(const mr_plan_builder *b, double cost_ns, size_t most) {
    double rate = 0;
    for (size_t s = 0; s < b->plan->source_count; s++) {
        if (!b->plan->vertices[s].paced || b->plan->vertices[s].rate <= 0)
            return most;
        rate += b->plan->vertices[s].rate;
    }
    double devices = rate * cost_ns * 1e-9 / COMFORTABLE;
    return devices >= (double)most ? most : (size_t)devices + 1;
}

static size_t count_devices(const mr_plan_builder *b, const mr_plan_balance *balance, int group, size_t most) {
    double cost = balance->cost[group];
    if (balance->together[group] || cost <= 0)
        return 1;
    double even = balance->total / (double)most;
    size_t count = (size_t)(cost / even + 0.5), enough = needed(b, cost, most);
    count = count > most ? most : count < 1 ? 1 : count;
    return count < enough ? count : enough;
}

/* The device of the list with least to do, at or behind `from`; moves it to there. */
static void bring_forward(const mr_plan_balance *balance, int *devices, size_t count, size_t from) {
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

int mr_plan_balance_take(mr_plan_builder *b, mr_plan_balance *balance, int v, int *devices, size_t count) {
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
    vertex->devices = devices;
    vertex->device_count = taken;
    if (cost <= 0)
        vertex->device_reason = "the device with least to do; what it costs was not measured";
    else if (taken > 1)
        vertex->device_reason = mr_arena_print(
            b->arena, "spread over %zu devices, since %.3g ms of the %.3g ms that a frame takes on devices are here",
            taken, cost * 1e-6, balance->total * 1e-6);
    else
        vertex->device_reason = mr_arena_print(
            b->arena, "the device with least to do: %.3g ms a frame before, %.3g ms more with this", before * 1e-6,
            cost * 1e-6);
    return vertex->device_reason ? MR_OK : MR_ERROR_MEMORY;
}

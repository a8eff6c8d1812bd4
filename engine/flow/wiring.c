/* Builds instances, links and routes from a plan. */
#include "engine/flow/wiring.h"

#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"

struct mr_wiring {
    const mr_run *run;
    void (*run_entry)(void *entry);
    size_t instance_count, instance_room;
    mr_instance **instances;        /* in the plan's vertex order */
    mr_instance **of_source;        /* by source */
    mr_link ***inlets;              /* [vertex's first inlet + port][source]: the link that takes this source's
                                       frames */
    size_t *first_inlet;            /* by vertex */
    mr_route **routes;              /* [vertex][output port] */
};

static bool is_per_source(const mr_plan_vertex *vertex) {
    return vertex->role != MR_ROLE_SOURCE && vertex->calls.entry == MR_ENTRY_PER_SOURCE;
}

/* External sources have an inlet too: the program pushes into it. */
static size_t inlet_count(const mr_plan_vertex *vertex) {
    return vertex->role == MR_ROLE_SOURCE ? vertex->type->external : vertex->input_count;
}

static mr_link **inlet(mr_wiring *wiring, size_t vertex, size_t port) {
    return wiring->inlets[wiring->first_inlet[vertex] + port];
}

/* ---- instances ------------------------------------------------------------------------------------------------- */

static int add_instance(mr_wiring *wiring, size_t vertex, uint32_t source) {
    if (!mr_grow((void **)&wiring->instances, wiring->instance_count, &wiring->instance_room, sizeof(mr_instance *)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a stage");
    mr_instance **instance = &wiring->instances[wiring->instance_count];
    int status =
        mr_instance_create(instance, wiring->run, &wiring->run->plan->vertices[vertex], source, wiring->run_entry);
    if (!status)
        wiring->instance_count++;
    return status;
}

static int create_instances(mr_wiring *wiring, size_t v) {
    const mr_plan_vertex *vertex = &wiring->run->plan->vertices[v];
    if (!mr_plan_is_here(wiring->run->plan, vertex))
        return MR_OK;
    if (vertex->role == MR_ROLE_SOURCE) {
        int status = add_instance(wiring, v, vertex->source);
        if (!status)
            wiring->of_source[vertex->source] = wiring->instances[wiring->instance_count - 1];
        return status;
    }
    if (!is_per_source(vertex))
        return add_instance(wiring, v, MR_SOURCE_NONE);
    for (size_t i = 0; i < vertex->source_count; i++) {
        int status = add_instance(wiring, v, vertex->sources[i]);
        if (status)
            return status;
    }
    return MR_OK;
}

/* ---- links ----------------------------------------------------------------------------------------------------- */

/* Marks the sources whose frames come to an input port. */
static size_t port_sources(const mr_plan *plan, int vertex, int port, bool *comes) {
    size_t count = 0;
    memset(comes, 0, plan->source_count * sizeof *comes);
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (edge->to != vertex || edge->to_port != port)
            continue;
        const mr_plan_vertex *from = &plan->vertices[edge->from];
        for (size_t i = 0; i < from->source_count; i++)
            if (!comes[from->sources[i]]) {
                comes[from->sources[i]] = true;
                count++;
            }
    }
    if (plan->vertices[vertex].role == MR_ROLE_SOURCE) {
        comes[plan->vertices[vertex].source] = true;
        count = 1;
    }
    return count;
}

/* The producers waiting for a lane are woken when it has no more frames than this: half the queue. Before a join it is
 * whenever a batch on another path may lack a frame. */
static int refill(const mr_plan_vertex *vertex) {
    int half = vertex->handling.queue / 2, lacking = vertex->handling.gathered - 1;
    if (vertex->input_count < 2 || lacking < half)
        return half;
    return lacking < vertex->handling.queue ? lacking : vertex->handling.queue - 1;
}

/* Adds one instance's link for a port, and enters it in the port's table for each source it takes. */
static int add_link(mr_wiring *wiring, mr_instance *instance, size_t port, const uint32_t *sources, size_t count) {
    const mr_plan_vertex *vertex = instance->vertex;
    size_t v = (size_t)(vertex - wiring->run->plan->vertices);
    mr_link_params params = {
        .source_count = wiring->run->plan->source_count,
        .sources = sources,
        .lane_count = count,
        .capacity = vertex->handling.queue,
        .refill = refill(vertex),
        .policy = vertex->handling.policy,
        .keeps_head = mr_inlets_join(&instance->inlets),
        .wants_gaps = mr_inlets_join(&instance->inlets) || mr_outlets_mark_gaps(&instance->outlets),
        .stage = vertex->id,
        .wake = mr_instance_wake,
        .wake_always = instance->shared || mr_inlets_join(&instance->inlets) || mr_credit_is_needed(&instance->credit),
        .context = instance,
    };
    mr_link *link = NULL;
    int status = mr_link_create(&link, &params);
    mr_inlets_set_link(&instance->inlets, port, link);
    for (size_t i = 0; !status && i < count; i++)
        inlet(wiring, v, port)[sources[i]] = link;
    return status;
}

/* The source's place among the port's sources; NULL: its frames do not come to this port, so that a join must not wait
 * for their end either. */
static const uint32_t *find_source(const uint32_t *sources, size_t count, uint32_t source) {
    for (size_t i = 0; i < count; i++)
        if (sources[i] == source)
            return &sources[i];
    return NULL;
}

/* Gives each of a vertex's instances a link for one port. */
static int link_port(mr_wiring *wiring, size_t v, size_t port, const uint32_t *sources, size_t count) {
    for (size_t i = 0; i < wiring->instance_count; i++) {
        mr_instance *instance = wiring->instances[i];
        if (instance->vertex != &wiring->run->plan->vertices[v])
            continue;
        const bool one = instance->self.source != MR_SOURCE_NONE;
        const uint32_t *own = one ? find_source(sources, count, instance->self.source) : sources;
        int status = add_link(wiring, instance, port, own, one ? own != NULL : count);
        if (status)
            return status;
    }
    return MR_OK;
}

static int create_links(mr_wiring *wiring, size_t v) {
    const mr_plan *plan = wiring->run->plan;
    bool *comes = mr_calloc(plan->source_count + 1, sizeof *comes);
    uint32_t *sources = mr_calloc(plan->source_count + 1, sizeof *sources);
    int status = comes && sources ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for links");
    for (size_t port = 0; !status && port < inlet_count(&plan->vertices[v]); port++) {
        size_t wanted = port_sources(plan, (int)v, (int)port, comes), count = 0;
        for (uint32_t s = 0; count < wanted; s++)
            if (comes[s])
                sources[count++] = s;
        status = link_port(wiring, v, port, sources, count);
    }
    mr_free(comes);
    mr_free(sources);
    return status;
}

/* Whether the edge's consumer runs here. If the producer runs elsewhere, the transport pushes into the inlet. */
static bool leads_here(const mr_plan *plan, const mr_view_link *edge) {
    return mr_plan_is_here(plan, &plan->vertices[edge->to]);
}

/* Sets how many producers will end each source on each link. */
static void expect_ends(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        const mr_plan_vertex *from = &plan->vertices[edge->from];
        for (size_t i = 0; leads_here(plan, edge) && i < from->source_count; i++)
            mr_link_expect(inlet(wiring, (size_t)edge->to, (size_t)edge->to_port)[from->sources[i]], from->sources[i]);
    }
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (plan->vertices[v].role == MR_ROLE_SOURCE && plan->vertices[v].type->external &&
            mr_plan_is_here(plan, &plan->vertices[v]))
            mr_link_expect(inlet(wiring, v, 0)[plan->vertices[v].source], plan->vertices[v].source);
}

/* ---- routes ---------------------------------------------------------------------------------------------------- */

static int add_consumer(mr_route *route, mr_link *const *links) {
    mr_link *const **grown = mr_realloc(route->links, (route->consumer_count + 1) * sizeof *grown);
    if (!grown)
        return mr_fail(MR_ERROR_MEMORY, "no memory for routes");
    route->links = grown;
    route->links[route->consumer_count++] = links;
    return MR_OK;
}

static int create_routes(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (!(wiring->routes[v] = mr_calloc(plan->vertices[v].output_count + 1, sizeof(mr_route))))
            return mr_fail(MR_ERROR_MEMORY, "no memory for routes");
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        /* A cut out has no output ports. */
        if (!leads_here(plan, edge) || !mr_plan_is_here(plan, &plan->vertices[edge->from]))
            continue;
        int status = add_consumer(&wiring->routes[edge->from][edge->from_port],
                                  inlet(wiring, (size_t)edge->to, (size_t)edge->to_port));
        if (status)
            return status;
    }
    for (size_t i = 0; i < wiring->instance_count; i++)
        mr_outlets_set_routes(&wiring->instances[i]->outlets,
                              wiring->routes[wiring->instances[i]->vertex - plan->vertices],
                              wiring->instances[i]->vertex->output_count);
    return MR_OK;
}

/* Joins need gaps, and so do cuts that restore the order among several processes. */
static bool asks_for_gaps(const mr_plan_vertex *vertex) {
    return vertex->input_count > 1 || mr_cut_restores_order(mr_plan_cut_of(vertex));
}

/* A stage must leave gaps if any later stage needs them. Vertices are in topological order. */
static int mark_tellers(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    bool *tells = mr_calloc(plan->vertex_count + 1, sizeof *tells);
    if (!tells)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    for (size_t v = plan->vertex_count; v-- > 0;)
        for (size_t e = 0; e < plan->edge_count; e++)
            if (plan->edges[e].from == (int)v)
                tells[v] |= tells[plan->edges[e].to] || asks_for_gaps(&plan->vertices[plan->edges[e].to]);
    for (size_t i = 0; i < wiring->instance_count; i++)
        mr_outlets_set_gaps(&wiring->instances[i]->outlets, tells[wiring->instances[i]->vertex - plan->vertices]);
    mr_free(tells);
    return MR_OK;
}

/* ---- devices in common ----------------------------------------------------------------------------------------- */

/* Marks later vertices that get a multi-device stage's frames without a copy between devices. */
static void mark_followers(const mr_plan *plan, size_t v, bool *follows) {
    memset(follows, 0, plan->vertex_count * sizeof *follows);
    follows[v] = true;
    for (size_t w = v + 1; w < plan->vertex_count; w++) {
        if (plan->vertices[w].copy || !mr_plan_same_devices(&plan->vertices[v], &plan->vertices[w]))
            continue;
        for (size_t e = 0; e < plan->edge_count && !follows[w]; e++)
            follows[w] = plan->edges[e].to == (int)w && follows[plan->edges[e].from];
    }
}

static int find_followers(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    bool *follows = mr_calloc(plan->vertex_count + 1, sizeof *follows);
    int status = follows ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < wiring->instance_count && !status; i++) {
        mr_instance *instance = wiring->instances[i];
        size_t v = (size_t)(instance->vertex - plan->vertices);
        if (instance->vertex->devices.count == 1 || instance->vertex->copy)
            continue;
        mark_followers(plan, v, follows);
        for (size_t j = i + 1; j < wiring->instance_count && !status; j++)
            if (follows[wiring->instances[j]->vertex - plan->vertices])
                status = mr_shares_add_follower(&instance->shares, &wiring->instances[j]->shares);
    }
    mr_free(follows);
    return status ? mr_fail(status, "no memory for the graph") : MR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static int create_inlets(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    size_t count = 0;
    wiring->first_inlet = mr_calloc(plan->vertex_count + 1, sizeof *wiring->first_inlet);
    wiring->of_source = mr_calloc(plan->source_count + 1, sizeof(mr_instance *));
    wiring->routes = mr_calloc(plan->vertex_count + 1, sizeof(mr_route *));
    if (!wiring->first_inlet || !wiring->of_source || !wiring->routes)
        return MR_ERROR_MEMORY;
    for (size_t v = 0; v < plan->vertex_count; v++) {
        wiring->first_inlet[v] = count;
        count += inlet_count(&plan->vertices[v]);
    }
    wiring->first_inlet[plan->vertex_count] = count;
    if (!(wiring->inlets = mr_calloc(count + 1, sizeof(mr_link **))))
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (!(wiring->inlets[i] = mr_calloc(plan->source_count + 1, sizeof(mr_link *))))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* Only an instance that serves several sources before a join needs credit. */
static int create_credit(mr_instance *instance) {
    const bool alone = instance->self.source != MR_SOURCE_NONE || instance->vertex->source_count < 2;
    return !mr_outlets_mark_gaps(&instance->outlets) || alone
               ? MR_OK
               : mr_credit_create(&instance->credit, instance->run->plan->source_count);
}

static int wire(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    int status = create_inlets(wiring);
    if (status)
        return mr_fail(status, "no memory for the graph");
    for (size_t v = 0; !status && v < plan->vertex_count; v++)
        status = create_instances(wiring, v);
    if (!status)
        status = mark_tellers(wiring);
    for (size_t i = 0; !status && i < wiring->instance_count; i++)
        status = create_credit(wiring->instances[i]);
    for (size_t v = 0; !status && v < plan->vertex_count; v++)
        status = create_links(wiring, v);
    if (!status)
        status = create_routes(wiring);
    if (!status)
        status = find_followers(wiring);
    if (!status)
        expect_ends(wiring);
    return status;
}

int mr_wiring_create(mr_wiring **wiring, const mr_run *run, void (*run_entry)(void *entry)) {
    mr_wiring *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    made->run = run;
    made->run_entry = run_entry;
    int status = wire(made);
    if (status)
        mr_wiring_destroy(&made);
    *wiring = made;
    return status;
}

static void destroy_routes(mr_wiring *wiring) {
    const mr_plan *plan = wiring->run->plan;
    for (size_t v = 0; wiring->routes && v < plan->vertex_count; v++) {
        for (size_t port = 0; wiring->routes[v] && port < plan->vertices[v].output_count; port++)
            mr_free(wiring->routes[v][port].links);
        mr_free(wiring->routes[v]);
    }
    mr_free(wiring->routes);
}

void mr_wiring_destroy(mr_wiring **wiring) {
    mr_wiring *gone = *wiring;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->instance_count; i++)
        mr_instance_finish(gone->instances[i]);
    while (gone->instance_count > 0)
        mr_instance_destroy(&gone->instances[--gone->instance_count]);
    mr_free(gone->instances);
    mr_free(gone->of_source);
    for (size_t i = 0; gone->inlets && i < gone->first_inlet[gone->run->plan->vertex_count]; i++)
        mr_free(gone->inlets[i]);
    mr_free(gone->inlets);
    mr_free(gone->first_inlet);
    destroy_routes(gone);
    mr_free(gone);
    *wiring = NULL;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

size_t mr_wiring_count(const mr_wiring *wiring) {
    return wiring->instance_count;
}

mr_instance *mr_wiring_at(const mr_wiring *wiring, size_t index) {
    return wiring->instances[index];
}

mr_instance *mr_wiring_source(const mr_wiring *wiring, uint32_t source) {
    return wiring->of_source[source];
}

mr_link *mr_wiring_external_inlet(const mr_wiring *wiring, uint32_t source) {
    return mr_inlets_link(&wiring->of_source[source]->inlets, 0);
}

void mr_wiring_end_tasks(const mr_wiring *wiring) {
    for (size_t i = 0; i < wiring->instance_count; i++)
        for (size_t e = 0; e < wiring->instances[i]->entry_count; e++)
            mr_task_ask_thread_to_end(&wiring->instances[i]->entries[e].task);
    for (size_t i = 0; i < wiring->instance_count; i++)
        for (size_t e = 0; e < wiring->instances[i]->entry_count; e++)
            mr_task_fini(&wiring->instances[i]->entries[e].task);
}

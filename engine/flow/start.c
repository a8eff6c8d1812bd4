/* The start: instances work as soon as they are open, so a decoder decodes while a network behind it still loads; links
 * fill up meanwhile, and back-pressure holds the stages before.
 *
 * Blocking instances open on their own threads, all at once; the caller's thread opens the others in the order of the
 * graph. Sources that cannot wait for the stages behind them come last but one. Sinks come last, since frames that
 * reach them are delivered: if any instance cannot be opened, no file has been touched but the trace's, and nothing was
 * delivered. Sources that wait for their turn, and the stages that work for them alone, open when all else is open
 * (turns.h). Deterministic: the caller's thread opens all, and in between all tasks that can run do. */
#include "engine/flow/start.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/open/open.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/resume.h"
#include "engine/flow/run.h"
#include "engine/flow/tracing.h"
#include "engine/flow/turns.h"

/* In the order of opening. */
typedef enum turn { AT_ONCE, IN_ORDER, LATE_SOURCES, SINKS } turn;

/* ---- order of opening ------------------------------------------------------------------------------------------ */

/* A source must not begin before all is open if its frames come at times of their own, or if a queue behind it would
 * drop them rather than block. */
static void find_late_sources(const mr_plan *plan, bool *late) {
    for (size_t v = 0; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        if (vertex->role == MR_ROLE_SOURCE)
            late[vertex->source] |= vertex->paced;
        for (size_t i = 0; i < vertex->source_count && vertex->policy != MR_POLICY_BLOCK; i++)
            late[vertex->sources[i]] = true;
    }
}

static turn turn_of(const mr_instance *instance, const bool *late) {
    if (!instance->self.type->outputs)
        return SINKS;
    if (instance->vertex->role == MR_ROLE_SOURCE && late[instance->self.source])
        return LATE_SOURCES;
    return instance->opening.opens_itself ? AT_ONCE : IN_ORDER;
}

/* ---- devices and threads --------------------------------------------------------------------------------------- */

/* The first stage on a device, for its place in the message. */
static const mr_plan_vertex *first_on(const mr_plan *plan, int device) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; i < mr_plan_parts(&plan->vertices[v]); i++)
            if (mr_plan_part(&plan->vertices[v], i) == device)
                return &plan->vertices[v];
    return &plan->vertices[0];
}

static int open_device(mr_graph *graph, int d) {
    const char *name = graph->plan->devices[d].name;
    int status = mr_device_open(&graph->devices[d], name, graph->seed, graph->seed != 0);
    if (status) {
        const mr_plan_vertex *vertex = first_on(graph->plan, d);
        return mr_fail(status, "%s: %s: %s", vertex->place, vertex->id, mr_message());
    }
    graph->devices[d]->trace = graph->trace;
    graph->devices[d]->trace_context = graph->trace_context;
    graph->reads_checked |= graph->devices[d]->type->host_reads != NULL;
    if (graph->devices[d]->type->kind != MR_DEVICE_CPU)
        mr_store_pin(graph->store, graph->devices[d]);
    bool simulated = graph->seed && graph->devices[d]->type->kind == MR_DEVICE_SIM;
    return simulated ? mr_executor_add_device(graph->executor, graph->devices[d]) : MR_OK;
}

static int open_devices(mr_graph *graph) {
    int status = MR_OK;
    for (int d = 0; !status && d < (int)graph->plan->device_count; d++)
        if (graph->plan->devices[d].used)
            status = open_device(graph, d);
    for (size_t i = 0; !status && i < graph->instance_count; i++)
        mr_instance_set_devices(graph->instances[i]);
    return status;
}

/* Nothing runs yet: no instance has been started. */
static int start_threads(mr_graph *graph, const bool *late) {
    for (size_t i = 0; !graph->seed && i < graph->instance_count; i++) {
        mr_instance *instance = graph->instances[i];
        if (!instance->vertex->blocking || instance->opening.waits)
            continue;
        instance->opening.opens_itself = turn_of(instance, late) == IN_ORDER && !mr_instance_delivers(instance);
        graph->opening += instance->opening.opens_itself;
        int status = mr_task_detach(&instance->entries[0].task, instance->self.id);
        if (status)
            return status;
    }
    return mr_executor_start(graph->executor);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int failure(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    int status = graph->open_status;
    pthread_mutex_unlock(&graph->lock);
    return status;
}

/* Waits until all threads have opened their instances. */
static int await_openings(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    while (graph->opening)
        pthread_cond_wait(&graph->changed, &graph->lock);
    int status = graph->open_status;
    pthread_mutex_unlock(&graph->lock);
    return status;
}

static int open_those(mr_graph *graph, turn now, const bool *late) {
    int status = failure(graph);
    for (size_t i = 0; !status && i < graph->instance_count; i++) {
        mr_instance *instance = graph->instances[i];
        if (instance->opening.waits || turn_of(instance, late) != now)
            continue;
        mr_graph_instance_opened(graph, instance, mr_instance_open(instance));
        status = failure(graph);
        if (!status && now == IN_ORDER && !mr_instance_delivers(instance))
            mr_instance_start(instance);
        if (!status && graph->seed)
            mr_executor_drive(graph->executor, mr_executor_now_ns(graph->executor));
    }
    return status;
}

static int open_all(mr_graph *graph, const bool *late) {
    for (size_t i = 0; i < graph->instance_count; i++)
        if (graph->instances[i]->opening.opens_itself)
            mr_instance_wake(graph->instances[i]);
    int status = open_those(graph, IN_ORDER, late);
    if (!status)
        status = await_openings(graph);
    if (!status)
        status = open_those(graph, LATE_SOURCES, late);
    return status ? status : open_those(graph, SINKS, late);
}

/* Lets the instances go that had to wait for all the others. */
static void let_all_go(mr_graph *graph) {
    for (size_t i = 0; i < graph->instance_count; i++)
        if (!graph->instances[i]->opening.waits &&
            !atomic_load_explicit(&graph->instances[i]->opening.ready, memory_order_relaxed))
            mr_instance_start(graph->instances[i]);
}

/* ---- giving up ------------------------------------------------------------------------------------------------- */

/* Calls never_opened for the ends of cuts that were not opened: nothing else ends their sources. */
static void end_unopened(mr_graph *graph) {
    for (size_t i = 0; i < graph->instance_count; i++) {
        const mr_stage_hooks *hooks = graph->instances[i]->self.type->hooks;
        if (hooks && hooks->never_opened && !graph->instances[i]->placement.states[0].opened)
            hooks->never_opened(graph->instances[i]);
    }
}

/* Ends a run that could not be opened: open instances are stopped at once, and the others only drop their inputs. */
static int give_up(mr_graph *graph) {
    mr_graph_stop(graph, true);
    int status = await_openings(graph);
    pthread_mutex_lock(&graph->lock);
    graph->status = status;
    memcpy(graph->message, graph->open_message, sizeof graph->message);
    pthread_mutex_unlock(&graph->lock);
    for (size_t i = 0; i < graph->instance_count; i++)
        if (!graph->instances[i]->opening.waits &&
            !atomic_load_explicit(&graph->instances[i]->opening.ready, memory_order_acquire))
            atomic_store(&graph->instances[i]->failed, true);
    end_unopened(graph);
    let_all_go(graph);
    mr_graph_wait(graph, -1);
    return mr_fail(status, "%s", graph->open_message);
}

/* Nothing has run, so nothing has to end. */
static int never_begin(mr_graph *graph, int status) {
    atomic_store(&graph->stopping, true);
    pthread_mutex_lock(&graph->lock);
    graph->running = 0;
    graph->status = status;
    snprintf(graph->message, sizeof graph->message, "%s", mr_message());
    pthread_cond_broadcast(&graph->changed);
    pthread_mutex_unlock(&graph->lock);
    return status;
}

/* ---- the start ------------------------------------------------------------------------------------------------- */

static void note_start(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    graph->started_ns = mr_clock_now_ns(mr_clock_real());
    graph->started_cpu_s = mr_process_cpu_s();
    pthread_mutex_unlock(&graph->lock);
}

/* Sinks have begun or continued their files, and nothing is delivered yet. */
static int begin_checkpoints(mr_graph *graph) {
    int status = mr_resume_begin(graph->resume);
    pthread_mutex_lock(&graph->lock);
    if (status && !graph->open_status) {
        graph->open_status = status;
        snprintf(graph->open_message, sizeof graph->open_message, "%s", mr_message());
    }
    pthread_mutex_unlock(&graph->lock);
    return status;
}

static int start(mr_graph *graph, const bool *late) {
    int status = mr_tracing_begin(graph);
    if (!status)
        status = open_devices(graph);
    if (!status)
        status = mr_tracing_watch_devices(graph);
    if (!status)
        status = start_threads(graph, late);
    if (status)
        return never_begin(graph, status);
    pthread_mutex_lock(&graph->lock);
    graph->started = true;
    pthread_mutex_unlock(&graph->lock);
    if (open_all(graph, late) || begin_checkpoints(graph))
        return give_up(graph);
    pthread_mutex_lock(&graph->lock);
    graph->started_allocations = mr_allocation_count();
    pthread_mutex_unlock(&graph->lock);
    let_all_go(graph);
    mr_turns_look(graph->turns);
    return MR_OK;
}

int mr_graph_start(mr_graph *graph) {
    note_start(graph);
    bool *late = mr_calloc(graph->plan->source_count + 1, sizeof *late);
    if (!late)
        return never_begin(graph, mr_fail(MR_ERROR_MEMORY, "no memory to start %s", graph->plan->name));
    find_late_sources(graph->plan, late);
    int status = start(graph, late);
    mr_free(late);
    return status;
}

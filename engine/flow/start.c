/* Instances work as soon as they are open: a decoder can decode while a network after it still loads. Links fill up,
 * and back-pressure stops the stages before them.
 *
 * Blocking instances open on their own threads, all at once; the caller's thread opens the others in graph order.
 * Sources that cannot wait for the stages after them open last but one. Sinks open last, since frames that reach them
 * are delivered: if any instance cannot open, only the trace file was touched and nothing was delivered. Sources that
 * wait, and stages that serve only them, open when everything else is open (source_jobs.h). In deterministic mode the
 * caller's thread opens all, and runs every task that can run in between. */
#include "engine/flow/start.h"

#include "engine/base/memory.h"
#include "engine/device/open/open.h"
#include "engine/flow/executor/drive.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/tracing.h"

/* In opening order. */
typedef enum phase { AT_ONCE, IN_ORDER, LATE_SOURCES, SINKS } phase;

/* ---- order of opening ------------------------------------------------------------------------------------------ */

/* A source must not begin before everything is open if it is paced, or if a queue after it would drop frames rather
 * than block. */
static void find_late_sources(const mr_plan *plan, bool *late) {
    for (size_t v = 0; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        if (vertex->role == MR_ROLE_SOURCE)
            late[vertex->source] |= vertex->offer.paced;
        for (size_t i = 0; i < vertex->source_count && vertex->handling.policy != MR_POLICY_BLOCK; i++)
            late[vertex->sources[i]] = true;
    }
}

static phase phase_of(const mr_instance *instance, const bool *late) {
    if (!instance->self.type->outputs)
        return SINKS;
    if (instance->vertex->role == MR_ROLE_SOURCE && late[instance->self.source])
        return LATE_SOURCES;
    return mr_opening_opens_itself(&instance->opening) ? AT_ONCE : IN_ORDER;
}

/* ---- devices and threads --------------------------------------------------------------------------------------- */

/* The first stage on a device: the message names that place. */
static const mr_plan_vertex *first_on(const mr_plan *plan, int device) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; i < mr_plan_parts(&plan->vertices[v]); i++)
            if (mr_plan_part(&plan->vertices[v], i) == device)
                return &plan->vertices[v];
    return &plan->vertices[0];
}

static int open_device(mr_graph *graph, int d) {
    mr_run *run = &graph->run;
    const char *name = run->plan->devices[d].name;
    mr_device *device;
    int status = mr_device_open(&device, name, run->seed, run->seed != 0);
    if (status) {
        const mr_plan_vertex *vertex = first_on(run->plan, d);
        return mr_fail(status, "%s: %s: %s", vertex->place, vertex->id, mr_message());
    }
    device->trace = graph->trace;
    device->trace_context = graph->trace_context;
    run->devices[d] = device;
    run->reads_checked |= device->type->host_reads != NULL;
    if (device->type->kind != MR_DEVICE_CPU)
        mr_store_pin(run->store, device);
    bool simulated = run->seed && device->type->kind == MR_DEVICE_SIM;
    return simulated ? mr_executor_add_device(run->executor, device) : MR_OK;
}

static int open_devices(mr_graph *graph) {
    const mr_plan *plan = graph->run.plan;
    int status = MR_OK;
    for (int d = 0; !status && d < (int)plan->device_count; d++)
        if (plan->devices[d].used)
            status = open_device(graph, d);
    for (size_t i = 0; !status && i < mr_wiring_count(graph->wiring); i++)
        mr_instance_set_devices(mr_wiring_at(graph->wiring, i));
    return status;
}

/* No instance has been started, so nothing runs yet. */
static int start_threads(mr_graph *graph, const bool *late) {
    int status = MR_OK;
    for (size_t i = 0; !status && !graph->run.seed && i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        if (!instance->vertex->calls.blocking || mr_opening_waits(&instance->opening))
            continue;
        if (phase_of(instance, late) == IN_ORDER && !mr_instance_delivers(instance))
            mr_instance_let_open_itself(instance);
        status = mr_instance_give_thread(instance);
    }
    return status ? status : mr_executor_start(graph->run.executor);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int open_one(mr_graph *graph, mr_instance *instance, phase now) {
    int status = mr_instance_open(instance);
    if (status)
        mr_ending_fail_start(graph->run.ending, status, "%s: %s: %s", instance->self.place, instance->self.id,
                         mr_message_or(status));
    status = mr_ending_start_status(graph->run.ending, false);
    if (!status && now == IN_ORDER && !mr_instance_delivers(instance))
        mr_instance_start(instance);
    if (!status && graph->run.seed)
        mr_executor_drive(graph->run.executor, mr_executor_now_ns(graph->run.executor));
    return status;
}

static int open_those(mr_graph *graph, phase now, const bool *late) {
    int status = mr_ending_start_status(graph->run.ending, false);
    for (size_t i = 0; !status && i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        if (!mr_opening_waits(&instance->opening) && phase_of(instance, late) == now)
            status = open_one(graph, instance, now);
    }
    return status;
}

static int open_all(mr_graph *graph, const bool *late) {
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++)
        if (mr_opening_opens_itself(&mr_wiring_at(graph->wiring, i)->opening))
            mr_instance_wake(mr_wiring_at(graph->wiring, i));
    int status = open_those(graph, IN_ORDER, late);
    if (!status)
        status = mr_ending_start_status(graph->run.ending, true);
    if (!status)
        status = open_those(graph, LATE_SOURCES, late);
    return status ? status : open_those(graph, SINKS, late);
}

/* Starts the instances that had to wait for all others. */
static void let_all_go(mr_graph *graph) {
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        if (!mr_opening_waits(&instance->opening) && !mr_opening_is_ready(&instance->opening))
            mr_instance_start(instance);
    }
}

/* ---- giving up ------------------------------------------------------------------------------------------------- */

/* Calls never_opened for unopened cut ends: nothing else ends their sources. */
static void end_unopened(mr_graph *graph) {
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        const mr_stage_hooks *hooks = instance->self.type->hooks;
        if (hooks && hooks->never_opened && !mr_instance_is_open(instance))
            hooks->never_opened(instance);
    }
}

/* Ends a run that could not open: stops open instances at once; the others only drop inputs. */
static int give_up(mr_graph *graph) {
    mr_run *run = &graph->run;
    mr_control_stop(run, true);
    mr_ending_start_status(run->ending, true);
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        if (!mr_opening_waits(&instance->opening) && !mr_opening_is_ready(&instance->opening))
            mr_instance_fail(instance);
    }
    end_unopened(graph);
    let_all_go(graph);
    mr_graph_wait(graph, -1);
    return mr_ending_start_status(run->ending, true);
}

/* Nothing has run, so nothing must end. */
static int never_begin(mr_graph *graph, int status) {
    mr_control_note_stop(&graph->run);
    mr_ending_fail_start(graph->run.ending, status, "%s", mr_message());
    mr_ending_give_up(graph->run.ending);
    return status;
}

/* ---- the start ------------------------------------------------------------------------------------------------- */

static int sync_sinks(void *context) {
    const mr_graph *graph = context;
    int status = MR_OK;
    for (size_t i = 0; !status && i < mr_wiring_count(graph->wiring); i++)
        status = mr_instance_sync(mr_wiring_at(graph->wiring, i));
    return status;
}

/* Sinks have started or continued their files, and nothing has been delivered yet. */
static int begin_checkpoints(mr_graph *graph) {
    int status = mr_resume_begin(graph->run.resume, sync_sinks, graph);
    if (status)
        mr_ending_fail_start(graph->run.ending, status, "%s", mr_message());
    return status;
}

static int start(mr_graph *graph, const bool *late) {
    mr_run *run = &graph->run;
    int status = graph->trace_path ? mr_tracing_begin(run, graph->wiring, graph->trace_path) : MR_OK;
    if (!status && graph->followed > 0)
        status = mr_tracing_follow(run, graph->wiring, graph->followed);
    if (!status)
        status = open_devices(graph);
    if (!status)
        status = mr_tracing_watch_devices(run);
    if (!status)
        status = start_threads(graph, late);
    if (status)
        return never_begin(graph, status);
    mr_source_slots_open(graph->slots);
    atomic_store(&graph->started, true);
    if (open_all(graph, late) || begin_checkpoints(graph))
        return give_up(graph);
    mr_ending_note_open(run->ending);
    let_all_go(graph);
    mr_source_jobs_look(graph->jobs);
    return MR_OK;
}

int mr_graph_start(mr_graph *graph) {
    const mr_plan *plan = graph->run.plan;
    int status = graph->resume_path ? mr_resume_create(&graph->run.resume, &graph->run, graph->resume_path) : MR_OK;
    if (status)
        return never_begin(graph, status);
    mr_ending_note_start(graph->run.ending);
    bool *late = mr_calloc(plan->source_count + 1, sizeof *late);
    if (!late)
        return never_begin(graph, mr_fail(MR_ERROR_MEMORY, "no memory to start %s", plan->name));
    find_late_sources(plan, late);
    status = start(graph, late);
    mr_free(late);
    return status;
}

#include "engine/flow/graph.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/log/repeats.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/placement.h"
#include "engine/flow/resume.h"
#include "engine/flow/run.h"
#include "engine/flow/seats.h"
#include "engine/flow/start.h"
#include "engine/flow/tracing.h"
#include "engine/flow/turns.h"

/* ---- making and ending ----------------------------------------------------------------------------------------- */

static int create_parts(mr_graph *graph) {
    const mr_plan *plan = graph->plan;
    graph->sources = mr_calloc(plan->source_count + 1, sizeof *graph->sources);
    graph->subscriptions = mr_calloc(plan->vertex_count + 1, sizeof *graph->subscriptions);
    graph->devices = mr_calloc(plan->device_count, sizeof(mr_device *));
    if (!graph->sources || !graph->subscriptions || !graph->devices)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    int status = mr_executor_create(&graph->executor, plan->workers, graph->seed);
    if (!status)
        mr_executor_busy_poll(graph->executor, plan->busy_poll_ns);
    if (!status)
        status = mr_store_create(&graph->store);
    if (!status)
        status = mr_ledger_create(&graph->ledger, plan->source_count);
    if (!status)
        status = mr_graph_wire(graph);
    if (!status)
        status = mr_seats_create(graph);
    if (!status)
        status = mr_turns_create(&graph->turns, graph);
    for (size_t i = 0; !status && i < plan->source_count; i++)
        mr_task_init(&graph->sources[i].room, graph->executor, mr_graph_tell_room, graph);
    graph->running = graph->instance_count;
    return status;
}

int mr_graph_create(mr_graph **graph, const mr_plan *plan, uint64_t seed) {
    mr_graph *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    made->plan = plan;
    made->seed = seed;
    atomic_init(&made->tally_vertex, -1);
    pthread_mutex_init(&made->report_lock, NULL);
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    int status = mr_run_state_create(made);
    if (!status)
        status = create_parts(made);
    if (status)
        mr_graph_destroy(&made);
    else
        *graph = made;
    return status;
}

/* Ends the tasks' threads, beside each other, before the state they use is destroyed. */
static void end_tasks(mr_graph *graph) {
    if (!graph->executor)
        return;
    mr_executor_stop(graph->executor);
    for (size_t i = 0; i < graph->instance_count; i++)
        for (size_t e = 0; e < graph->instances[i]->entry_count; e++)
            mr_task_ask_thread_to_end(&graph->instances[i]->entries[e].task);
    for (size_t i = 0; i < graph->instance_count; i++)
        for (size_t e = 0; e < graph->instances[i]->entry_count; e++)
            mr_task_fini(&graph->instances[i]->entries[e].task);
    for (size_t i = 0; graph->sources && i < graph->plan->source_count; i++)
        mr_task_fini(&graph->sources[i].room);
    mr_turns_destroy(&graph->turns);
}

static void destroy_sources(mr_graph *graph) {
    for (size_t i = 0; graph->sources && i < graph->plan->source_count; i++) {
        mr_free(graph->sources[i].message);
        mr_tally_fini(&graph->sources[i].tally);
    }
    mr_free(graph->sources);
}

static void destroy_devices(mr_graph *graph) {
    for (size_t d = 0; graph->devices && d < graph->plan->device_count; d++)
        mr_device_destroy(&graph->devices[d]);
    mr_free(graph->devices);
}

void mr_graph_destroy(mr_graph **graph) {
    mr_graph *gone = *graph;
    if (!gone)
        return;
    if (gone->started && mr_graph_wait(gone, 0) == MR_ERROR_AGAIN) {
        mr_graph_stop(gone, true);
        mr_graph_wait(gone, -1);
    }
    end_tasks(gone);
    mr_tracing_end(gone);
    mr_resume_destroy(&gone->resume);
    mr_graph_unwire(gone);
    mr_run_state_destroy(gone); /* sinks ask it as they close */
    mr_seats_destroy(gone);
    destroy_sources(gone);
    mr_tracing_destroy(gone);
    destroy_devices(gone);
    mr_free(gone->trace_path);
    mr_free(gone->resume_path);
    mr_free(gone->subscriptions);
    mr_ledger_release(&gone->ledger);
    mr_store_release(&gone->store);
    mr_names_destroy(&gone->names);
    mr_executor_destroy(&gone->executor);
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    pthread_mutex_destroy(&gone->report_lock);
    mr_free(gone);
    *graph = NULL;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static bool has_subscriber(const mr_graph *graph) {
    for (size_t v = 0; v < graph->plan->vertex_count; v++)
        if (graph->subscriptions[v].function)
            return true;
    return false;
}

/* Every frame must be accounted for once all has ended; only a program that subscribes may still hold some. */
static int balance_of(mr_graph *graph, uint32_t source, bool arrived) {
    mr_ledger_account count;
    mr_ledger_read(graph->ledger, source, arrived, &count);
    mr_free(count.lines);
    uint64_t known = count.delivered + count.dropped + count.absorbed;
    if (!count.unaccounted && (count.in == known || has_subscriber(graph)))
        return MR_OK;
    char names[512];
    mr_identities_print(count.unsettled, count.unsettled_count, count.in - known, names, sizeof names);
    return mr_fail(MR_ERROR_INTERNAL,
                   "the ledger of %s does not balance: %llu frames in%s, %llu accounted for; missing: %s",
                   graph->plan->vertices[source].id, (unsigned long long)count.in,
                   arrived ? " from other nodes" : "", (unsigned long long)known, names);
}

static int balance(mr_graph *graph) {
    int status = MR_OK;
    for (uint32_t s = 0; !status && s < graph->plan->source_count; s++) {
        status = balance_of(graph, s, false);
        if (!status)
            status = balance_of(graph, s, true);
    }
    uint64_t missing = graph->departed ? mr_departed_unaccounted(graph->departed) : 0;
    if (!status && missing)
        status = mr_fail(MR_ERROR_INTERNAL, "the ledger does not balance: %llu frames of sources that were removed are "
                         "not accounted for", (unsigned long long)missing);
    return status;
}

static int outcome(mr_graph *graph) {
    mr_log_settle();
    pthread_mutex_lock(&graph->lock);
    int status = graph->status;
    char message[sizeof graph->message];
    memcpy(message, graph->message, sizeof message);
    pthread_mutex_unlock(&graph->lock);
    int traced = mr_tracing_end(graph), saved = mr_resume_end(graph->resume);
    int balanced = status ? mr_fail(status, "%s", message) : balance(graph);
    if (!balanced && traced)
        return mr_tracing_end(graph);
    return balanced || !saved ? balanced : mr_resume_end(graph->resume);
}

static bool has_ended(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    bool ended = graph->running == 0;
    pthread_mutex_unlock(&graph->lock);
    return ended;
}

/* Deterministic: the caller's thread is the executor. */
static int drive(mr_graph *graph, int64_t timeout_ns) {
    int64_t until = timeout_ns < 0 ? INT64_MAX : mr_executor_now_ns(graph->executor) + timeout_ns;
    bool more = mr_executor_drive(graph->executor, until);
    if (has_ended(graph))
        return outcome(graph);
    if (!more && timeout_ns < 0)
        return mr_fail(MR_ERROR_INTERNAL, "deadlock: %zu stages wait for input",
                       graph->running);
    return MR_ERROR_AGAIN;
}

int mr_graph_wait(mr_graph *graph, int64_t timeout_ns) {
    if (graph->seed)
        return drive(graph, timeout_ns);
    struct timespec until = mr_graph_deadline(timeout_ns);
    pthread_mutex_lock(&graph->lock);
    while (graph->running > 0) {
        if (timeout_ns < 0)
            pthread_cond_wait(&graph->changed, &graph->lock);
        else if (pthread_cond_timedwait(&graph->changed, &graph->lock, &until))
            break;
    }
    bool ended = graph->running == 0;
    pthread_mutex_unlock(&graph->lock);
    return ended ? outcome(graph) : MR_ERROR_AGAIN;
}

/* ---- enabling devices ------------------------------------------------------------------------------------------ */

/* Under the lock, so that two devices that are disabled at once do not both leave a stage to the other. */
int mr_graph_enable_device(mr_graph *graph, const mr_device *device, bool enabled) {
    const mr_instance *needs = NULL;
    pthread_mutex_lock(&graph->lock);
    for (size_t i = 0; i < graph->instance_count && !enabled && !needs; i++)
        if (!mr_instance_can_spare(graph->instances[i], device))
            needs = graph->instances[i];
    for (size_t i = 0; i < graph->instance_count && !needs; i++)
        mr_instance_enable(graph->instances[i], device, enabled);
    pthread_mutex_unlock(&graph->lock);
    atomic_fetch_add(&graph->news, 1);
    if (needs)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s cannot be disabled: %s (%s) has no other device to work on",
                       device->name, needs->self.id, needs->self.place);
    return MR_OK;
}

int mr_graph_trigger(mr_graph *graph, const char *id) {
    size_t triggered = 0;
    pthread_mutex_lock(&graph->lock);
    for (size_t i = 0; i < graph->instance_count; i++)
        triggered += mr_instance_trigger(graph->instances[i], id) ? 1 : 0;
    pthread_mutex_unlock(&graph->lock);
    if (triggered)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "\"%s\" is neither a stage that can be triggered nor a source of one", id);
}

/* ---- frames from the program ------------------------------------------------------------------------------------- */

/* Of sources that come and go, the place may have another one by now. With the lock. */
static bool takes_frames(const mr_graph *graph, uint32_t source, const char *id) {
    const mr_source_state *state = &graph->sources[source];
    return !graph->departed ||
           (state->phase == MR_SOURCE_HERE && !state->pushed_end && graph->plan->vertices[source].id == id);
}

void mr_graph_end_pushes(mr_graph *graph, uint32_t source, const char *id) {
    pthread_mutex_lock(&graph->lock);
    /* Else the end would be that of the next source of the place. */
    if (takes_frames(graph, source, id))
        mr_graph_push_end(graph, source);
    pthread_mutex_unlock(&graph->lock);
}

int mr_graph_push(mr_graph *graph, uint32_t source, const char *id, mr_frame *frame, int64_t timeout_ns) {
    mr_source_state *state = &graph->sources[source];
    mr_item item = {.kind = MR_ITEM_FRAME, .source = source, .frame = frame};
    struct timespec until = mr_graph_deadline(timeout_ns);
    for (;;) {
        if (atomic_load(&graph->stopping))
            return mr_fail(MR_ERROR_CANCELLED, "the pipeline is stopping");
        item.entered_ns = mr_executor_now_ns(graph->executor);
        pthread_mutex_lock(&graph->lock);
        bool gone = !takes_frames(graph, source, id);
        bool pushed = !gone && mr_link_push(mr_graph_external_inlet(graph, source), &item, &state->room);
        /* The room task needs the graph's lock to signal, so it cannot do so before the wait begins. */
        int timed_out = 0;
        if (!pushed && !gone && timeout_ns != 0 && !graph->seed) {
            if (timeout_ns < 0)
                pthread_cond_wait(&graph->changed, &graph->lock);
            else
                timed_out = pthread_cond_timedwait(&graph->changed, &graph->lock, &until);
        }
        pthread_mutex_unlock(&graph->lock);
        if (pushed)
            return MR_OK;
        if (gone)
            return mr_fail(MR_ERROR_CANCELLED, "the source %s has ended, or was removed", id);
        if (graph->seed && timeout_ns != 0 && mr_executor_drive(graph->executor, item.entered_ns))
            continue;
        if (timed_out || timeout_ns == 0 || graph->seed)
            return mr_fail(MR_ERROR_AGAIN, "%s has no room", id);
    }
}

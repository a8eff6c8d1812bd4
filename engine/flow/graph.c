#include "engine/flow/graph.h"

#include "engine/base/log/repeats.h"
#include "engine/base/memory.h"
#include "engine/flow/executor/drive.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deadline.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/run/run_states.h"
#include "engine/flow/run/source_counts.h"
#include "engine/flow/run/intact.h"
#include "engine/flow/run/services.h"
#include "engine/flow/run/taps.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/step.h"
#include "engine/flow/tracing.h"

/* Words from other nodes: stage ids, labels and reasons. */
enum { MOST_NAMES = 65536, MOST_NAME_BYTES = 16 << 20 };

/* ---- making and ending ----------------------------------------------------------------------------------------- */

/* Wakes everything that must end. Before the start there are no threads to wake; the start checks the flags. */
static void pass_stop_on(void *context) {
    mr_graph *graph = context;
    for (uint32_t s = 0; s < graph->run.plan->source_count; s++)
        if (mr_wiring_source(graph->wiring, s) && graph->run.plan->vertices[s].type->external)
            mr_source_end_pushes(graph->slots, s, NULL);
    const bool started = atomic_load(&graph->started);
    for (size_t i = 0; started && i < mr_wiring_count(graph->wiring); i++) {
        mr_instance *instance = mr_wiring_at(graph->wiring, i);
        if (!mr_opening_has_begun(&instance->opening))
            continue;
        mr_instance_tell_stop(instance);
        mr_instance_wake_all(instance);
    }
    if (started)
        mr_source_jobs_look(graph->jobs);
    mr_sources_lock(graph->run.sources);
    mr_sources_announce(graph->run.sources);
    mr_sources_unlock(graph->run.sources);
}

static int create_run(mr_graph *graph, const mr_graph_params *params) {
    mr_run *run = &graph->run;
    const mr_plan *plan = run->plan;
    run->devices = mr_calloc(plan->device_count, sizeof(mr_device *));
    if (!run->devices)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    int status = mr_executor_create(&run->executor, plan->workers, run->seed);
    if (!status)
        mr_executor_busy_poll(run->executor, plan->busy_poll_ns);
    if (!status)
        status = mr_store_create(&run->store);
    if (!status)
        status = mr_ledger_create(&run->ledger, plan->source_count);
    if (!status && plan->cut_count)
        status = mr_names_create(&run->names, MOST_NAMES, MOST_NAME_BYTES);
    if (!status)
        status = mr_control_create(&run->control, pass_stop_on, graph);
    if (!status)
        status = mr_ending_create(&run->ending);
    if (!status)
        status = mr_sources_create(&run->sources, plan, params->quiet_sources);
    if (!status)
        status = mr_source_counts_create(&run->counts, plan->source_count);
    if (!status)
        status = mr_deliveries_create(&run->deliveries, plan);
    if (!status)
        status = mr_taps_create(&run->taps, plan);
    if (!status)
        status = mr_services_create(&run->services, plan->vertex_count);
    if (!status && params->check_stages)
        status = mr_intact_create(&run->intact);
    if (!status)
        status = mr_run_id_make(&run->id);
    run->incarnation = (uint64_t)mr_clock_date_ns();
    if (!status)
        status = mr_deadlines_create(run);
    return status ? status : mr_run_state_create(run);
}

static int keep_path(const char *path, char **kept) {
    return !path || (*kept = mr_strdup(path)) ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a pipeline");
}

static int create_parts(mr_graph *graph, const mr_graph_params *params) {
    int status = create_run(graph, params);
    if (!status)
        status = mr_wiring_create(&graph->wiring, &graph->run, mr_instance_run);
    if (!status)
        status = mr_source_jobs_create(&graph->jobs, &graph->run, graph->wiring);
    if (!status)
        status = mr_source_slots_create(&graph->slots, &graph->run, graph->wiring, graph->jobs);
    if (!status)
        status = keep_path(params->trace, &graph->trace_path);
    if (!status)
        status = keep_path(params->resume, &graph->resume_path);
    if (!status)
        mr_ending_hold(graph->run.ending, mr_wiring_count(graph->wiring));
    return status;
}

int mr_graph_create(mr_graph **graph, const mr_plan *plan, const mr_graph_params *params) {
    mr_graph *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    made->run.plan = plan;
    made->run.seed = params->seed;
    made->run.profiled = params->profiled;
    int status = create_parts(made, params);
    if (status)
        mr_graph_destroy(&made);
    else
        *graph = made;
    return status;
}

static void destroy_devices(mr_run *run) {
    for (size_t d = 0; run->devices && d < run->plan->device_count; d++) {
        mr_device *device = run->devices[d];
        mr_device_destroy(&device);
    }
    mr_free(run->devices);
}

/* Users go before what they use. */
static void destroy_run(mr_run *run) {
    mr_run_state_destroy(run); /* sinks ask for it while they close */
    mr_deadlines_destroy(run);
    mr_intact_destroy(&run->intact);
    mr_services_destroy(&run->services);
    mr_taps_destroy(&run->taps);
    mr_deliveries_destroy(&run->deliveries);
    mr_source_counts_destroy(&run->counts);
    mr_sources_destroy(&run->sources);
    mr_tracing_destroy(run);
    mr_tracing_unfollow(run);
    destroy_devices(run);
    mr_ledger_release(&run->ledger);
    mr_store_release(&run->store);
    mr_names_destroy(&run->names);
    mr_ending_destroy(&run->ending);
    mr_control_destroy(&run->control);
    mr_executor_destroy(&run->executor);
}

void mr_graph_destroy(mr_graph **graph) {
    mr_graph *gone = *graph;
    if (!gone)
        return;
    if (atomic_load(&gone->started) && mr_graph_wait(gone, 0) == MR_ERROR_AGAIN) {
        mr_control_stop(&gone->run, true);
        mr_graph_wait(gone, -1);
    }
    /* The threads must end before the state that they use is destroyed. */
    if (gone->run.executor)
        mr_executor_stop(gone->run.executor);
    if (gone->wiring)
        mr_wiring_end_tasks(gone->wiring);
    mr_source_jobs_destroy(&gone->jobs);
    mr_tracing_end(&gone->run);
    mr_resume_destroy(&gone->run.resume);
    mr_wiring_destroy(&gone->wiring);
    mr_source_slots_destroy(&gone->slots);
    mr_free(gone->trace_path);
    mr_free(gone->resume_path);
    destroy_run(&gone->run);
    mr_free(gone);
    *graph = NULL;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* At the end every frame must be accounted for; only a subscribed program may still hold some. */
static int balance_of(mr_graph *graph, uint32_t source, mr_ledger_page page) {
    static const char *const counted[] = {"frames in", "frames in from other nodes", "objects in",
                                          "objects in from other nodes"};
    mr_ledger_account count;
    mr_ledger_read(graph->run.ledger, source, page, &count);
    mr_free(count.lines);
    uint64_t known = count.delivered + count.dropped + count.absorbed;
    if (!count.unaccounted && (count.in == known || mr_deliveries_are_watched(&graph->run)))
        return MR_OK;
    char names[512];
    mr_identities_print(count.unsettled, count.unsettled_count, count.in - known, names, sizeof names);
    return mr_fail(MR_ERROR_INTERNAL,
                   "the ledger of %s does not balance: %llu %s, %llu accounted for: a stage took the others "
                   "and neither emitted, dropped nor absorbed them: %s",
                   graph->run.plan->vertices[source].id, (unsigned long long)count.in, counted[page],
                   (unsigned long long)known, names);
}

static int balance(mr_graph *graph) {
    int status = MR_OK;
    for (uint32_t s = 0; s < graph->run.plan->source_count; s++)
        for (int page = 0; !status && page < MR_LEDGER_PAGES; page++)
            status = balance_of(graph, s, (mr_ledger_page)page);
    uint64_t missing = mr_source_slots_unaccounted(graph->slots);
    if (!status && missing)
        status = mr_fail(MR_ERROR_INTERNAL, "the ledger does not balance: %llu frames of sources that were removed are "
                         "not accounted for", (unsigned long long)missing);
    return status;
}

static int outcome(mr_graph *graph) {
    mr_run *run = &graph->run;
    mr_log_settle();
    int traced = mr_tracing_end(run), saved = mr_resume_end(run->resume);
    int status = mr_ending_outcome(run->ending);
    int balanced = status ? status : balance(graph);
    if (!balanced && traced)
        return mr_tracing_end(run);
    return balanced || !saved ? balanced : mr_resume_end(run->resume);
}

/* Deterministic mode: the caller's thread is the executor. */
static int drive(mr_graph *graph, int64_t timeout_ns) {
    mr_executor *executor = graph->run.executor;
    int64_t until = timeout_ns < 0 ? INT64_MAX : mr_executor_now_ns(executor) + timeout_ns;
    bool more = mr_executor_drive(executor, until);
    const size_t left = mr_ending_wait(graph->run.ending, 0);
    if (!left)
        return outcome(graph);
    if (!more && timeout_ns < 0)
        return mr_fail(MR_ERROR_INTERNAL, "deadlock: %zu stages wait for input", left);
    return MR_ERROR_AGAIN;
}

int mr_graph_wait(mr_graph *graph, int64_t timeout_ns) {
    if (graph->run.seed)
        return drive(graph, timeout_ns);
    return mr_ending_wait(graph->run.ending, timeout_ns) ? MR_ERROR_AGAIN : outcome(graph);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* The lock is needed: two devices disabled at once must not each leave a stage to the other. */
int mr_graph_enable_device(mr_graph *graph, const mr_device *device, bool enabled) {
    const mr_wiring *wiring = graph->wiring;
    const mr_instance *needs = NULL;
    int status = MR_OK;
    mr_sources_lock(graph->run.sources);
    for (size_t i = 0; i < mr_wiring_count(wiring) && !enabled && !needs; i++)
        if (!mr_shares_can_spare(&mr_wiring_at(wiring, i)->shares, device))
            needs = mr_wiring_at(wiring, i);
    for (size_t i = 0; i < mr_wiring_count(wiring) && !needs; i++)
        mr_shares_enable(&mr_wiring_at(wiring, i)->shares, device, enabled);
    if (needs) /* A source that leaves takes its names along. */
        status = mr_fail(MR_ERROR_UNAVAILABLE, "%s cannot be disabled: %s (%s) has no other device to work on",
                         device->name, needs->self.id, needs->self.place);
    mr_sources_unlock(graph->run.sources);
    mr_control_note_change(&graph->run);
    return status;
}

/* The lock is needed, since sources may come and go. */
int mr_graph_trigger(mr_graph *graph, const char *id) {
    size_t triggered = 0;
    mr_sources_lock(graph->run.sources);
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++)
        triggered += mr_instance_trigger(mr_wiring_at(graph->wiring, i), id) ? 1 : 0;
    mr_sources_unlock(graph->run.sources);
    if (triggered)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "\"%s\" is neither a stage that can be triggered nor a source of one", id);
}

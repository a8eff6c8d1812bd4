/* Reads a summary from the running graph. */
#include <sched.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/graph.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/services.h"
#include "engine/flow/run/sources.h"
#include "engine/pipeline/pipeline.h"

const char *mr_version(void) {
    return MILLRACE_VERSION;
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

static void add_instance(const mr_instance *instance, mr_stage_summary *summary, mr_histogram_sums *latency) {
    for (size_t e = 0; e < instance->entry_count; e++)
        mr_meter_read(&instance->entries[e].meter, summary, latency);
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        int most_frames;
        summary->queued += mr_link_frames(mr_inlets_link(&instance->inlets, port), &most_frames);
        summary->queue_peak = most_frames > summary->queue_peak ? most_frames : summary->queue_peak;
    }
}

/* Adds each device's share of an instance's work. */
static void add_shares(const mr_instance *instance, mr_stage_summary *summary) {
    for (size_t i = 0; i < summary->share_count; i++)
        mr_shares_read(&instance->shares, i, &summary->shares[i]);
}

static void begin_shares(const mr_graph *graph, const mr_plan_vertex *vertex, mr_stage_summary *summary) {
    size_t parts = mr_plan_parts(vertex);
    bool none = vertex->copy || (parts == 1 && vertex->devices.at[0] == 0);
    summary->shares = none ? NULL : mr_calloc(parts, sizeof *summary->shares);
    summary->share_count = summary->shares ? parts : 0;
    for (size_t i = 0; i < summary->share_count; i++) {
        summary->shares[i].device = graph->run.plan->devices[mr_plan_part(vertex, i)].name;
        summary->shares[i].state = i < vertex->devices.count ? MR_DEVICE_WORKS : MR_DEVICE_RESERVED;
    }
}

/* Sums up all instances of one vertex, which are contiguous from `first`. Returns how many. */
static size_t summarize_stage(const mr_graph *graph, size_t vertex, size_t first, mr_stage_summary *summary) {
    const mr_plan_vertex *planned = &graph->run.plan->vertices[vertex];
    mr_histogram_sums latency = {0};
    size_t count = 0;
    *summary = (mr_stage_summary){.id = planned->id,
                                  .type = planned->type->name,
                                  .device = planned->devices.names,
                                  .is_source = planned->role == MR_ROLE_SOURCE};
    summary->service = mr_services_read(graph->run.services, vertex);
    summary->untaken = mr_services_untaken(graph->run.services, vertex);
    begin_shares(graph, planned, summary);
    for (size_t i = first; i < mr_wiring_count(graph->wiring) && mr_wiring_at(graph->wiring, i)->vertex == planned;
         i++, count++) {
        add_instance(mr_wiring_at(graph->wiring, i), summary, &latency);
        add_shares(mr_wiring_at(graph->wiring, i), summary);
    }
    summary->instances = (int)count;
    summary->p50_ns = mr_histogram_percentile(&latency, 0.5);
    summary->p99_ns = mr_histogram_percentile(&latency, 0.99);
    mr_histogram_publish(&latency, &summary->latency);
    return count;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

/* With several nodes, each must report the stages it runs and the sources whose frames reach it. */
static void mark_sources(const mr_plan *plan, bool *come) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; mr_plan_is_here(plan, &plan->vertices[v]) && i < plan->vertices[v].source_count; i++)
            come[plan->vertices[v].sources[i]] = true;
}

/* Takes ownership of the account. */
static void add_source(mr_summary *summary, const mr_source_summary *source) {
    summary->sources[summary->source_count++] = *source;
    summary->in += source->in;
    summary->delivered += source->delivered;
    summary->dropped += source->dropped;
    summary->absorbed += source->absorbed;
    summary->in_flight += source->in_flight;
    summary->balanced &= source->unaccounted == 0;
    for (size_t i = 0; i < source->line_count; i++)
        mr_ledger_lines_add(&summary->lines, &summary->line_count, &source->lines[i]);
    summary->balanced &= source->objects.unaccounted == 0;
    mr_objects_add(&summary->objects, &source->objects);
}

static int64_t threads_cpu_ns(const mr_graph *graph) {
    int64_t sum = mr_executor_cpu_ns(graph->run.executor);
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++)
        sum += mr_task_cpu_ns(&mr_wiring_at(graph->wiring, i)->entries[0].task);
    return sum;
}

static void summarize_memory(const mr_graph *graph, mr_summary *summary) {
    for (size_t d = 0; d < graph->run.plan->device_count; d++) {
        const mr_device *device = graph->run.devices[d];
        if (!device)
            continue;
        summary->host_bytes += mr_device_most_bytes(device, MR_MEMORY_HOST);
        summary->pinned_bytes += mr_device_most_bytes(device, MR_MEMORY_PINNED);
        summary->shared_bytes += mr_device_most_bytes(device, MR_MEMORY_SHARED);
        if (d > 0)
            summary->devices[summary->device_count++] =
                (mr_device_summary){graph->run.plan->devices[d].name, mr_device_most_bytes(device, MR_MEMORY_DEVICE),
                                    mr_device_held_bytes(device, MR_MEMORY_DEVICE)};
    }
}

static void summarize_run(const mr_graph *graph, mr_summary *summary) {
    const mr_run *run = &graph->run;
    mr_histogram_sums latency = {0};
    const int64_t first_ns = mr_deliveries_read(run, &latency);
    const mr_run_times times = mr_ending_times(run->ending);
    int64_t until = times.ended_ns ? times.ended_ns : mr_now_ns();
    double cpu = times.ended_ns ? times.ended_cpu_s : mr_process_cpu_s();
    summary->wall_s = (double)(until - times.started_ns) * 1e-9;
    summary->cpu_s = cpu - times.started_cpu_s;
    summary->allocations = mr_allocation_count() - times.allocations;
    if (run->spans)
        mr_spans_count(run->spans, &summary->spans.ended, &summary->spans.lost);
    summary->first_s = first_ns && !run->seed ? (double)(first_ns - times.started_ns) * 1e-9 : 0;
    int64_t asked_ns = mr_control_stop_ns(run);
    if (asked_ns && !times.ended_ns && !mr_control_is_cancelled(run))
        summary->draining_ns = until - asked_ns;
    summary->threads_cpu_s = run->profiled ? (double)threads_cpu_ns(graph) * 1e-9 : 0;
    summary->peak_bytes = mr_process_peak_bytes();
    summary->latency_p50_ns = mr_histogram_percentile(&latency, 0.5);
    summary->latency_p99_ns = mr_histogram_percentile(&latency, 0.99);
    mr_histogram_publish(&latency, &summary->latency);
}

/* With the lock. */
static void summarize_sources(const mr_graph *graph, const bool *come, mr_summary *summary) {
    for (uint32_t s = 0; s < graph->run.plan->source_count; s++) {
        mr_source_summary account;
        if (come[s] && mr_source_slot_account(graph->slots, s, &account))
            add_source(summary, &account);
    }
}

/* Adds removed sources, oldest first. With the lock. */
static void summarize_retired(const mr_graph *graph, size_t room, mr_summary *summary) {
    mr_source_summary account;
    for (size_t i = 0; summary->source_count < room && mr_source_retired_account(graph->slots, i, &account); i++)
        add_source(summary, &account);
}

/* Whether the vertex is a vacant slot. With the lock. */
static bool is_vacant(const mr_graph *graph, size_t vertex) {
    return vertex < graph->run.plan->source_count && mr_source_slot_is_vacant(graph->slots, (uint32_t)vertex);
}

/* With the lock. */
static void summarize_stages(const mr_graph *graph, mr_summary *summary) {
    const mr_plan *plan = graph->run.plan;
    for (size_t v = 0, instance = 0; v < plan->vertex_count; v++) {
        if (!mr_plan_is_here(plan, &plan->vertices[v]))
            continue;
        if (is_vacant(graph, v))
            instance++;
        else
            instance += summarize_stage(graph, v, instance, &summary->stages[summary->stage_count++]);
    }
}

static uint64_t read_count(const _Atomic uint64_t *count) {
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void summarize_cuts(const mr_graph *graph, mr_summary *summary) {
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++) {
        const mr_instance *instance = mr_wiring_at(graph->wiring, i);
        const mr_cut_tally *tally = &instance->cut;
        if (mr_plan_cut_of(instance->vertex))
            summary->cuts[summary->cut_count++] = (mr_cut_summary){
                .id = instance->vertex->id,
                .frames = read_count(&tally->frames),
                .again = read_count(&tally->again),
                .set_aside = read_count(&tally->set_aside),
                .sessions = read_count(&tally->sessions),
                .peers = read_count(&tally->peers),
                .absent = read_count(&tally->absent) != 0,
                .stale = read_count(&tally->stale),
                .malformed = read_count(&tally->malformed),
                .rejected = read_count(&tally->rejected),
                .refused = read_count(&tally->refused),
            };
    }
}

/* A summary with a reference count. */
typedef struct shared_summary {
    mr_summary summary; /* must be first */
    atomic_int holders;
} shared_summary;

static shared_summary *shared_of(mr_summary *summary) {
    return (shared_summary *)(void *)summary;
}

static mr_summary *create(const mr_plan *plan, size_t sources) {
    shared_summary *shared = mr_calloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    atomic_init(&shared->holders, 1);
    mr_summary *made = &shared->summary;
    made->pipeline = plan->name;
    made->digest = plan->spec->digest;
    made->balanced = true;
    made->most_sources = plan->spec->most_sources;
    made->sources = mr_calloc(sources + 1, sizeof *made->sources);
    made->stages = mr_calloc(plan->vertex_count + 1, sizeof *made->stages);
    made->cuts = mr_calloc(2 * plan->cut_count + 1, sizeof *made->cuts);
    made->devices = mr_calloc(plan->device_count, sizeof *made->devices);
    made->forced = mr_calloc(plan->vertex_count + 1, sizeof *made->forced);
    for (size_t v = 0; v < plan->vertex_count && made->forced; v++)
        if (plan->vertices[v].remarks.forced)
            made->forced[made->forced_count++] =
                (mr_forced_summary){plan->vertices[v].id, plan->vertices[v].remarks.anywhere};
    if (!made->sources || !made->stages || !made->cuts || !made->devices || !made->forced)
        mr_summary_destroy(&made);
    return made;
}

static bool is_over(const mr_graph *graph) {
    return mr_ending_times(graph->run.ending).ended_ns;
}

/* After the run has ended, workers add their last calls' times as they leave the stages, a moment after the last frame.
 * Gives up if a call hangs. */
static void settle(const mr_graph *graph) {
    const int64_t until_ns = mr_now_ns() + INT64_C(100000000);
    for (size_t i = 0; i < mr_wiring_count(graph->wiring); i++)
        for (size_t e = 0; e < mr_wiring_at(graph->wiring, i)->entry_count; e++)
            while (!mr_meter_is_settled(&mr_wiring_at(graph->wiring, i)->entries[e].meter) &&
                   mr_now_ns() < until_ns)
                sched_yield();
}

static int summarize(const mr_pipeline *pipeline, mr_summary **summary) {
    mr_graph *graph = pipeline->graph;
    if (!graph)
        return mr_fail(MR_ERROR_USAGE, "a pipeline that was opened offline has no summary");
    /* Asked before the sources' accounts are read: the run may end after that, with the frames that they call in
     * flight delivered. */
    const bool over = is_over(graph);
    if (over)
        settle(graph);
    bool *come = mr_calloc(graph->run.plan->source_count + 1, sizeof *come);
    size_t room = graph->run.plan->source_count + (mr_plan_changes(graph->run.plan) ? MR_MOST_RETIRED + 1 : 0);
    mr_summary *made = come ? create(graph->run.plan, room) : NULL;
    if (!made) {
        mr_free(come);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a summary");
    }
    mark_sources(graph->run.plan, come);
    summarize_run(graph, made);
    summarize_memory(graph, made);
    /* Once for all: sources may come and go, and each must be counted once. */
    mr_sources_lock(graph->run.sources);
    summarize_retired(graph, room, made);
    summarize_sources(graph, come, made);
    /* As mr_graph_wait sees it. */
    if (over && made->in_flight && !mr_deliveries_are_watched(&graph->run))
        made->balanced = false;
    summarize_stages(graph, made);
    mr_sources_unlock(graph->run.sources);
    summarize_cuts(graph, made);
    mr_free(come);
    *summary = made;
    return MR_OK;
}

/* Logs what it finds. The program's function for log lines may ask for a summary in turn, so no lock may be held. */
static void find_hangs(const mr_pipeline *pipeline) {
    if (pipeline->graph)
        mr_sources_find_hangs(&pipeline->graph->run);
}

int mr_pipeline_summarize(mr_pipeline *pipeline, mr_summary **summary) {
    find_hangs(pipeline);
    return summarize(pipeline, summary);
}

/* With the lock. */
static int renew(mr_pipeline *pipeline, int64_t now_ns, uint64_t news, bool last) {
    mr_summary *made;
    int status = summarize(pipeline, &made);
    if (status)
        return status;
    mr_summary_destroy(&pipeline->snapshot);
    pipeline->snapshot = made;
    pipeline->snapshot_ns = now_ns;
    pipeline->snapshot_news = news;
    pipeline->snapshot_last = last;
    return MR_OK;
}

int mr_pipeline_snapshot(mr_pipeline *pipeline, int64_t age_ns, mr_summary **summary) {
    int status = MR_OK;
    find_hangs(pipeline);
    MR_LOCKED(&pipeline->snapshot_lock);
    const int64_t now_ns = mr_now_ns();
    const uint64_t news = pipeline->graph ? mr_control_changes(&pipeline->graph->run) : 0;
    const bool over = pipeline->graph && is_over(pipeline->graph);
    const bool fresh = now_ns - pipeline->snapshot_ns < age_ns && pipeline->snapshot_news == news;
    if (!pipeline->snapshot || pipeline->snapshot_last != over || (!over && !fresh))
        status = renew(pipeline, now_ns, news, over);
    if (!status) {
        *summary = pipeline->snapshot;
        atomic_fetch_add_explicit(&shared_of(*summary)->holders, 1, memory_order_relaxed);
    }
    return status;
}

void mr_summary_destroy(mr_summary **summary) {
    bool held = *summary && atomic_fetch_sub_explicit(&shared_of(*summary)->holders, 1, memory_order_acq_rel) > 1;
    if (!*summary || held) {
        *summary = NULL;
        return;
    }
    for (size_t s = 0; s < (*summary)->source_count; s++)
        mr_row_fini(&(*summary)->sources[s]);
    mr_free((*summary)->sources);
    for (size_t v = 0; v < (*summary)->stage_count; v++)
        mr_free((*summary)->stages[v].shares);
    mr_free((*summary)->stages);
    mr_free((*summary)->cuts);
    mr_free((*summary)->devices);
    mr_free((*summary)->forced);
    mr_free((*summary)->lines);
    mr_free((*summary)->objects.lines);
    mr_free(*summary);
    *summary = NULL;
}

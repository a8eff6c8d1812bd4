/* Reports to a running graph from instances, the ends of cuts and programs. */
#include "engine/flow/run.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/graph.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/turns.h"
#include "millrace/log.h"
#include "millrace/stage.h"

/* ---- external sources -------------------------------------------------------------------------------------------- */

void mr_graph_tell_room(void *context) {
    mr_graph *graph = context;
    pthread_mutex_lock(&graph->lock);
    pthread_cond_broadcast(&graph->changed);
    pthread_mutex_unlock(&graph->lock);
}

mr_link *mr_graph_external_inlet(mr_graph *graph, uint32_t source) {
    return graph->sources[source].instance->intake.ports[0];
}

void mr_graph_push_end(mr_graph *graph, uint32_t source) {
    mr_item end = {.kind = MR_ITEM_END, .source = source, .leaves = mr_graph_leaves_place(graph)};
    if (!graph->sources[source].pushed_end)
        mr_link_push(mr_graph_external_inlet(graph, source), &end, NULL);
    graph->sources[source].pushed_end = true;
}

int mr_graph_end_source(mr_graph *graph, uint32_t source) {
    pthread_mutex_lock(&graph->lock);
    mr_graph_push_end(graph, source);
    pthread_mutex_unlock(&graph->lock);
    return MR_OK;
}

/* ---- sources that come and go ------------------------------------------------------------------------------------ */

bool mr_graph_leaves_place(const mr_graph *graph) {
    return mr_plan_changes(graph->plan) && !atomic_load(&graph->stopping);
}

uint32_t mr_graph_epoch(mr_graph *graph, uint32_t source, uint32_t own) {
    mr_source_state *state = &graph->sources[source];
    const uint32_t epoch = state->first_epoch + own;
    if (epoch > atomic_load_explicit(&state->last_epoch, memory_order_relaxed))
        atomic_store_explicit(&state->last_epoch, epoch, memory_order_relaxed);
    return epoch;
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

struct timespec mr_graph_deadline(int64_t timeout_ns) {
    int64_t now_ns = mr_clock_now_ns(mr_clock_real()), wait_ns = timeout_ns < 0 ? 0 : timeout_ns;
    int64_t until = wait_ns < INT64_MAX - now_ns ? now_ns + wait_ns : INT64_MAX;
    return (struct timespec){.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
}

/* ---- stopping -------------------------------------------------------------------------------------------------- */

void mr_graph_stop(mr_graph *graph, bool at_once) {
    if (at_once) {
        mr_ledger_freeze(graph->ledger);
        atomic_store(&graph->cancelled, true);
    }
    if (!atomic_exchange(&graph->stopping, true))
        atomic_store(&graph->stop_ns, mr_clock_now_ns(mr_clock_real()));
    atomic_fetch_add(&graph->news, 1);
    for (uint32_t s = 0; s < graph->plan->source_count; s++)
        if (graph->sources[s].instance && graph->plan->vertices[s].type->external)
            mr_graph_end_source(graph, s);
    pthread_mutex_lock(&graph->lock);
    bool started = graph->started;
    pthread_mutex_unlock(&graph->lock);
    /* Before the start there are no threads to wake; the start checks the flags that are set here. */
    for (size_t i = 0; started && i < graph->instance_count; i++) {
        if (graph->instances[i]->opening.waits && !atomic_load(&graph->instances[i]->opening.begun))
            continue;
        mr_instance_tell_stop(graph->instances[i]);
        mr_instance_wake_all(graph->instances[i]);
    }
    if (started)
        mr_turns_look(graph->turns);
    mr_graph_tell_room(graph);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

void mr_graph_hold(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    graph->running++;
    pthread_mutex_unlock(&graph->lock);
}

/* With the lock. */
static void one_less(mr_graph *graph) {
    if (--graph->running > 0)
        return;
    graph->ended_ns = mr_clock_now_ns(mr_clock_real());
    graph->ended_cpu_s = mr_process_cpu_s();
    pthread_cond_broadcast(&graph->changed);
}

void mr_graph_release(mr_graph *graph) {
    pthread_mutex_lock(&graph->lock);
    one_less(graph);
    pthread_mutex_unlock(&graph->lock);
}

/* The run does not call a source again once it is asked to end, and may be over before the source is closed: this
 * reports that it has ended, in the summary and in the audit log. */
static void end_report(mr_instance *instance) {
    mr_graph *graph = instance->graph;
    pthread_mutex_lock(&graph->report_lock);
    mr_source_report report = graph->sources[instance->self.source].report;
    pthread_mutex_unlock(&graph->report_lock);
    if (!report.phase || report.phase >= MR_LINK_FAILED)
        return;
    report.phase = MR_LINK_ENDED;
    report.since_ns = mr_clock_date_ns();
    report.next_ns = 0;
    mr_stage_report(&instance->self, &report);
}

void mr_graph_instance_ended(mr_graph *graph, mr_instance *instance) {
    const bool is_source = instance->vertex->role == MR_ROLE_SOURCE;
    if (is_source)
        end_report(instance);
    pthread_mutex_lock(&graph->lock);
    if (is_source)
        graph->sources[instance->self.source].ended = true;
    if (instance->opening.waits)
        mr_turns_note(graph->turns, instance->self.source, false);
    one_less(graph);
    pthread_mutex_unlock(&graph->lock);
}

/* ---- failures -------------------------------------------------------------------------------------------------- */

static void keep_first(mr_graph *graph, int status, const char *message) {
    if (graph->status)
        return;
    graph->status = status;
    snprintf(graph->message, sizeof graph->message, "%s", message);
}

void mr_graph_fail(mr_graph *graph, int status, const char *message) {
    pthread_mutex_lock(&graph->lock);
    keep_first(graph, status, message);
    pthread_mutex_unlock(&graph->lock);
    mr_ledger_freeze(graph->ledger);
    /* Output that no reader takes is not waited for either. */
    mr_graph_stop(graph, status == MR_ERROR_CLOSED);
}

void mr_graph_fail_source(mr_graph *graph, uint32_t source, int status, const char *message) {
    const mr_plan_vertex *vertex = &graph->plan->vertices[source];
    mr_source_state *state = &graph->sources[source];
    if (!graph->quiet_sources)
        mr_log_repeating(MR_LOG_ERROR, vertex->id, "%s: %s: %s", vertex->place, vertex->id, message);
    pthread_mutex_lock(&graph->lock);
    if (!state->status) {
        state->status = status;
        state->message = mr_strdup(message);
    }
    char text[sizeof graph->message];
    snprintf(text, sizeof text, "%s: %s", vertex->id, message);
    keep_first(graph, status, text);
    pthread_mutex_unlock(&graph->lock);
}

/* ---- openings ---------------------------------------------------------------------------------------------------- */

void mr_graph_instance_opened(mr_graph *graph, const mr_instance *instance, int status) {
    pthread_mutex_lock(&graph->lock);
    /* Later failures may only be interruptions, since the start is being given up. */
    if (status && !graph->open_status) {
        graph->open_status = status;
        snprintf(graph->open_message, sizeof graph->open_message, "%s: %s: %s", instance->self.place,
                 instance->self.id, mr_message());
    }
    graph->opening -= instance->opening.opens_itself;
    pthread_cond_broadcast(&graph->changed);
    pthread_mutex_unlock(&graph->lock);
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

void mr_graph_expect_frames(mr_graph *graph, uint32_t source, int64_t frames) {
    atomic_store_explicit(&graph->sources[source].expected, frames, memory_order_relaxed);
}

void mr_graph_miss_frames(mr_graph *graph, uint32_t source, uint64_t frames) {
    atomic_fetch_add_explicit(&graph->sources[source].unread, frames, memory_order_relaxed);
}

void mr_graph_count_seam(mr_graph *graph, uint32_t source) {
    atomic_fetch_add_explicit(&graph->sources[source].seams, 1, memory_order_relaxed);
}

/* Whether deliveries of that sink are tallied: of the one that was the first to deliver classes. */
static bool is_tallied(mr_graph *graph, int vertex) {
    int first = atomic_load_explicit(&graph->tally_vertex, memory_order_relaxed);
    if (first < 0 && atomic_compare_exchange_strong(&graph->tally_vertex, &first, vertex))
        return true;
    return first == vertex;
}

void mr_graph_deliver(mr_graph *graph, const mr_instance *sink, const mr_frame *frame, int64_t now_ns) {
    const mr_result *classes = frame->results ? mr_frame_result(frame, mr_kind_classes(), NULL) : NULL;
    int64_t none = 0;
    mr_histogram_add_shared(&graph->latency, now_ns - frame->born_ns);
    if (!atomic_load_explicit(&graph->first_ns, memory_order_relaxed))
        atomic_compare_exchange_strong(&graph->first_ns, &none, now_ns);
    if (classes && is_tallied(graph, (int)(sink->vertex - graph->plan->vertices)))
        mr_tally_add(&graph->sources[frame->identity.source].tally, frame->media, classes);
}

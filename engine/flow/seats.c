#include "engine/flow/seats.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/run.h"
#include "engine/flow/tracing.h"
#include "engine/flow/turns.h"
#include "millrace/log.h"

/* Different ids that one run may see: each is remembered, since results and accounts refer to it. */
enum { MOST_IDS = 1 << 20, MOST_ID_BYTES = 64 << 20 };

int mr_seats_create(mr_graph *graph) {
    if (!mr_plan_changes(graph->plan))
        return MR_OK;
    graph->departed = mr_calloc(1, sizeof *graph->departed);
    if (!graph->departed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for sources that come and go");
    for (size_t s = 0; s < graph->plan->source_count; s++) {
        graph->sources[s].phase = graph->plan->vertices[s].reserved ? MR_SOURCE_VACANT : MR_SOURCE_HERE;
    }
    return mr_names_create(&graph->ids, MOST_IDS, MOST_ID_BYTES);
}

static void forget_newcomer(mr_newcomer **newcomer) {
    if (*newcomer)
        mr_plan_destroy(&(*newcomer)->with);
    mr_free(*newcomer);
    *newcomer = NULL;
}

void mr_seats_destroy(mr_graph *graph) {
    for (size_t s = 0; graph->departed && s < graph->plan->source_count; s++) {
        forget_newcomer(&graph->sources[s].next);
        mr_spec_destroy(&graph->sources[s].spec);
    }
    if (graph->departed)
        mr_departed_fini(graph->departed);
    mr_free(graph->departed);
    mr_names_destroy(&graph->ids);
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

/* A label's owner may go with the source. */
static const char *keep_label(void *context, const char *label) {
    const mr_graph *graph = context;
    const char *kept = NULL;
    if (!graph->ids || !label)
        return label;
    return mr_names_keep(graph->ids, NULL, label, strlen(label), &kept) ? "" : kept;
}

static mr_source_report report_of(mr_graph *graph, uint32_t source) {
    pthread_mutex_lock(&graph->report_lock);
    mr_source_report report = graph->sources[source].report;
    pthread_mutex_unlock(&graph->report_lock);
    return report;
}

/* With the lock. */
static void account_of(mr_graph *graph, uint32_t source, mr_source_summary *account) {
    mr_source_state *state = &graph->sources[source];
    bool arrived = !state->instance;
    mr_ledger_account count;
    mr_ledger_read(graph->ledger, source, arrived, &count);
    char *message = state->message && *state->message ? mr_strdup(state->message) : NULL;
    *account = (mr_source_summary){
        .id = graph->plan->vertices[source].id,
        .note = graph->plan->vertices[source].note,
        .elsewhere = arrived,
        .in = count.in,
        .delivered = count.delivered,
        .dropped = count.dropped,
        .absorbed = count.absorbed,
        .unaccounted = count.unaccounted,
        .in_flight = count.in - count.delivered - count.dropped - count.absorbed - count.unaccounted,
        .line_count = count.line_count,
        .lines = count.lines,
        .unsettled_count = count.unsettled_count,
        .expected = atomic_load_explicit(&state->expected, memory_order_relaxed),
        .unread = atomic_load_explicit(&state->unread, memory_order_relaxed),
        .seams = atomic_load_explicit(&state->seams, memory_order_relaxed),
        .ended = state->ended,
        .status = state->status,
        .message = message ? message : "",
        .report = report_of(graph, source),
        .stay = {.changes = graph->departed != NULL,
                 .first_epoch = state->first_epoch,
                 .last_epoch = atomic_load_explicit(&state->last_epoch, memory_order_relaxed),
                 .leaving = state->phase == MR_SOURCE_LEAVING},
    };
    memcpy(account->unsettled, count.unsettled, count.unsettled_count * sizeof *account->unsettled);
    mr_tally_summarize(&state->tally, account);
    for (size_t i = 0; i < account->truth_count; i++)
        account->truths[i].label = keep_label(graph, account->truths[i].label);
}

bool mr_seat_account(mr_graph *graph, uint32_t source, mr_source_summary *account) {
    pthread_mutex_lock(&graph->lock);
    bool there = graph->sources[source].phase != MR_SOURCE_VACANT;
    if (there)
        account_of(graph, source, account);
    pthread_mutex_unlock(&graph->lock);
    return there;
}

/* The account goes to those who have left, and the place begins a new one. With the lock. */
static void close_account(mr_graph *graph, uint32_t source) {
    mr_source_state *state = &graph->sources[source];
    mr_source_summary account;
    account_of(graph, source, &account);
    account.stay.leaving = false;
    account.stay.removed = account.ended = true;
    mr_departed_add(graph->departed, &account);
    mr_ledger_clear(graph->ledger, source);
    mr_spec_destroy(&state->spec);
    mr_free(state->message);
    mr_tally_fini(&state->tally);
    state->message = NULL;
    pthread_mutex_lock(&graph->report_lock);
    state->report = (mr_source_report){0};
    state->audited = (mr_audit_states){0};
    pthread_mutex_unlock(&graph->report_lock);
    state->status = MR_OK;
    state->phase = MR_SOURCE_VACANT;
    atomic_fetch_add(&graph->news, 1);
}

/* ---- taking a place ---------------------------------------------------------------------------------------------- */

uint32_t mr_seat_find(const mr_graph *graph, const char *id) {
    for (uint32_t s = 0; s < graph->plan->source_count; s++)
        if (graph->sources[s].phase != MR_SOURCE_VACANT && strcmp(graph->plan->vertices[s].id, id) == 0)
            return s;
    return MR_SOURCE_NONE;
}

static void rename_instances(mr_graph *graph, uint32_t source) {
    for (size_t i = 0; i < graph->instance_count; i++)
        if (graph->instances[i]->self.source == source)
            mr_instance_rename(graph->instances[i]);
}

/* The place is vacant, and `id` kept. Takes newcomer->with over. With the lock. */
static void seat(mr_graph *graph, uint32_t place, mr_newcomer *newcomer, const char *id) {
    mr_source_state *state = &graph->sources[place];
    const mr_plan_vertex *source = &newcomer->with->vertices[newcomer->source];
    mr_plan_seat((mr_plan *)(uintptr_t)graph->plan, place, source, id, keep_label(graph, source->note));
    state->first_epoch = mr_departed_epoch(graph->departed, id);
    atomic_store_explicit(&state->last_epoch, state->first_epoch, memory_order_relaxed);
    state->gives = newcomer->with->vertices[newcomer->source].outputs[0].set;
    state->gives_own = true;
    state->spec = (mr_spec *)(uintptr_t)newcomer->with->spec;
    newcomer->with->spec = NULL;
    mr_plan_destroy(&newcomer->with);
    atomic_store(&state->expected, 0);
    atomic_store(&state->unread, 0);
    atomic_store(&state->seams, 0);
    atomic_store(&state->leaving, false);
    state->ended = state->pushed_end = false;
    state->phase = MR_SOURCE_HERE;
    atomic_fetch_add(&graph->news, 1);
    rename_instances(graph, place);
    mr_tracing_rename(graph, place);
}

static int keep_id(mr_graph *graph, const mr_newcomer *newcomer, const char **id) {
    const char *given = newcomer->with->vertices[newcomer->source].id;
    int status = mr_names_keep(graph->ids, &graph->ids_share, given, strlen(given), id);
    return status == MR_ERROR_PROTOCOL
               ? mr_fail(MR_ERROR_UNAVAILABLE, "this run has seen %d different sources, and remembers no more",
                         MOST_IDS)
               : status;
}

/* Whether the place may have it; *status, and the message, have the reason if only its formats or sizes do not fit. */
static bool suits(const mr_graph *graph, uint32_t place, const mr_newcomer *newcomer, int *status) {
    if (!graph->sources[place].instance || !mr_plan_fits(graph->plan, place, newcomer->with, newcomer->source))
        return false;
    int proven = mr_plan_proves(graph->plan, place, newcomer->with, newcomer->source);
    *status = proven ? proven : *status;
    return !proven;
}

/* A vacant place, else that of a source that has ended by itself. */
static uint32_t choose(const mr_graph *graph, const mr_newcomer *newcomer, int *status, size_t *taken) {
    uint32_t ended = MR_SOURCE_NONE;
    *taken = 0;
    for (uint32_t s = 0; s < graph->plan->source_count; s++) {
        mr_source_phase phase = graph->sources[s].phase;
        *taken += phase == MR_SOURCE_HERE || phase == MR_SOURCE_LEAVING;
        bool free = phase == MR_SOURCE_VACANT || (phase == MR_SOURCE_OVER && ended == MR_SOURCE_NONE);
        if (!free || !suits(graph, s, newcomer, status))
            continue;
        if (phase == MR_SOURCE_VACANT)
            return s;
        ended = s;
    }
    return ended;
}

static int no_place(const mr_graph *graph, const mr_newcomer *newcomer, int status, size_t taken) {
    const mr_spec *spec = graph->plan->spec;
    const mr_plan_vertex *vertex = &newcomer->with->vertices[newcomer->source];
    if (taken >= spec->most_sources)
        return mr_fail(MR_ERROR_UNAVAILABLE,
                       "%s: there are %zu sources already (sources.max, %s:%d:%d): remove one first",
                       vertex->id, taken, spec->most_place.file, spec->most_place.line, spec->most_place.column);
    if (status)
        return mr_fail(status, "%s: %s", vertex->id, mr_message());
    return mr_fail(MR_ERROR_CONFIG,
                   "%s: no place is left that is for type %s and leads to its stages: write like: {type: ...} under "
                   "`sources`",
                   vertex->id, vertex->type->name);
}

/* What is to follow the source of a place, once that has left. With the lock; takes newcomer->with over. */
static int line_up(mr_graph *graph, uint32_t place, mr_newcomer *newcomer) {
    int status = MR_OK;
    if (!suits(graph, place, newcomer, &status))
        return status ? mr_fail(status, "%s: %s: remove it, and add it when it is gone",
                                graph->plan->vertices[place].id, mr_message())
                      : mr_fail(MR_ERROR_CONFIG,
                                "%s: its type and its stages cannot change while it runs: remove it, and "
                                "add another", graph->plan->vertices[place].id);
    mr_newcomer *next = mr_calloc(1, sizeof *next);
    if (!next)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a source");
    forget_newcomer(&graph->sources[place].next);
    *next = *newcomer;
    newcomer->with = NULL;
    graph->sources[place].next = next;
    return MR_OK;
}

static int refuse_time(const mr_graph *graph) {
    if (!graph->started)
        return mr_fail(MR_ERROR_USAGE, "the pipeline has not started");
    return atomic_load(&graph->stopping) ? mr_fail(MR_ERROR_CANCELLED, "the pipeline is stopping") : MR_OK;
}

/* With the lock. */
static int check_free(const mr_graph *graph, const char *id) {
    uint32_t same = mr_seat_find(graph, id);
    const mr_source_state *state = same == MR_SOURCE_NONE ? NULL : &graph->sources[same];
    int status = refuse_time(graph);
    if (status || !state || state->phase == MR_SOURCE_OVER || (state->phase == MR_SOURCE_LEAVING && !state->next))
        return status;
    return mr_fail(MR_ERROR_USAGE, "there is a source %s already: use set to change it", id);
}

int mr_seat_is_free(mr_graph *graph, const char *id) {
    pthread_mutex_lock(&graph->lock);
    int status = check_free(graph, id);
    pthread_mutex_unlock(&graph->lock);
    return status;
}

static int take(mr_graph *graph, mr_newcomer *newcomer, uint32_t *place) {
    const char *id = newcomer->with->vertices[newcomer->source].id;
    uint32_t same = mr_seat_find(graph, id);
    int status = check_free(graph, id);
    size_t taken = 0;
    if (status)
        return status;
    if (same != MR_SOURCE_NONE && graph->sources[same].phase == MR_SOURCE_LEAVING)
        return line_up(graph, same, newcomer);
    *place = same != MR_SOURCE_NONE && suits(graph, same, newcomer, &status)
                 ? same
                 : choose(graph, newcomer, &status, &taken);
    if (*place == MR_SOURCE_NONE)
        return no_place(graph, newcomer, status, taken);
    status = keep_id(graph, newcomer, &id);
    if (status)
        return status;
    if (same != MR_SOURCE_NONE)
        close_account(graph, same);
    if (graph->sources[*place].phase == MR_SOURCE_OVER)
        close_account(graph, *place);
    seat(graph, *place, newcomer, id);
    return MR_OK;
}

int mr_seat_take(mr_graph *graph, mr_newcomer *newcomer) {
    uint32_t place = MR_SOURCE_NONE;
    pthread_mutex_lock(&graph->lock);
    int status = take(graph, newcomer, &place);
    pthread_mutex_unlock(&graph->lock);
    if (!status && place != MR_SOURCE_NONE)
        mr_turns_ask(graph->turns, place);
    return status;
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

/* Interrupts what the source does. With the lock, so that the next source of the place is not meant. One that has not
 * begun sees by itself that it is to leave, and its tasks may be given their threads at this moment. */
static void ask_to_leave(mr_graph *graph, uint32_t place) {
    mr_source_state *state = &graph->sources[place];
    state->phase = MR_SOURCE_LEAVING;
    atomic_store(&state->leaving, true);
    if (graph->plan->vertices[place].type->external)
        mr_graph_push_end(graph, place);
    if (atomic_load(&state->instance->opening.begun)) {
        mr_instance_tell_stop(state->instance);
        mr_instance_wake_all(state->instance);
    }
    pthread_cond_broadcast(&graph->changed); /* a program that waits to push */
}

static int no_source(const mr_graph *graph, const char *id) {
    return mr_fail(MR_ERROR_USAGE, "pipeline %s has no source \"%s\"", graph->plan->name, id);
}

int mr_seat_leave(mr_graph *graph, const char *id) {
    pthread_mutex_lock(&graph->lock);
    uint32_t place = mr_seat_find(graph, id);
    mr_source_state *state = place == MR_SOURCE_NONE ? NULL : &graph->sources[place];
    bool asks = state && state->phase == MR_SOURCE_HERE;
    if (asks)
        ask_to_leave(graph, place);
    else if (state && state->phase == MR_SOURCE_OVER)
        close_account(graph, place);
    if (state)
        forget_newcomer(&state->next);
    int status = state ? MR_OK : no_source(graph, id);
    pthread_mutex_unlock(&graph->lock);
    return status;
}

int mr_seat_replace(mr_graph *graph, mr_newcomer *newcomer) {
    const char *id = newcomer->with->vertices[newcomer->source].id;
    pthread_mutex_lock(&graph->lock);
    uint32_t place = mr_seat_find(graph, id);
    mr_source_phase phase = place == MR_SOURCE_NONE ? MR_SOURCE_VACANT : graph->sources[place].phase;
    bool waits = phase == MR_SOURCE_HERE || phase == MR_SOURCE_LEAVING, seated = false;
    int status = place == MR_SOURCE_NONE ? no_source(graph, id) : refuse_time(graph);
    if (!status && waits)
        status = line_up(graph, place, newcomer);
    else if (!status)
        seated = !(status = take(graph, newcomer, &place));
    if (!status && phase == MR_SOURCE_HERE)
        ask_to_leave(graph, place);
    pthread_mutex_unlock(&graph->lock);
    if (seated)
        mr_turns_ask(graph->turns, place);
    return status;
}

bool mr_seat_left(mr_graph *graph, uint32_t source) {
    mr_source_state *state = &graph->sources[source];
    const char *id = NULL;
    pthread_mutex_lock(&graph->lock);
    bool removed = state->phase == MR_SOURCE_LEAVING, seated = false;
    mr_tally_keep_labels(&state->tally, keep_label, graph);
    state->ended = true;
    state->phase = MR_SOURCE_OVER;
    atomic_store(&state->leaving, false);
    if (removed)
        close_account(graph, source);
    if (removed && state->next && !atomic_load(&graph->stopping)) {
        seated = !keep_id(graph, state->next, &id);
        if (seated)
            seat(graph, source, state->next, id);
        else
            mr_log(MR_LOG_ERROR, "%s", mr_message());
    }
    forget_newcomer(&state->next);
    state->pushed_end = false;
    pthread_cond_broadcast(&graph->changed);
    pthread_mutex_unlock(&graph->lock);
    return seated;
}

static bool is_leaving(mr_graph *graph, const char *id) {
    uint32_t place = mr_seat_find(graph, id);
    return place != MR_SOURCE_NONE && graph->sources[place].phase == MR_SOURCE_LEAVING && !graph->sources[place].next;
}

int mr_seat_await(mr_graph *graph, const char *id, int64_t timeout_ns) {
    struct timespec until = mr_graph_deadline(timeout_ns);
    if (graph->seed)
        mr_executor_drive(graph->executor, mr_executor_now_ns(graph->executor));
    pthread_mutex_lock(&graph->lock);
    bool leaving = is_leaving(graph, id), late = graph->seed || timeout_ns == 0;
    while (leaving && !late) {
        if (timeout_ns < 0)
            pthread_cond_wait(&graph->changed, &graph->lock);
        else
            late = pthread_cond_timedwait(&graph->changed, &graph->lock, &until) != 0;
        leaving = is_leaving(graph, id);
    }
    pthread_mutex_unlock(&graph->lock);
    return leaving ? mr_fail(MR_ERROR_AGAIN, "%s is leaving: frames of it are on their way", id) : MR_OK;
}

/* ---- its options ------------------------------------------------------------------------------------------------- */

static const mr_yaml *node_of(const mr_graph *graph, uint32_t place, const char *id) {
    const mr_spec *spec = graph->sources[place].spec;
    if (!spec)
        return graph->plan->spec->sources[place].node;
    for (size_t s = 0; s < spec->source_count; s++)
        if (strcmp(spec->sources[s].id, id) == 0)
            return spec->sources[s].node;
    return NULL;
}

bool mr_seat_gives(mr_graph *graph, const char *id) {
    pthread_mutex_lock(&graph->lock);
    uint32_t place = mr_seat_find(graph, id);
    const mr_source_state *state = place == MR_SOURCE_NONE ? NULL : &graph->sources[place];
    bool gives = state && state->phase == MR_SOURCE_HERE && !state->next;
    pthread_mutex_unlock(&graph->lock);
    return gives;
}

int mr_seat_options(mr_graph *graph, const char *id, mr_arena *arena, mr_yaml **node) {
    pthread_mutex_lock(&graph->lock);
    uint32_t place = mr_seat_find(graph, id);
    const mr_yaml *own = place == MR_SOURCE_NONE ? NULL : node_of(graph, place, id);
    const char *file = own ? mr_arena_text(arena, own->place.file, strlen(own->place.file)) : NULL;
    *node = file ? mr_yaml_copy(arena, own, file) : NULL;
    int status = !own ? no_source(graph, id) : *node ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a source");
    pthread_mutex_unlock(&graph->lock);
    return status;
}

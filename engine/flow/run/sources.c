#include "engine/flow/run/sources.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/source_counts.h"
#include "engine/observe/audit_log.h"
#include "millrace/audit.h"
#include "millrace/log.h"

typedef struct source_state {
    _Atomic bool leaves;      /* it must end, as if the run were stopping */
    int status;               /* the first failure; this and the next two need the lock */
    char *message;
    bool ended;
    bool removed;             /* nobody has the slot; needs the lock */
    mr_source_report report;  /* for sources that connect; this and the next four fields need report_lock */
    mr_audit_states audited;  /* the states in the audit log */
    int64_t heard_ns;         /* when the last report came */
    int64_t silent_ns;        /* while it hangs: since when */
    int64_t stalled_ns;       /* while it hangs: when the call was overdue, as a date */
    _Atomic int64_t asked_ns; /* when it was asked to leave, on the real clock; 0: it was not */
    _Atomic int64_t called_ns; /* when the call that runs began; 0: none runs */
    _Atomic bool hangs;       /* that call is overdue; set with report_lock */
} source_state;

struct mr_sources {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_mutex_t report_lock; /* for reports, also while they are closed with the instance's lock held */
    bool quiet;
    size_t count;
    source_state of[];  /* by source */
};

int mr_sources_create(mr_sources **sources, const mr_plan *plan, bool quiet) {
    mr_sources *made = mr_calloc(1, sizeof *made + plan->source_count * sizeof *made->of);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->report_lock, NULL);
    mr_condition_init(&made->changed);
    made->count = plan->source_count;
    made->quiet = quiet;
    *sources = made;
    return MR_OK;
}

void mr_sources_destroy(mr_sources **sources) {
    mr_sources *gone = *sources;
    if (!gone)
        return;
    for (size_t s = 0; s < gone->count; s++)
        mr_free(gone->of[s].message);
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->report_lock);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *sources = NULL;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

void mr_sources_lock(mr_sources *sources) {
    pthread_mutex_lock(&sources->lock);
}

void mr_sources_unlock(mr_sources *sources) {
    pthread_mutex_unlock(&sources->lock);
}

bool mr_sources_await(mr_sources *sources, const struct timespec *until) {
    if (until)
        return !pthread_cond_timedwait(&sources->changed, &sources->lock, until);
    pthread_cond_wait(&sources->changed, &sources->lock);
    return true;
}

void mr_sources_announce(mr_sources *sources) {
    pthread_cond_broadcast(&sources->changed);
}

/* ---- failures and ends ------------------------------------------------------------------------------------------- */

void mr_source_fail(const mr_run *run, uint32_t source, int status, const char *message) {
    const mr_plan_vertex *vertex = &run->plan->vertices[source];
    source_state *state = &run->sources->of[source];
    char text[512];
    if (!run->sources->quiet)
        mr_log_repeating(MR_LOG_ERROR, vertex->id, "%s: %s: %s", vertex->place, vertex->id, message);
    mr_sources_lock(run->sources);
    if (!state->status) {
        state->status = status;
        state->message = mr_strdup(message);
    }
    mr_sources_unlock(run->sources);
    snprintf(text, sizeof text, "%s: %s", vertex->id, message);
    mr_ending_note_failure(run->ending, status, text);
}

void mr_source_ask_to_leave(const mr_run *run, uint32_t source) {
    atomic_store(&run->sources->of[source].asked_ns, mr_now_ns());
    atomic_store(&run->sources->of[source].leaves, true);
}

void mr_source_leave(const mr_run *run, uint32_t source) {
    run->sources->of[source].ended = true;
    atomic_store(&run->sources->of[source].leaves, false);
}

bool mr_source_is_to_leave(const mr_run *run, uint32_t source) {
    return atomic_load(&run->sources->of[source].leaves);
}

void mr_source_arrive(const mr_run *run, uint32_t source) {
    run->sources->of[source].removed = false;
}

bool mr_source_is_there(const mr_run *run, uint32_t source, const char *id) {
    MR_LOCKED(&run->sources->lock);
    const char *name = run->plan->vertices[source].id;
    return !run->sources->of[source].removed && name && strcmp(name, id) == 0;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

const char *mr_link_state_name(mr_link_state phase) {
    static const char *const names[] = {
        [MR_LINK_UNREPORTED] = "", [MR_LINK_CONNECTING] = "connecting", [MR_LINK_LIVE] = "live",
        [MR_LINK_STALLED] = "stalled", [MR_LINK_AWAY] = "away", [MR_LINK_FAILED] = "failed",
        [MR_LINK_ENDED] = "ended"};
    return names[phase];
}

/* The audit log gets changes that matter, but not each attempt while a source is away. */
static bool is_news(source_state *state, mr_link_state phase, uint64_t *left_out) {
    return phase != MR_LINK_CONNECTING &&
           mr_audit_may_state(&state->audited, mr_now_ns(), (int)phase, phase >= MR_LINK_FAILED,
                              left_out);
}

static void audit_state(const mr_run *run, const char *id, const mr_source_report *report, uint64_t left_out) {
    mr_audit("source", mr_audit_text("pipeline", run->plan->name), mr_audit_text("source", id),
             mr_audit_text("state", mr_link_state_name(report->phase)),
             mr_audit_text("why", *report->why ? report->why : NULL), mr_audit_number("tries", report->tries),
             mr_audit_number("connections", report->connections), mr_audit_number("left_out", left_out));
}

/* The call that hung goes on. Returns how long it was silent; 0: it did not hang. With report_lock. */
static int64_t take_back(const mr_run *run, source_state *state) {
    if (!atomic_load(&state->hangs))
        return 0;
    atomic_store(&state->hangs, false);
    return mr_executor_now_ns(run->executor) - state->silent_ns;
}

static void say_back(const mr_run *run, uint32_t source, int64_t silent_ns) {
    const char *id = run->plan->vertices[source].id;
    if (silent_ns && !run->sources->quiet)
        mr_log_repeating(MR_LOG_WARNING, id, "%s: answers again after %.1f s", id, (double)silent_ns * 1e-9);
}

/* Notes the state that the source reports, or returns to after it hung (`report` NULL). On the source's thread. */
static void note_state(const mr_run *run, uint32_t source, const mr_source_report *report) {
    source_state *state = &run->sources->of[source];
    uint64_t left_out = 0;
    pthread_mutex_lock(&run->sources->report_lock);
    const int64_t silent_ns = take_back(run, state);
    const mr_source_report now = report ? *report : state->report;
    bool changed = silent_ns || state->report.phase != now.phase;
    bool news = (report || silent_ns) && now.phase && is_news(state, now.phase, &left_out);
    state->report = now;
    if (report)
        state->heard_ns = mr_executor_now_ns(run->executor);
    pthread_mutex_unlock(&run->sources->report_lock);
    if (changed)
        mr_control_note_change(run);
    say_back(run, source, silent_ns);
    if (news)
        audit_state(run, run->plan->vertices[source].id, &now, left_out);
}

void mr_source_report_state(const mr_run *run, uint32_t source, const mr_source_report *report) {
    note_state(run, source, report);
}

static mr_source_report report_of(mr_sources *sources, const source_state *state) {
    MR_LOCKED(&sources->report_lock);
    return state->report;
}

/* ---- calls that hang --------------------------------------------------------------------------------------------- */

void mr_source_begin_call(const mr_run *run, uint32_t source, int64_t now_ns) {
    atomic_store(&run->sources->of[source].called_ns, now_ns);
}

/* Clears called_ns before it reads `hangs`; find_hang does both the other way round, so that one of them sees the
 * other. */
void mr_source_end_call(const mr_run *run, uint32_t source) {
    atomic_store(&run->sources->of[source].called_ns, 0);
    if (atomic_load(&run->sources->of[source].hangs))
        note_state(run, source, NULL);
}

static int64_t later_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* When the call that began then must have returned or reported. INT64_MAX: there is no limit. With report_lock. */
static int64_t due_ns(const mr_run *run, const source_state *state, int64_t called_ns) {
    const int64_t within_ns = state->report.within_ns, left_ns = atomic_load(&state->asked_ns);
    const int64_t asked_ns = left_ns ? left_ns : mr_control_stop_ns(run);
    int64_t due_ns = INT64_MAX;
    if (state->report.phase < MR_LINK_FAILED && within_ns > 0 && within_ns < INT64_MAX / 2)
        due_ns = later_ns(called_ns, state->heard_ns) + within_ns;
    if (asked_ns) {
        const int64_t end_ns = later_ns(called_ns, asked_ns) + run->plan->grace_ns / 2;
        due_ns = end_ns < due_ns ? end_ns : due_ns;
    }
    return due_ns;
}

/* What others see while the source hangs. With report_lock. */
static mr_source_report hanging(const mr_run *run, const source_state *state) {
    mr_source_report seen = state->report;
    seen.phase = MR_LINK_STALLED;
    seen.since_ns = state->stalled_ns;
    seen.next_ns = 0;
    snprintf(seen.why, sizeof seen.why, "a call into its driver or library has not returned%s",
             mr_control_is_stopping(run) || atomic_load(&state->leaves) ? " since it was asked to end" : "");
    return seen;
}

/* Whether the source has begun to hang; if so, fills in the report that others see. */
static bool find_hang(const mr_run *run, source_state *state, mr_source_report *seen, bool *news, uint64_t *left_out) {
    const int64_t called_ns = atomic_load(&state->called_ns), now_ns = mr_executor_now_ns(run->executor);
    if (!called_ns || atomic_load(&state->hangs))
        return false;
    MR_LOCKED(&run->sources->report_lock);
    const int64_t overdue_ns = now_ns - due_ns(run, state, called_ns);
    if (overdue_ns <= 0 || atomic_load(&state->hangs)) /* another thread has just found it */
        return false;
    atomic_store(&state->hangs, true);
    if (atomic_load(&state->called_ns) != called_ns) {
        atomic_store(&state->hangs, false);
        return false;
    }
    state->silent_ns = later_ns(called_ns, state->heard_ns);
    state->stalled_ns = mr_clock_date_ns() - overdue_ns;
    *seen = hanging(run, state);
    *news = is_news(state, MR_LINK_STALLED, left_out);
    return true;
}

static void say_hang(const mr_run *run, uint32_t source, const mr_source_report *seen, bool news, uint64_t left_out) {
    char id[256];
    mr_sources_lock(run->sources);
    snprintf(id, sizeof id, "%s", run->plan->vertices[source].id);
    mr_sources_unlock(run->sources);
    mr_control_note_change(run);
    if (news)
        audit_state(run, id, seen, left_out);
    if (!run->sources->quiet)
        mr_log_repeating(MR_LOG_WARNING, id, "%s: stalled: %s", id, seen->why);
}

void mr_sources_find_hangs(const mr_run *run) {
    mr_source_report seen;
    uint64_t left_out = 0;
    bool news = false;
    for (uint32_t s = 0; s < run->sources->count; s++)
        if (find_hang(run, &run->sources->of[s], &seen, &news, &left_out))
            say_hang(run, s, &seen, news, left_out);
}

static mr_source_report seen_report(const mr_run *run, const source_state *state, bool *hangs) {
    MR_LOCKED(&run->sources->report_lock);
    const int64_t called_ns = atomic_load(&state->called_ns);
    *hangs = atomic_load(&state->hangs) && called_ns;
    return *hangs ? hanging(run, state) : state->report;
}

/* Reports an ended source in the summary and the audit log. The run does not call a source again after asking it to
 * end, and may be over before the source is closed. */
static void end_report(const mr_run *run, uint32_t source) {
    mr_source_report report = report_of(run->sources, &run->sources->of[source]);
    if (!report.phase || report.phase >= MR_LINK_FAILED)
        return;
    report.phase = MR_LINK_ENDED;
    report.since_ns = mr_clock_date_ns();
    report.next_ns = 0;
    mr_source_report_state(run, source, &report);
}

void mr_source_end(const mr_run *run, uint32_t source) {
    end_report(run, source);
    mr_sources_lock(run->sources);
    run->sources->of[source].ended = true;
    mr_sources_unlock(run->sources);
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

static uint64_t in_flight(const mr_ledger_account *count) {
    return count->in - count->delivered - count->dropped - count->absorbed - count->unaccounted;
}

static mr_object_summary objects_of(const mr_run *run, uint32_t source) {
    mr_ledger_account count;
    mr_ledger_read(run->ledger, source, MR_LEDGER_OBJECTS, &count);
    return (mr_object_summary){.in = count.in, .delivered = count.delivered, .dropped = count.dropped,
                               .absorbed = count.absorbed, .in_flight = in_flight(&count),
                               .unaccounted = count.unaccounted, .line_count = count.line_count, .lines = count.lines};
}

void mr_source_account(const mr_run *run, uint32_t source, bool arrived, mr_source_summary *account) {
    const mr_plan_vertex *vertex = &run->plan->vertices[source];
    source_state *state = &run->sources->of[source];
    char *message = state->message && *state->message ? mr_strdup(state->message) : NULL;
    mr_ledger_account count;
    *account = (mr_source_summary){
        .id = vertex->id,
        .note = vertex->remarks.anywhere,
        .elsewhere = arrived,
        .ended = state->ended,
        .status = state->status,
        .message = message ? message : "",
        .stay.changes = mr_plan_changes(run->plan),
    };
    account->report = seen_report(run, state, &account->hangs);
    /* Must be read before the ledger: otherwise more frames could be classified than came in. */
    mr_source_counts_read(run->counts, source, account);
    mr_ledger_read(run->ledger, source, arrived ? MR_LEDGER_ARRIVED : MR_LEDGER_FRAMES, &count);
    account->in = count.in;
    account->delivered = count.delivered;
    account->dropped = count.dropped;
    account->absorbed = count.absorbed;
    account->unaccounted = count.unaccounted;
    account->in_flight = in_flight(&count);
    account->line_count = count.line_count;
    account->lines = count.lines;
    account->unsettled_count = count.unsettled_count;
    memcpy(account->unsettled, count.unsettled, count.unsettled_count * sizeof *account->unsettled);
    account->objects = objects_of(run, source);
}

void mr_source_renew(const mr_run *run, uint32_t source) {
    source_state *state = &run->sources->of[source];
    mr_ledger_clear(run->ledger, source);
    mr_free(state->message);
    state->message = NULL;
    state->status = MR_OK;
    state->ended = false;
    state->removed = true;
    atomic_store(&state->leaves, false);
    atomic_store(&state->asked_ns, 0);
    MR_LOCKED(&run->sources->report_lock);
    state->report = (mr_source_report){0};
    state->audited = (mr_audit_states){0};
    state->heard_ns = 0;
}

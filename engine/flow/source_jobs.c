#include "engine/flow/source_jobs.h"

#include "engine/base/memory.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ends.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/sources.h"

/* A source that waits or has begun, or a slot that sources use one after another. */
typedef struct job {
    uint32_t source;
    bool begun;           /* for a slot: the source has not left since */
    bool ending;          /* it has ended, and the threads were asked to end */
    bool over;            /* it was put away, and no source follows */
    size_t own_count;     /* the source, and the stages that serve only it */
    mr_instance **own;
    size_t inlet_count;   /* links that still expect this source */
    mr_link **inlets;
    _Atomic bool asked;   /* for a slot: a source is there and may begin */
} job;

/* What each source reaches is listed once: with thousands of sources, searching all stages for each takes minutes. */
struct mr_source_jobs {
    mr_run *run;
    const mr_wiring *wiring;
    mr_source_jobs_calls calls;
    mr_task task;         /* only this task changes the fields below */
    bool changes;         /* sources come and go: each may begin when it is there */
    size_t count;
    job *items;
    size_t *item_of;      /* by source */
    mr_instance **owns;   /* for all jobs, one after another; so are the next */
    mr_link **inlets;
    size_t first;         /* every job before it is over */
    size_t next;          /* the first that has not begun */
    size_t open;          /* jobs begun and not over */
};

/* ---- one source ------------------------------------------------------------------------------------------------ */

/* The source's frames may now come. */
static void tell_links(const job *one) {
    for (size_t i = 0; i < one->inlet_count; i++)
        mr_link_begin(one->inlets[i], one->source);
}

static int give_threads(const mr_run *run, const job *one) {
    int status = MR_OK;
    for (size_t i = 0; i < one->own_count && !run->seed && !status; i++)
        if (one->own[i]->vertex->calls.blocking)
            status = mr_instance_give_thread(one->own[i]);
    return status;
}

/* Leaves the source and the stages that serve only it closed: they only pass the end on. */
static void leave_shut(const job *one) {
    for (size_t i = 0; i < one->own_count; i++)
        mr_instance_leave_shut(one->own[i]);
}

static void begin(mr_source_jobs *jobs, const job *one) {
    const mr_run *run = jobs->run;
    mr_instance *source = mr_wiring_source(jobs->wiring, one->source);
    bool stopping = mr_control_is_stopping(run);
    int status = stopping ? MR_OK : give_threads(run, one);
    if (status)
        mr_source_fail(run, one->source, status, mr_message());
    if (stopping || status)
        leave_shut(one);
    tell_links(one);
    for (size_t i = 0; i < one->own_count; i++)
        mr_opening_begin(&one->own[i]->opening);
    /* The program cannot end a source that is not there. */
    if (run->plan->vertices[one->source].type->external && (stopping || status))
        jobs->calls.end_pushes(jobs->calls.context, one->source);
    mr_instance_wake(source);
}

/* Asks all of them before the first is put away, so that they end in parallel. Sources that end meanwhile must wait for
 * the next look. */
static void ask_threads_to_end(mr_source_jobs *jobs, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        job *one = &jobs->items[i];
        one->ending = !one->over && (one->begun || !jobs->changes) &&
                      mr_ends_have_passed(jobs->run->ends, one->source) &&
                      !mr_ends_leave(jobs->run->ends, one->source);
        for (size_t own = 0; one->ending && own < one->own_count; own++)
            for (size_t e = 0; e < one->own[own]->entry_count; e++)
                mr_task_ask_thread_to_end(&one->own[own]->entries[e].task);
    }
}

static void put_away(const job *one) {
    for (size_t i = 0; i < one->own_count; i++)
        mr_instance_put_away(one->own[i]);
}

/* ---- source slots ------------------------------------------------------------------------------------------------ */

/* Makes the slot ready for the next source. False: somebody still holds the last source's frames, or an instance is
 * about to run; the task will be woken. */
static bool vacate(mr_source_jobs *jobs, job *one) {
    if (!mr_ledger_await_empty(jobs->run->ledger, one->source, mr_task_waker, &jobs->task))
        return false;
    for (size_t i = 0; i < one->own_count; i++)
        if (!mr_instance_vacate(one->own[i])) {
            mr_task_wake_behind(&jobs->task, false);
            return false;
        }
    return true;
}

static void leave(mr_source_jobs *jobs, job *one) {
    if (!vacate(jobs, one))
        return;
    mr_ends_renew(jobs->run->ends, one->source);
    one->begun = false;
    jobs->open--;
    if (jobs->calls.retire(jobs->calls.context, one->source))
        atomic_store(&one->asked, true);
}

/* Whether the run stops. A thread that adds a source looks at that under the sources' lock, before it changes a vacant
 * slot. After this, no such thread is still at it, and none will begin. */
static bool is_sealed(const mr_run *run) {
    if (!mr_control_is_stopping(run))
        return false;
    mr_sources_lock(run->sources);
    mr_sources_unlock(run->sources);
    return true;
}

/* A vacant slot must see an end too, so that the run can end. */
static void look_at_slots(mr_source_jobs *jobs) {
    const bool sealed = is_sealed(jobs->run);
    ask_threads_to_end(jobs, 0, jobs->count);
    for (size_t i = 0; i < jobs->count; i++) {
        job *one = &jobs->items[i];
        if (one->ending) {
            put_away(one);
            one->begun = false;
            one->over = true;
            jobs->open--;
        } else if (one->begun && mr_ends_have_passed(jobs->run->ends, one->source) &&
                   mr_ends_leave(jobs->run->ends, one->source)) {
            leave(jobs, one);
        }
        bool asked = !one->begun && !one->over && atomic_exchange(&one->asked, false);
        if (!one->begun && !one->over && (asked || sealed)) {
            one->begun = true;
            jobs->open++;
            begin(jobs, one);
        }
    }
}

/* ---- all sources ----------------------------------------------------------------------------------------------- */

static void put_ended_away(mr_source_jobs *jobs) {
    ask_threads_to_end(jobs, jobs->first, jobs->next);
    for (size_t i = jobs->first; i < jobs->next; i++) {
        job *one = &jobs->items[i];
        if (!one->ending)
            continue;
        put_away(one);
        one->over = true;
        jobs->open--;
    }
    while (jobs->first < jobs->next && jobs->items[jobs->first].over)
        jobs->first++;
}

static void look(void *context) {
    mr_source_jobs *jobs = context;
    if (jobs->changes) {
        look_at_slots(jobs);
        return;
    }
    put_ended_away(jobs);
    while (jobs->next < jobs->count &&
           (jobs->open < (size_t)jobs->run->plan->jobs || mr_control_is_stopping(jobs->run))) {
        jobs->open++;
        begin(jobs, &jobs->items[jobs->next++]);
    }
}

void mr_source_jobs_look(mr_source_jobs *jobs) {
    if (jobs)
        mr_task_wake(&jobs->task);
}

void mr_source_jobs_ask(mr_source_jobs *jobs, uint32_t source) {
    atomic_store(&jobs->items[jobs->item_of[source]].asked, true);
    mr_task_wake(&jobs->task);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

typedef void visitor(mr_source_jobs *jobs, job *one, mr_instance *instance);

/* Calls the visitor for each waiting source and each instance that it reaches, including the source itself. */
static void visit(mr_source_jobs *jobs, visitor *call) {
    for (size_t i = 0; i < mr_wiring_count(jobs->wiring); i++) {
        mr_instance *instance = mr_wiring_at(jobs->wiring, i);
        bool alone = instance->self.source != MR_SOURCE_NONE;
        const uint32_t *sources = alone ? &instance->self.source : instance->vertex->sources;
        size_t count = alone ? 1 : instance->vertex->source_count;
        for (size_t s = 0; s < count; s++)
            if (jobs->run->plan->vertices[sources[s]].offer.waits)
                call(jobs, &jobs->items[jobs->item_of[sources[s]]], instance);
    }
}

/* Counts one end for each stage that the source reaches, and one more if the stage serves only this source. */
static void count_one(mr_source_jobs *jobs, job *one, mr_instance *instance) {
    bool alone = instance->self.source != MR_SOURCE_NONE;
    mr_ends_expect(jobs->run->ends, one->source, 1 + alone);
    one->own_count += alone;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++)
        one->inlet_count += mr_link_has_source(mr_inlets_link(&instance->inlets, port), one->source);
}

static void list_one(mr_source_jobs *jobs, job *one, mr_instance *instance) {
    if (instance->self.source != MR_SOURCE_NONE)
        one->own[one->own_count++] = instance;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++) {
        mr_link *link = mr_inlets_link(&instance->inlets, port);
        if (!mr_link_has_source(link, one->source))
            continue;
        mr_link_expect_later(link, one->source);
        one->inlets[one->inlet_count++] = link;
    }
}

static void list_jobs(mr_source_jobs *jobs) {
    const mr_plan *plan = jobs->run->plan;
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].offer.waits) {
            jobs->item_of[s] = jobs->count;
            jobs->items[jobs->count++].source = s;
        }
    visit(jobs, count_one);
    for (size_t i = 0; i < jobs->count; i++)
        jobs->items[i].asked = !plan->vertices[jobs->items[i].source].offer.reserved;
}

static int list_reach(mr_source_jobs *jobs) {
    size_t own_count = 0, inlet_count = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        own_count += jobs->items[i].own_count;
        inlet_count += jobs->items[i].inlet_count;
    }
    jobs->owns = mr_calloc(own_count + 1, sizeof(mr_instance *));
    jobs->inlets = mr_calloc(inlet_count + 1, sizeof(mr_link *));
    if (!jobs->owns || !jobs->inlets)
        return MR_ERROR_MEMORY;
    own_count = inlet_count = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        job *one = &jobs->items[i];
        one->own = jobs->owns + own_count;
        one->inlets = jobs->inlets + inlet_count;
        own_count += one->own_count;
        inlet_count += one->inlet_count;
        one->own_count = one->inlet_count = 0;
    }
    visit(jobs, list_one);
    return MR_OK;
}

int mr_source_jobs_create(mr_source_jobs **jobs, mr_run *run, const mr_wiring *wiring) {
    size_t waiting = mr_plan_waiting(run->plan);
    mr_source_jobs *made = waiting ? mr_calloc(1, sizeof *made) : NULL;
    if (!waiting)
        return MR_OK;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for waiting sources");
    *jobs = made;
    made->run = run;
    made->wiring = wiring;
    made->changes = mr_plan_changes(run->plan);
    mr_task_init(&made->task, run->executor, look, made);
    if (mr_ends_create(&run->ends, run->plan->source_count, &made->task))
        return MR_ERROR_MEMORY;
    made->items = mr_calloc(waiting, sizeof *made->items);
    made->item_of = mr_calloc(run->plan->source_count, sizeof *made->item_of);
    if (!made->items || !made->item_of)
        return mr_fail(MR_ERROR_MEMORY, "no memory for waiting sources");
    list_jobs(made);
    return list_reach(made) ? mr_fail(MR_ERROR_MEMORY, "no memory for waiting sources") : MR_OK;
}

void mr_source_jobs_set_calls(mr_source_jobs *jobs, const mr_source_jobs_calls *calls) {
    if (jobs)
        jobs->calls = *calls;
}

void mr_source_jobs_destroy(mr_source_jobs **jobs) {
    mr_source_jobs *gone = *jobs;
    if (!gone)
        return;
    /* A program may still hold frames. */
    for (size_t i = 0; gone->changes && i < gone->count; i++)
        mr_ledger_await_empty(gone->run->ledger, gone->items[i].source, NULL, NULL);
    mr_task_fini(&gone->task);
    mr_ends_destroy(&gone->run->ends);
    mr_free(gone->items);
    mr_free(gone->item_of);
    mr_free(gone->owns);
    mr_free(gone->inlets);
    mr_free(gone);
    *jobs = NULL;
}

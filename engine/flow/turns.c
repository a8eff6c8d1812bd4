#include "engine/flow/turns.h"

#include "engine/base/memory.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ends.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/sources.h"

/* A source that waits or has begun, or a slot that sources use in turn. */
typedef struct turn {
    uint32_t source;
    bool begun;           /* for a slot: the source has not left since */
    bool ending;          /* it has ended, and the threads were asked to end */
    bool over;            /* it was put away, and no source follows */
    size_t own_count;     /* the source, and the stages that serve only it */
    mr_instance **own;
    size_t inlet_count;   /* links that still expect this source */
    mr_link **inlets;
    _Atomic bool asked;   /* for a slot: a source is there and may begin */
} turn;

/* What each source reaches is listed once: with thousands of sources, searching all stages for each takes minutes. */
struct mr_turns {
    mr_run *run;
    const mr_wiring *wiring;
    mr_turns_calls calls;
    mr_task task;         /* only this task changes the fields below */
    bool changes;         /* sources come and go: each may begin when it is there */
    size_t count;
    turn *turns;
    size_t *turn_of;      /* by source */
    mr_instance **owns;   /* for all turns, one after another; so are the next */
    mr_link **inlets;
    size_t first;         /* every turn before it is over */
    size_t next;          /* the first that has not begun */
    size_t open;          /* turns begun and not over */
};

/* ---- one source ------------------------------------------------------------------------------------------------ */

/* The source's frames may now come. */
static void tell_links(const turn *one) {
    for (size_t i = 0; i < one->inlet_count; i++)
        mr_link_begin(one->inlets[i], one->source);
}

static int give_threads(const mr_run *run, const turn *one) {
    int status = MR_OK;
    for (size_t i = 0; i < one->own_count && !run->seed && !status; i++)
        if (one->own[i]->vertex->calls.blocking)
            status = mr_instance_give_thread(one->own[i]);
    return status;
}

/* Leaves the source and the stages that serve only it closed: they only pass the end on. */
static void leave_shut(const turn *one) {
    for (size_t i = 0; i < one->own_count; i++)
        mr_instance_leave_shut(one->own[i]);
}

static void begin(mr_turns *turns, const turn *one) {
    const mr_run *run = turns->run;
    mr_instance *source = mr_wiring_source(turns->wiring, one->source);
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
        turns->calls.end_pushes(turns->calls.context, one->source);
    mr_instance_wake(source);
}

/* Asks all of them before the first is put away, so that they end in parallel. Sources that end meanwhile must wait for
 * the next look. */
static void ask_threads_to_end(mr_turns *turns, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        turn *one = &turns->turns[i];
        one->ending = !one->over && (one->begun || !turns->changes) &&
                      mr_ends_have_passed(turns->run->ends, one->source) &&
                      !mr_ends_leave(turns->run->ends, one->source);
        for (size_t own = 0; one->ending && own < one->own_count; own++)
            for (size_t e = 0; e < one->own[own]->entry_count; e++)
                mr_task_ask_thread_to_end(&one->own[own]->entries[e].task);
    }
}

static void put_away(const turn *one) {
    for (size_t i = 0; i < one->own_count; i++)
        mr_instance_put_away(one->own[i]);
}

/* ---- source slots ------------------------------------------------------------------------------------------------ */

/* Makes the slot ready for the next source. False: somebody still holds the last source's frames, or an instance is
 * about to run; the task will be woken. */
static bool vacate(mr_turns *turns, turn *one) {
    if (!mr_ledger_await_empty(turns->run->ledger, one->source, mr_task_waker, &turns->task))
        return false;
    for (size_t i = 0; i < one->own_count; i++)
        if (!mr_instance_vacate(one->own[i])) {
            mr_task_wake_behind(&turns->task, false);
            return false;
        }
    return true;
}

static void leave(mr_turns *turns, turn *one) {
    if (!vacate(turns, one))
        return;
    mr_ends_renew(turns->run->ends, one->source);
    one->begun = false;
    turns->open--;
    if (turns->calls.retire(turns->calls.context, one->source))
        atomic_store(&one->asked, true);
}

/* A vacant slot must see an end too, so that the run can end. */
static void look_at_slots(mr_turns *turns) {
    ask_threads_to_end(turns, 0, turns->count);
    for (size_t i = 0; i < turns->count; i++) {
        turn *one = &turns->turns[i];
        if (one->ending) {
            put_away(one);
            one->begun = false;
            one->over = true;
            turns->open--;
        } else if (one->begun && mr_ends_have_passed(turns->run->ends, one->source) &&
                   mr_ends_leave(turns->run->ends, one->source)) {
            leave(turns, one);
        }
        bool asked = !one->begun && !one->over && atomic_exchange(&one->asked, false);
        if (!one->begun && !one->over && (asked || mr_control_is_stopping(turns->run))) {
            one->begun = true;
            turns->open++;
            begin(turns, one);
        }
    }
}

/* ---- all sources ----------------------------------------------------------------------------------------------- */

static void put_ended_away(mr_turns *turns) {
    ask_threads_to_end(turns, turns->first, turns->next);
    for (size_t i = turns->first; i < turns->next; i++) {
        turn *one = &turns->turns[i];
        if (!one->ending)
            continue;
        put_away(one);
        one->over = true;
        turns->open--;
    }
    while (turns->first < turns->next && turns->turns[turns->first].over)
        turns->first++;
}

static void look(void *context) {
    mr_turns *turns = context;
    if (turns->changes) {
        look_at_slots(turns);
        return;
    }
    put_ended_away(turns);
    while (turns->next < turns->count &&
           (turns->open < (size_t)turns->run->plan->jobs || mr_control_is_stopping(turns->run))) {
        turns->open++;
        begin(turns, &turns->turns[turns->next++]);
    }
}

void mr_turns_look(mr_turns *turns) {
    if (turns)
        mr_task_wake(&turns->task);
}

void mr_turns_ask(mr_turns *turns, uint32_t source) {
    atomic_store(&turns->turns[turns->turn_of[source]].asked, true);
    mr_task_wake(&turns->task);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

typedef void visitor(mr_turns *turns, turn *one, mr_instance *instance);

/* Calls the visitor for each waiting source and each instance that it reaches, including the source itself. */
static void visit(mr_turns *turns, visitor *call) {
    for (size_t i = 0; i < mr_wiring_count(turns->wiring); i++) {
        mr_instance *instance = mr_wiring_at(turns->wiring, i);
        bool alone = instance->self.source != MR_SOURCE_NONE;
        const uint32_t *sources = alone ? &instance->self.source : instance->vertex->sources;
        size_t count = alone ? 1 : instance->vertex->source_count;
        for (size_t s = 0; s < count; s++)
            if (turns->run->plan->vertices[sources[s]].offer.waits)
                call(turns, &turns->turns[turns->turn_of[sources[s]]], instance);
    }
}

/* Counts one end for each stage that the source reaches, and one more if the stage serves only this source. */
static void count_one(mr_turns *turns, turn *one, mr_instance *instance) {
    bool alone = instance->self.source != MR_SOURCE_NONE;
    mr_ends_expect(turns->run->ends, one->source, 1 + alone);
    one->own_count += alone;
    for (size_t port = 0; port < mr_inlets_count(&instance->inlets); port++)
        one->inlet_count += mr_link_has_source(mr_inlets_link(&instance->inlets, port), one->source);
}

static void list_one(mr_turns *turns, turn *one, mr_instance *instance) {
    (void)turns;
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

static void list_turns(mr_turns *turns) {
    const mr_plan *plan = turns->run->plan;
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].offer.waits) {
            turns->turn_of[s] = turns->count;
            turns->turns[turns->count++].source = s;
        }
    visit(turns, count_one);
    for (size_t i = 0; i < turns->count; i++)
        turns->turns[i].asked = !plan->vertices[turns->turns[i].source].offer.reserved;
}

static int list_reach(mr_turns *turns) {
    size_t own_count = 0, inlet_count = 0;
    for (size_t i = 0; i < turns->count; i++) {
        own_count += turns->turns[i].own_count;
        inlet_count += turns->turns[i].inlet_count;
    }
    turns->owns = mr_calloc(own_count + 1, sizeof(mr_instance *));
    turns->inlets = mr_calloc(inlet_count + 1, sizeof(mr_link *));
    if (!turns->owns || !turns->inlets)
        return MR_ERROR_MEMORY;
    own_count = inlet_count = 0;
    for (size_t i = 0; i < turns->count; i++) {
        turn *one = &turns->turns[i];
        one->own = turns->owns + own_count;
        one->inlets = turns->inlets + inlet_count;
        own_count += one->own_count;
        inlet_count += one->inlet_count;
        one->own_count = one->inlet_count = 0;
    }
    visit(turns, list_one);
    return MR_OK;
}

int mr_turns_create(mr_turns **turns, mr_run *run, const mr_wiring *wiring) {
    size_t waiting = mr_plan_waiting(run->plan);
    mr_turns *made = waiting ? mr_calloc(1, sizeof *made) : NULL;
    if (!waiting)
        return MR_OK;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources");
    *turns = made;
    made->run = run;
    made->wiring = wiring;
    made->changes = mr_plan_changes(run->plan);
    mr_task_init(&made->task, run->executor, look, made);
    if (mr_ends_create(&run->ends, run->plan->source_count, &made->task))
        return MR_ERROR_MEMORY;
    made->turns = mr_calloc(waiting, sizeof *made->turns);
    made->turn_of = mr_calloc(run->plan->source_count, sizeof *made->turn_of);
    if (!made->turns || !made->turn_of)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources");
    list_turns(made);
    return list_reach(made) ? mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources") : MR_OK;
}

void mr_turns_set_calls(mr_turns *turns, const mr_turns_calls *calls) {
    if (turns)
        turns->calls = *calls;
}

void mr_turns_destroy(mr_turns **turns) {
    mr_turns *gone = *turns;
    if (!gone)
        return;
    /* A program may still hold frames. */
    for (size_t i = 0; gone->changes && i < gone->count; i++)
        mr_ledger_await_empty(gone->run->ledger, gone->turns[i].source, NULL, NULL);
    mr_task_fini(&gone->task);
    mr_ends_destroy(&gone->run->ends);
    mr_free(gone->turns);
    mr_free(gone->turn_of);
    mr_free(gone->owns);
    mr_free(gone->inlets);
    mr_free(gone);
    *turns = NULL;
}

#include "engine/flow/turns.h"

#include "engine/base/memory.h"
#include "engine/flow/graph.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run.h"
#include "engine/flow/seats.h"

/* A source that waits, or has begun; or the place of one after the other. */
typedef struct turn {
    uint32_t source;
    bool begun;           /* of a place: its source has not left since */
    bool ending;          /* it has ended, and its threads were asked to */
    bool over;            /* it was put away, and none comes after it */
    size_t own_count;     /* the source, and the stages that work for it alone */
    mr_instance **own;
    size_t inlet_count;   /* links that count it among the sources to come */
    mr_link **inlets;
    size_t ends;          /* of the source in each stage, and of the stages that work for it alone */
    _Atomic size_t left;  /* of them, those to come */
    _Atomic bool leaves;  /* those that came leave the place to another */
    _Atomic bool asked;   /* of a place: a source is there, and may begin */
} turn;

/* What a source reaches is listed once: with thousands of sources a walk over all stages for each takes minutes. */
struct mr_turns {
    mr_graph *graph;
    mr_task task;         /* only this changes the fields below */
    bool changes;         /* sources come and go: all that are there may begin */
    size_t count;
    turn *turns;
    size_t *turn_of;      /* by source */
    mr_instance **owns;   /* of all turns, one after the other; likewise the next */
    mr_link **inlets;
    size_t first;         /* all before it are over */
    size_t next;          /* the first that has not begun */
    size_t open;          /* have begun, and are not over */
};

/* ---- one source ------------------------------------------------------------------------------------------------ */

/* From now on its frames may come. */
static void tell_links(const turn *one) {
    for (size_t i = 0; i < one->inlet_count; i++)
        mr_link_begin(one->inlets[i], one->source);
}

static int give_threads(const mr_graph *graph, const turn *one) {
    int status = MR_OK;
    for (size_t i = 0; i < one->own_count && !graph->seed && !status; i++)
        if (one->own[i]->vertex->blocking)
            status = mr_task_detach(&one->own[i]->entries[0].task, one->own[i]->self.id);
    return status;
}

/* Leaves it and the stages that work for it alone closed: they only pass the end on. */
static void leave_shut(const turn *one) {
    for (size_t i = 0; i < one->own_count; i++) {
        mr_instance *instance = one->own[i];
        for (size_t e = 0; e < instance->entry_count; e++)
            mr_task_return(&instance->entries[e].task);
        atomic_store(&instance->failed, true);
        atomic_store(&instance->opening.ready, true);
    }
}

static void begin(mr_graph *graph, const turn *one) {
    const mr_plan_vertex *vertex = &graph->plan->vertices[one->source];
    bool stopping = atomic_load(&graph->stopping);
    int status = stopping ? MR_OK : give_threads(graph, one);
    if (status)
        mr_graph_fail_source(graph, one->source, status, mr_message());
    if (stopping || status)
        leave_shut(one);
    tell_links(one);
    for (size_t i = 0; i < one->own_count; i++)
        atomic_store(&one->own[i]->opening.begun, true);
    /* The program cannot end a source that is not there. */
    if (vertex->type->external && (stopping || status))
        mr_graph_end_source(graph, one->source);
    mr_instance_wake(graph->sources[one->source].instance);
}

/* Before the first is put away, so that they end beside each other. Those that end meanwhile have the next look. */
static void ask_threads_to_end(mr_turns *turns, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        turn *one = &turns->turns[i];
        one->ending = !one->over && (one->begun || !turns->changes) && !atomic_load(&one->left) &&
                      !atomic_load(&one->leaves);
        for (size_t own = 0; one->ending && own < one->own_count; own++)
            for (size_t e = 0; e < one->own[own]->entry_count; e++)
                mr_task_ask_thread_to_end(&one->own[own]->entries[e].task);
    }
}

static void put_away(const turn *one) {
    for (size_t i = 0; i < one->own_count; i++)
        mr_instance_put_away(one->own[i]);
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

static void wake(void *context) {
    mr_task_wake(context);
}

/* Makes the place ready for the next source. False: frames of the last are held somewhere, or an instance is about to
 * run; the task will be woken. */
static bool vacate(mr_turns *turns, turn *one) {
    mr_graph *graph = turns->graph;
    if (!mr_ledger_await_empty(graph->ledger, one->source, wake, &turns->task))
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
    atomic_store(&one->left, one->ends);
    atomic_store(&one->leaves, false);
    one->begun = false;
    turns->open--;
    if (mr_seat_left(turns->graph, one->source))
        atomic_store(&one->asked, true);
}

/* A place that nobody has must see an end, too, for the run to end. */
static void look_at_places(mr_turns *turns) {
    ask_threads_to_end(turns, 0, turns->count);
    for (size_t i = 0; i < turns->count; i++) {
        turn *one = &turns->turns[i];
        if (one->ending) {
            put_away(one);
            one->begun = false;
            one->over = true;
            turns->open--;
        } else if (one->begun && !atomic_load(&one->left) && atomic_load(&one->leaves)) {
            leave(turns, one);
        }
        bool asked = !one->begun && !one->over && atomic_exchange(&one->asked, false);
        if (!one->begun && !one->over && (asked || atomic_load(&turns->graph->stopping))) {
            one->begun = true;
            turns->open++;
            begin(turns->graph, one);
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
        look_at_places(turns);
        return;
    }
    put_ended_away(turns);
    while (turns->next < turns->count &&
           (turns->open < (size_t)turns->graph->plan->jobs || atomic_load(&turns->graph->stopping))) {
        turns->open++;
        begin(turns->graph, &turns->turns[turns->next++]);
    }
}

void mr_turns_look(mr_turns *turns) {
    if (turns)
        mr_task_wake(&turns->task);
}

void mr_turns_note(mr_turns *turns, uint32_t source, bool leaves) {
    if (!turns || !turns->graph->plan->vertices[source].waits)
        return;
    turn *one = &turns->turns[turns->turn_of[source]];
    if (leaves)
        atomic_store(&one->leaves, true);
    if (atomic_fetch_sub(&one->left, 1) == 1)
        mr_task_wake(&turns->task);
}

void mr_turns_ask(mr_turns *turns, uint32_t source) {
    atomic_store(&turns->turns[turns->turn_of[source]].asked, true);
    mr_task_wake(&turns->task);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

typedef void visitor(mr_turns *turns, turn *one, mr_instance *instance);

/* Calls it for each source that waits with each stage that it reaches, and for the source itself. */
static void visit(mr_turns *turns, visitor *call) {
    for (size_t i = 0; i < turns->graph->instance_count; i++) {
        mr_instance *instance = turns->graph->instances[i];
        bool alone = instance->self.source != MR_SOURCE_NONE;
        const uint32_t *sources = alone ? &instance->self.source : instance->vertex->sources;
        size_t count = alone ? 1 : instance->vertex->source_count;
        for (size_t s = 0; s < count; s++)
            if (turns->graph->plan->vertices[sources[s]].waits)
                call(turns, &turns->turns[turns->turn_of[sources[s]]], instance);
    }
}

/* Counts one end in each stage that the source reaches, and one for the stage itself if it works for that source
 * alone. */
static void count_one(mr_turns *turns, turn *one, mr_instance *instance) {
    (void)turns;
    bool alone = instance->self.source != MR_SOURCE_NONE;
    one->ends += 1 + alone;
    one->own_count += alone;
    for (size_t port = 0; port < instance->intake.port_count; port++)
        one->inlet_count += mr_link_has_source(instance->intake.ports[port], one->source);
}

static void list_one(mr_turns *turns, turn *one, mr_instance *instance) {
    (void)turns;
    if (instance->self.source != MR_SOURCE_NONE)
        one->own[one->own_count++] = instance;
    for (size_t port = 0; port < instance->intake.port_count; port++) {
        mr_link *link = instance->intake.ports[port];
        if (!mr_link_has_source(link, one->source))
            continue;
        mr_link_expect_later(link, one->source);
        one->inlets[one->inlet_count++] = link;
    }
}

static void list_turns(mr_turns *turns) {
    const mr_plan *plan = turns->graph->plan;
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].waits) {
            turns->turn_of[s] = turns->count;
            turns->turns[turns->count++].source = s;
        }
    visit(turns, count_one);
    for (size_t i = 0; i < turns->count; i++) {
        turns->turns[i].left = turns->turns[i].ends;
        turns->turns[i].asked = !plan->vertices[turns->turns[i].source].reserved;
    }
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

int mr_turns_create(mr_turns **turns, mr_graph *graph) {
    size_t waiting = mr_plan_waiting(graph->plan);
    mr_turns *made = waiting ? mr_calloc(1, sizeof *made) : NULL;
    if (!waiting)
        return MR_OK;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources");
    *turns = made;
    made->graph = graph;
    made->changes = mr_plan_changes(graph->plan);
    mr_task_init(&made->task, graph->executor, look, made);
    made->turns = mr_calloc(waiting, sizeof *made->turns);
    made->turn_of = mr_calloc(graph->plan->source_count, sizeof *made->turn_of);
    if (!made->turns || !made->turn_of)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources");
    list_turns(made);
    return list_reach(made) ? mr_fail(MR_ERROR_MEMORY, "no memory for the turns of sources") : MR_OK;
}

void mr_turns_destroy(mr_turns **turns) {
    mr_turns *gone = *turns;
    if (!gone)
        return;
    /* A program may still hold frames. */
    for (size_t i = 0; gone->changes && i < gone->count; i++)
        mr_ledger_await_empty(gone->graph->ledger, gone->turns[i].source, NULL, NULL);
    mr_task_fini(&gone->task);
    mr_free(gone->turns);
    mr_free(gone->turn_of);
    mr_free(gone->owns);
    mr_free(gone->inlets);
    mr_free(gone);
    *turns = NULL;
}

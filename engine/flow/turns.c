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
    bool over;            /* it was put away, and none comes after it */
    size_t ends;          /* of the source in each stage, and of the stages that work for it alone */
    _Atomic size_t left;  /* of them, those to come */
    _Atomic bool leaves;  /* those that came leave the place to another */
    _Atomic bool asked;   /* of a place: a source is there, and may begin */
} turn;

struct mr_turns {
    mr_graph *graph;
    mr_task task;         /* only this changes the fields below */
    bool changes;         /* sources come and go: all that are there may begin */
    size_t count;
    turn *turns;
    size_t *turn_of;      /* by source */
    size_t first;         /* all before it are over */
    size_t next;          /* the first that has not begun */
    size_t open;          /* have begun, and are not over */
};

/* ---- one source ------------------------------------------------------------------------------------------------ */

static bool works_for(const mr_instance *instance, uint32_t source) {
    return instance->self.source == source;
}

/* From now on its frames may come. */
static void tell_links(mr_graph *graph, uint32_t source) {
    for (size_t i = 0; i < graph->instance_count; i++)
        for (size_t port = 0; port < graph->instances[i]->intake.port_count; port++)
            mr_link_begin(graph->instances[i]->intake.ports[port], source);
}

static int give_threads(mr_graph *graph, uint32_t source) {
    int status = MR_OK;
    for (size_t i = 0; i < graph->instance_count && !graph->seed && !status; i++) {
        mr_instance *instance = graph->instances[i];
        if (works_for(instance, source) && instance->vertex->blocking)
            status = mr_task_detach(&instance->entries[0].task, instance->self.id);
    }
    return status;
}

/* Leaves it and the stages that work for it alone closed: they only pass the end on. */
static void leave_shut(mr_graph *graph, uint32_t source) {
    for (size_t i = 0; i < graph->instance_count; i++) {
        if (!works_for(graph->instances[i], source))
            continue;
        for (size_t e = 0; e < graph->instances[i]->entry_count; e++)
            mr_task_return(&graph->instances[i]->entries[e].task);
        atomic_store(&graph->instances[i]->failed, true);
        atomic_store(&graph->instances[i]->opening.ready, true);
    }
}

static void begin(mr_graph *graph, uint32_t source) {
    const mr_plan_vertex *vertex = &graph->plan->vertices[source];
    bool stopping = atomic_load(&graph->stopping);
    int status = stopping ? MR_OK : give_threads(graph, source);
    if (status)
        mr_graph_fail_source(graph, source, status, mr_message());
    if (stopping || status)
        leave_shut(graph, source);
    tell_links(graph, source);
    for (size_t i = 0; i < graph->instance_count; i++)
        if (works_for(graph->instances[i], source))
            atomic_store(&graph->instances[i]->opening.begun, true);
    /* The program cannot end a source that is not there. */
    if (vertex->type->external && (stopping || status))
        mr_graph_end_source(graph, source);
    mr_instance_wake(graph->sources[source].instance);
}

static void put_away(mr_graph *graph, uint32_t source) {
    for (size_t i = 0; i < graph->instance_count; i++)
        if (works_for(graph->instances[i], source))
            mr_instance_put_away(graph->instances[i]);
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
    for (size_t i = 0; i < graph->instance_count; i++)
        if (works_for(graph->instances[i], one->source) && !mr_instance_vacate(graph->instances[i])) {
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
    for (size_t i = 0; i < turns->count; i++) {
        turn *one = &turns->turns[i];
        if (one->begun && !atomic_load(&one->left)) {
            if (atomic_load(&one->leaves)) {
                leave(turns, one);
            } else {
                put_away(turns->graph, one->source);
                one->begun = false;
                one->over = true;
                turns->open--;
            }
        }
        bool asked = !one->begun && !one->over && atomic_exchange(&one->asked, false);
        if (!one->begun && !one->over && (asked || atomic_load(&turns->graph->stopping))) {
            one->begun = true;
            turns->open++;
            begin(turns->graph, one->source);
        }
    }
}

/* ---- all sources ----------------------------------------------------------------------------------------------- */

static void put_ended_away(mr_turns *turns) {
    for (size_t i = turns->first; i < turns->next; i++) {
        turn *one = &turns->turns[i];
        if (one->over || atomic_load(&one->left))
            continue;
        put_away(turns->graph, one->source);
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
        begin(turns->graph, turns->turns[turns->next++].source);
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

/* Counts one end in each stage that the source reaches, and one for the stage itself if it works for that source
 * alone. */
static void expect(mr_turns *turns, const mr_instance *instance) {
    bool alone = instance->self.source != MR_SOURCE_NONE;
    const uint32_t *sources = alone ? &instance->self.source : instance->vertex->sources;
    size_t count = alone ? 1 : instance->vertex->source_count;
    for (size_t i = 0; i < count; i++) {
        if (!turns->graph->plan->vertices[sources[i]].waits)
            continue;
        turns->turns[turns->turn_of[sources[i]]].ends += 1 + alone;
        for (size_t port = 0; port < instance->intake.port_count; port++)
            mr_link_expect_later(instance->intake.ports[port], sources[i]);
    }
}

static void list_turns(mr_turns *turns) {
    const mr_plan *plan = turns->graph->plan;
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].waits) {
            turns->turn_of[s] = turns->count;
            turns->turns[turns->count++].source = s;
        }
    for (size_t i = 0; i < turns->graph->instance_count; i++)
        expect(turns, turns->graph->instances[i]);
    for (size_t i = 0; i < turns->count; i++) {
        turns->turns[i].left = turns->turns[i].ends;
        turns->turns[i].asked = !plan->vertices[turns->turns[i].source].reserved;
    }
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
    return MR_OK;
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
    mr_free(gone);
    *turns = NULL;
}

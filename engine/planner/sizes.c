/* Queue lengths that the YAML leaves open, and how many buffers each stage's first output needs (plan.h has the
 * formula). */
#include "engine/planner/sizes.h"

#include "engine/base/memory.h"
#include "engine/plan/cut.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/gathering.h"
#include "millrace/status.h"

enum { SMALL_FRAMES_QUEUE = 32 };

/* What holds an output downstream: how many per source and producing instance, and how many in all. */
typedef struct holding {
    int64_t per_source, in_all;
} holding;

static const mr_format_set *carried(const mr_plan_builder *b, const mr_view_link *edge) {
    return &b->plan->vertices[edge->from].outputs[edge->from_port].set;
}

/* Whether frames can leave a stage in that input's buffers. */
static bool passes_through(const mr_plan_vertex *vertex, int port) {
    for (size_t i = 0; i < vertex->output_count && !vertex->copy; i++)
        if (vertex->outputs[i].shares == port)
            return true;
    return false;
}

bool mr_plan_passes_on(const mr_plan_builder *b, const mr_plan_link *link) {
    return passes_through(&b->plan->vertices[link->to], link->to_port);
}

/* If one way to a join gathers batches, the other must hold as many frames meanwhile. With less room in the queue it
 * would stop the stage that feeds both, and the batch could never fill. An author's length stays (lint_timing.c). */
static void lengthen_joins(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        vertex->handling.gathered = 0;
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            int before = b->plan->vertices[b->link[b->in.item[i]].from].handling.gathered;
            vertex->handling.gathered = before > vertex->handling.gathered ? before : vertex->handling.gathered;
        }
        if (vertex->input_count > 1 && b->vertex[v]->common.queue.size == 0 &&
            vertex->handling.queue < vertex->handling.gathered)
            vertex->handling.queue = vertex->handling.gathered;
        int gathers = mr_plan_waits_for_batch(vertex) ? mr_plan_call_frames(vertex) : 0;
        vertex->handling.gathered = mr_plan_cap((int64_t)vertex->handling.gathered + gathers);
    }
}

/* The stage that makes the frames of objects stops while the stage that gathers these has no room for more. That waits
 * for a frame, which may be in a batch that has yet to fill. An author's length stays (lint_timing.c). */
static int lengthen_splits(mr_plan_builder *b) {
    bool *split = mr_calloc((size_t)b->count, sizeof *split);
    int status = split ? MR_OK : MR_ERROR_MEMORY;
    for (int v = 0; v < b->count && !status; v++) {
        mr_gathering found;
        if (!mr_plan_unites(b, v))
            continue;
        status = mr_plan_gathering(b, v, MR_PLAN_FRAMES, MR_PLAN_OBJECTS, &found);
        mr_plan_mark_splits(b, v, split);
        for (int at = 0; at < v && !status; at++) {
            mr_planned_handling *handling = &b->plan->vertices[at].handling;
            const int wanted = mr_plan_queue_beside(found.all.frames);
            if (split[at] && b->vertex[at]->common.queue.size == 0 && handling->queue < wanted)
                handling->queue = wanted;
        }
    }
    mr_free(split);
    return status;
}

/* A call that passes frames between those of a batch holds several of each source. They need room at the next stage, or
 * the call leaves before the batch is full. */
static void lengthen_after_passing(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++)
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            const mr_plan_vertex *from = &b->plan->vertices[b->link[b->in.item[i]].from];
            mr_plan_vertex *to = &b->plan->vertices[v];
            const int64_t sources = from->source_count > 0 ? (int64_t)from->source_count : 1;
            const int64_t batches = (from->calls.batch + sources - 1) / sources + 1;
            const int wanted = mr_plan_cap(batches * from->calls.spacing);
            if (from->calls.batch > 1 && from->calls.spacing > 1 && b->vertex[v]->common.queue.size == 0 &&
                to->handling.queue < wanted)
                to->handling.queue = wanted;
        }
}

/* Frames without our payload (packets, results) are small. More can wait, so that stages that feed each other take
 * turns less often. Not if the author gave a length, or wants old frames dropped. */
static void lengthen_small(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        bool small = vertex->handling.policy == MR_POLICY_BLOCK && b->vertex[v]->common.queue.size == 0;
        for (int i = b->in.start[v]; small && i < b->in.start[v + 1]; i++) {
            mr_payload payload = carried(b, &b->plan->edges[b->in.item[i]])->payload;
            small = payload == MR_PAYLOAD_PACKET || payload == MR_PAYLOAD_RESULTS;
        }
        if (small && vertex->input_count > 0 && vertex->handling.queue < SMALL_FRAMES_QUEUE)
            vertex->handling.queue = SMALL_FRAMES_QUEUE;
    }
}

/* Whether tensors among results are in a vertex's buffers: those that it adds, or, for a copy, the input's. Every frame
 * made from theirs keeps them, even without the payload, until a copy makes them anew. */
static bool holds_results(const mr_plan_vertex *vertex) {
    const mr_planned_result *others = vertex->input_count && !vertex->copy ? vertex->inputs[0].results : NULL;
    bool more = vertex->copy && vertex->inputs[0].more_results;
    for (size_t i = 0; i < vertex->output_count; i++)
        for (const mr_planned_result *one = vertex->outputs[i].results; one && one != others; one = one->next)
            more = more || !one->kind->fields;
    return more;
}

/* How the places after a stage are counted. */
typedef struct counting {
    bool results; /* those that hold results; else payloads */
    bool least;   /* only those that the pipeline needs to make progress */
} counting;

/* A stage can make progress with one call, and the next call's inputs in the queue. It needs as many as planned if
 * frames wait for others: before a join, and at a cut until the other end has settled them. */
static bool needs_less(const mr_plan_vertex *to) {
    return to->input_count <= 1 && !mr_plan_cut_of(to);
}

/* A copy passes frames that are already where it copies to: those that one of several devices made, or the processors
 * in reserve. */
static bool copy_passes(const mr_plan_vertex *from, const mr_plan_vertex *copy) {
    const int to = copy->copy == MR_COPY_DOWNLOAD ? 0 : copy->devices.at[0];
    for (size_t part = 0; copy->copy && part < mr_plan_parts(from); part++)
        if (mr_plan_part(from, part) == to)
            return true;
    return false;
}

/* How many of `edge`'s frames `to`, and all later vertices that the frames pass into, can hold. `behind`: the result
 * there, from the same counting. */
static holding held_by(const mr_plan_builder *b, const mr_view_link *edge, const holding *behind, counting of) {
    const mr_plan_vertex *to = &b->plan->vertices[edge->to];
    bool less = of.least && needs_less(to);
    const int frames = mr_plan_call_frames(to);
    int64_t calls = less ? frames : (int64_t)to->calls.in_flight * frames;
    holding held = {.per_source = less && frames < to->handling.queue ? frames : to->handling.queue};
    *(to->calls.entry == MR_ENTRY_PER_SOURCE ? &held.per_source : &held.in_all) += calls;
    const bool passes = copy_passes(&b->plan->vertices[edge->from], to);
    if (passes || (of.results ? !to->copy : passes_through(to, edge->to_port))) {
        held.per_source += behind[edge->to].per_source;
        held.in_all += behind[edge->to].in_all;
    }
    return held;
}

static holding held_behind(const mr_plan_builder *b, int v, const holding *behind, counting of) {
    holding sum = {0};
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        holding held = held_by(b, &b->plan->edges[b->out.item[i]], behind, of);
        sum.per_source = mr_plan_cap(sum.per_source + held.per_source);
        sum.in_all = mr_plan_cap(sum.in_all + held.in_all);
    }
    return sum;
}

static bool brings_tensors(const mr_planned_input *input) {
    for (const mr_planned_result *one = input->results; one; one = one->next)
        if (!one->kind->fields)
            return true;
    return input->more_results;
}

/* An uploaded input is held until the call is over, or as long as the stage's output that contains it: the payload, or
 * the results. */
static int count_staging(const mr_plan_vertex *vertex, int64_t making, int64_t payloads, int64_t results) {
    int64_t after = 0;
    for (size_t i = 0; i < vertex->input_count; i++) {
        int64_t passing = passes_through(vertex, (int)i) ? payloads : 0;
        int64_t held = brings_tensors(&vertex->inputs[i]) ? results : passing;
        after = held > after ? held : after;
    }
    int64_t ports = vertex->input_count > 1 ? (int64_t)vertex->input_count : 1;
    return mr_plan_cap(making * ports + after);
}

static int64_t held_of(const holding *behind, int64_t sources) {
    return behind->per_source * sources + behind->in_all;
}

/* Outputs from several devices wait for the slowest one, to be put in order again, while the others continue. */
static void lengthen_behind_several(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        for (int i = b->in.start[v]; !vertex->copy && i < b->in.start[v + 1]; i++) {
            const mr_plan_vertex *from = &b->plan->vertices[b->link[b->in.item[i]].from];
            int64_t waits = (int64_t)MR_PLAN_REORDERED * (int64_t)from->devices.count * from->devices.turn;
            if (from->devices.count > 1 && !mr_plan_same_devices(from, vertex) &&
                b->vertex[v]->common.queue.size == 0 && vertex->handling.queue < waits &&
                vertex->handling.policy == MR_POLICY_BLOCK)
                vertex->handling.queue = mr_plan_cap(waits);
        }
    }
}

/* By vertex. */
typedef struct holdings {
    holding *payloads, *results, *least_payloads, *least_results;
} holdings;

static int make_holdings(mr_plan_builder *b, holdings *all) {
    holding **const each[] = {&all->payloads, &all->results, &all->least_payloads, &all->least_results};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (!(*each[i] = mr_arena_array(b->arena, (size_t)b->count, sizeof(holding))))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* No more frames arrive than the sources have, if all know how many. */
static int64_t frames_that_come(const mr_plan_builder *b, const mr_plan_vertex *vertex) {
    int64_t sum = 0, largest = 0;
    for (size_t i = 0; i < vertex->source_count; i++) {
        int64_t frames = b->plan->vertices[vertex->sources[i]].offer.frames;
        if (frames <= 0)
            return MR_PLAN_MOST_BUFFERS;
        sum = mr_plan_cap(sum + frames);
        largest = frames > largest ? frames : largest;
    }
    return vertex->calls.entry == MR_ENTRY_PER_SOURCE ? mr_plan_cap(largest) : sum;
}

/* If a run is as fast as its slowest stage, queues before that stage are full and later ones empty. The slowest is not
 * known yet, so this takes half of all places. Payload in the other process's memory needs no place here. */
static int count_likely(const mr_plan_builder *b, const mr_plan_vertex *vertex) {
    const mr_cut *cut = mr_plan_cut_of(vertex);
    int64_t half = ((int64_t)vertex->needs.output_buffers + 1) / 2, frames = frames_that_come(b, vertex);
    if (cut && cut->shared_memory)
        return 0;
    return (int)(frames < half ? frames : half);
}

static void count_buffers(mr_plan_builder *b, int v, const holdings *all) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    bool results = holds_results(vertex);
    bool alone = vertex->role == MR_ROLE_SOURCE || vertex->calls.entry == MR_ENTRY_PER_SOURCE;
    int64_t sources = alone ? 1 : (int64_t)mr_plan_at_once(b->plan, vertex);
    int64_t making = (int64_t)vertex->calls.in_flight * mr_plan_call_frames(vertex);
    const holding *behind = results ? &all->results[v] : &all->payloads[v];
    const holding *least = results ? &all->least_results[v] : &all->least_payloads[v];
    vertex->needs.output_buffers = mr_plan_cap(vertex->needs.retained + making + held_of(behind, sources));
    vertex->needs.result_frames = mr_plan_cap(vertex->needs.retained + making + held_of(&all->results[v], sources));
    vertex->needs.least_buffers =
        mr_plan_cap(vertex->needs.retained + mr_plan_call_frames(vertex) + held_of(least, sources));
    /* A cut's window limits its frames, wherever they are then held. */
    if (vertex->role == MR_ROLE_CUT_IN)
        vertex->needs.output_buffers = vertex->needs.least_buffers = vertex->needs.result_frames =
            vertex->needs.retained;
    vertex->needs.likely_buffers = count_likely(b, vertex);
    if (mr_plan_parts(vertex) > 1 && !vertex->copy)
        vertex->memory.staging.count = count_staging(vertex, making, held_of(&all->payloads[v], sources),
                                              held_of(&all->results[v], sources));
}

int mr_plan_sizes(mr_plan_builder *b) {
    holdings all;
    if (make_holdings(b, &all) || lengthen_splits(b))
        return MR_ERROR_MEMORY;
    lengthen_joins(b);
    lengthen_after_passing(b);
    lengthen_small(b);
    lengthen_behind_several(b);
    for (int v = b->count - 1; v >= 0; v--) {
        all.payloads[v] = held_behind(b, v, all.payloads, (counting){0});
        all.results[v] = held_behind(b, v, all.results, (counting){.results = true});
        all.least_payloads[v] = held_behind(b, v, all.least_payloads, (counting){.least = true});
        all.least_results[v] = held_behind(b, v, all.least_results, (counting){.results = true, .least = true});
        count_buffers(b, v, &all);
    }
    return MR_OK;
}

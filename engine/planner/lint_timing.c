/* Batches that can never fill, or only after frames have waited long; deadlines for sources that keep to no clock, and
 * deadlines that cannot be met. */
#include "engine/planner/lint_timing.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/gathering.h"
#include "millrace/status.h"

/* ---- arriving frames ------------------------------------------------------------------------------------------- */

static const int64_t ANY_NUMBER = INT64_MAX / 2;

/* The most frames that can reach one instance of `v`: all source frames, on each way that they take. */
static int64_t frames_at(const mr_plan_builder *b, int v, const int64_t *frames) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    bool alone = vertex->calls.entry == MR_ENTRY_PER_SOURCE;
    int64_t sum = 0, largest = 0;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        int64_t more = frames[b->link[b->in.item[i]].from];
        largest = more > largest ? more : largest;
        sum = sum + more < ANY_NUMBER ? sum + more : ANY_NUMBER;
    }
    return alone || vertex->input_count > 1 ? largest : sum;
}

static mr_location place_of(const mr_plan_builder *b, int v, const char *key) {
    const mr_yaml *said = mr_yaml_nearest(b->vertex[v]->node, key);
    return said == b->vertex[v]->node ? b->vertex[v]->place : said->place;
}

/* The most frames that count for a batch, of `frames` that arrive: each source's first, and every `spacing`th later. */
static int64_t counted_of(const mr_plan_vertex *vertex, int64_t frames) {
    const bool alone = vertex->calls.entry == MR_ENTRY_PER_SOURCE || vertex->source_count == 0;
    const int64_t spacing = vertex->calls.spacing > 1 ? vertex->calls.spacing : 1;
    const int64_t sources = alone ? 1 : (int64_t)vertex->source_count;
    const int64_t counted = (frames + sources * (spacing - 1)) / spacing;
    return counted < frames ? counted : frames;
}

static void warn_of_few(const mr_plan_builder *b, int v, int64_t frames) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    const int64_t counted = counted_of(vertex, frames);
    char hint[96], works[64] = "";
    snprintf(hint, sizeof hint, "write a size of at most %lld", (long long)counted);
    if (counted < frames)
        snprintf(works, sizeof works, ", and it works on %lld of them", (long long)counted);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b, v, "batch.size"), hint,
                "stages.%s.batch: a batch of %d can never fill: its sources give %s%lld %s%s", b->vertex[v]->id,
                vertex->calls.batch, vertex->calls.entry == MR_ENTRY_PER_SOURCE ? "no more than " : "only ",
                (long long)frames, frames == 1 ? "frame" : "frames", works);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

/* Whether frames come when they are due, or when a program gives them, and not as fast as they are taken. */
static bool has_own_time(const mr_plan_vertex *source) {
    return source->offer.paced || (source->type && (source->type->external || source->type->awaits));
}

/* Whether all sources that reach a stage do so. *rate is how many frames reach one instance per second; 0 if not
 * known. */
static bool is_paced(const mr_plan *plan, const mr_plan_vertex *vertex, double *rate) {
    bool alone = vertex->calls.entry == MR_ENTRY_PER_SOURCE, known = true;
    double least = 0, sum = 0;
    for (size_t s = 0; s < vertex->source_count; s++) {
        const mr_plan_vertex *source = &plan->vertices[vertex->sources[s]];
        if (!has_own_time(source))
            return false;
        known = known && source->offer.paced && source->offer.rate > 0;
        least = s == 0 || source->offer.rate < least ? source->offer.rate : least;
        sum += source->offer.rate;
    }
    *rate = !known ? 0 : alone ? least : sum;
    return vertex->source_count > 0;
}

/* A stage's first source that keeps to a clock, while another does not; NULL: all do, or none. *rate as above, for
 * those that do. */
static const mr_plan_vertex *find_paced(const mr_plan *plan, const mr_plan_vertex *vertex, double *rate) {
    const mr_plan_vertex *first = NULL;
    bool others = false, known = true;
    *rate = 0;
    for (size_t s = 0; s < vertex->source_count; s++) {
        const mr_plan_vertex *source = &plan->vertices[vertex->sources[s]];
        const bool paced = has_own_time(source);
        others |= !paced;
        first = paced && !first ? source : first;
        known = known && (!paced || (source->offer.paced && source->offer.rate > 0));
        *rate += paced ? source->offer.rate : 0;
    }
    *rate = known ? *rate : 0;
    return others ? first : NULL;
}

/* Whether one instance also takes sources that are added while the pipeline runs. */
static bool takes_added(const mr_plan_builder *b, const mr_plan_vertex *vertex) {
    bool any = false;
    for (size_t s = 0; s < vertex->source_count; s++)
        any |= b->spec->sources[vertex->sources[s]].reserved;
    return any && vertex->calls.entry != MR_ENTRY_PER_SOURCE;
}

static int64_t filling_ns(const mr_plan_vertex *vertex, double rate) {
    return (int64_t)((mr_plan_batch_frames(vertex) - 1) / rate * 1e9);
}

static int64_t batch_wait_ns(const mr_plan *plan, const mr_plan_vertex *vertex) {
    double rate;
    if (!mr_plan_waits_for_batch(vertex))
        return 0;
    int64_t wait = vertex->calls.batch_timeout_ns;
    if (!is_paced(plan, vertex, &rate) || rate <= 0)
        return wait;
    int64_t fills = filling_ns(vertex, rate);
    return wait == 0 || fills < wait ? fills : wait;
}

static const char *print_limit(const mr_plan_vertex *vertex, char *hint, size_t bytes) {
    snprintf(hint, bytes, "limit how long the first frame may wait: batch: {size: %d, timeout: 50ms}",
             vertex->calls.batch);
    return hint;
}

static void warn_of_added(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char hint[96];
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b, v, "batch"),
                print_limit(vertex, hint, sizeof hint),
                "stages.%s.batch: sources come and go, and without a timeout a source's last frames wait until others "
                "fill the batch, however long that takes", b->vertex[v]->id);
}

/* `one`: only some sources keep to a clock, of which it is the first; the others fill the batches while they last. */
static void warn_of_waiting(const mr_plan_builder *b, int v, double rate, const mr_plan_vertex *one) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char waits[96] = "however long that takes", hint[96], time[32], whose[MR_SPEC_ID_BYTES + 8] = "";
    if (one)
        snprintf(whose, sizeof whose, " of \"%s\"", one->id);
    if (rate > 0)
        snprintf(waits, sizeof waits, "which takes %s at %.6g a second",
                 mr_lint_print_time(filling_ns(vertex, rate), time, sizeof time), rate);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b, v, "batch"),
                print_limit(vertex, hint, sizeof hint),
                "stages.%s.batch: frames%s come in real time, and without a timeout the first waits until %d "
                "have come, %s%s", b->vertex[v]->id, whose, mr_plan_batch_frames(vertex), waits,
                one ? " once the other sources have ended" : "");
}

/* ---- queues before batches ---------------------------------------------------------------------------------- */

/* The number of frames that can wait at one instance, busy with a batch, before the stages that feed it stall. */
static int64_t waiting_at(const mr_plan *plan, const mr_plan_vertex *vertex) {
    bool alone = vertex->calls.entry == MR_ENTRY_PER_SOURCE || vertex->source_count == 0;
    return (int64_t)vertex->handling.queue * (alone ? 1 : (int64_t)mr_plan_at_once(plan, vertex));
}

static void warn_of_short_queue(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    long long waiting = (long long)waiting_at(b->plan, vertex);
    char hint[96];
    snprintf(hint, sizeof hint, "write queue: %lld or more, or remove `queue`",
             (mr_plan_batch_frames(vertex) * (long long)vertex->handling.queue + waiting - 1) / waiting);
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b, v, "queue.size"), hint,
                "stages.%s.queue: only %lld %s for the next batch of %d while one is in flight; then the stages before "
                "it stall", b->vertex[v]->id, waiting, waiting == 1 ? "frame gathers" : "frames gather",
                mr_plan_batch_frames(vertex));
}

/* ---- queues of joins ------------------------------------------------------------------------------------------- */

static void report_queue(const mr_plan_builder *b, int v, const mr_held *held, bool fatal) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    char hint[96];
    snprintf(hint, sizeof hint, "write queue: %d or more, or remove `queue`", held->frames);
    mr_diagnose(b->diagnostics, fatal ? MR_SEVERITY_ERROR : MR_SEVERITY_WARNING, fatal ? MR_ERROR_CONFIG : MR_OK,
                place_of(b, v, "queue.size"), hint,
                "stages.%s.queue: %d %s of a source may wait here while %d gather in batches on another path to this "
                "join (\"%s\"): %s",
                vertex->id, vertex->handling.queue, vertex->handling.queue == 1 ? "frame" : "frames", held->frames,
                b->vertex[held->last]->id,
                fatal ? "the batch could never fill"
                : vertex->handling.policy == MR_POLICY_BLOCK ? "the batch would never fill before its timeout"
                                                             : "further frames are dropped and cannot be joined");
}

/* An author's own queue before a join, if it is shorter than the number that gathers on another way. */
static int check_queue(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    mr_gathering worst = {0}, found = {0};
    for (int one = 0; one < (int)vertex->input_count; one++)
        for (int other = 0; other < (int)vertex->input_count; other++) {
            if (one != other && mr_plan_gathering(b, v, one, other, &found))
                return MR_ERROR_MEMORY;
            mr_gathering_merge(&worst, &found);
        }
    const bool fatal = vertex->handling.policy == MR_POLICY_BLOCK && worst.untimed.frames > vertex->handling.queue;
    if (worst.all.frames > vertex->handling.queue)
        report_queue(b, v, fatal ? &worst.untimed : &worst.all, fatal);
    return MR_OK;
}

/* The queue of the stage that makes the objects' frames, `v`, beside frames that gather on their way to `to`. */
static void report_queue_beside(const mr_plan_builder *b, int v, int to, const mr_held *held, bool fatal) {
    const int queue = b->plan->vertices[v].handling.queue;
    char hint[96];
    snprintf(hint, sizeof hint, "write queue: %d or more, or remove `queue`", mr_plan_queue_beside(held->frames));
    mr_diagnose(b->diagnostics, fatal ? MR_SEVERITY_ERROR : MR_SEVERITY_WARNING, fatal ? MR_ERROR_CONFIG : MR_OK,
                place_of(b, v, "queue.size"), hint,
                "stages.%s.queue: %d %s of a source may wait here while %d gather in batches on the frames' path to "
                "\"%s\" (\"%s\"): the batch %s", b->vertex[v]->id, queue, queue == 1 ? "frame" : "frames",
                held->frames, b->vertex[to]->id, b->vertex[held->last]->id,
                fatal ? "could never fill" : "might not fill before its timeout");
}

/* Authors' own queues of the stages whose objects `v` gathers. */
static int check_queues_beside(const mr_plan_builder *b, int v) {
    mr_gathering found;
    bool *split = mr_arena_array(b->arena, (size_t)b->count, sizeof *split);
    if (!split || mr_plan_gathering(b, v, MR_PLAN_FRAMES, MR_PLAN_OBJECTS, &found))
        return MR_ERROR_MEMORY;
    mr_plan_mark_splits(b, v, split);
    for (int at = 0; at < v; at++) {
        const mr_planned_handling *handling = &b->plan->vertices[at].handling;
        const bool fatal = handling->queue < mr_plan_queue_beside(found.untimed.frames);
        if (split[at] && handling->policy == MR_POLICY_BLOCK &&
            handling->queue < mr_plan_queue_beside(found.all.frames))
            report_queue_beside(b, at, v, fatal ? &found.untimed : &found.all, fatal);
    }
    return MR_OK;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static void check_batch(const mr_plan_builder *b, int v, int64_t frames) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_plan_vertex *one;
    double rate;
    if (counted_of(vertex, frames) < vertex->calls.batch)
        warn_of_few(b, v, frames);
    else if (vertex->calls.batch_timeout_ns > 0)
        return;
    else if (is_paced(b->plan, vertex, &rate))
        warn_of_waiting(b, v, rate, NULL);
    else if ((one = find_paced(b->plan, vertex, &rate)))
        warn_of_waiting(b, v, rate, one);
    else if (takes_added(b, vertex))
        warn_of_added(b, v);
}

int mr_lint_batches(mr_plan_builder *b) {
    int64_t *frames = mr_arena_array(b->arena, (size_t)b->count, sizeof *frames);
    if (!frames)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        bool own_queue = b->vertex[v]->common.queue.size > 0;
        frames[v] = vertex->role != MR_ROLE_SOURCE ? frames_at(b, v, frames)
                    : vertex->offer.frames > 0           ? vertex->offer.frames
                                                   : ANY_NUMBER;
        if (mr_plan_waits_for_batch(vertex))
            check_batch(b, v, frames[v]);
        if (own_queue && vertex->calls.batch > 1 && vertex->input_count == 1 &&
            vertex->handling.policy == MR_POLICY_BLOCK && waiting_at(b->plan, vertex) < mr_plan_batch_frames(vertex))
            warn_of_short_queue(b, v);
        if (own_queue && vertex->input_count > 1 && vertex->handling.queue < vertex->handling.gathered &&
            check_queue(b, v))
            return MR_ERROR_MEMORY;
        if (mr_plan_unites(b, v) && check_queues_beside(b, v))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* ---- deadlines --------------------------------------------------------------------------------------------------- */

/* The longest way from each vertex: total time, and the next vertex (-1: none). */
typedef struct ways {
    int64_t *ns;
    int *next;
} ways;

const char *mr_lint_print_time(int64_t ns, char *text, size_t bytes) {
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    size_t i = 0;
    while (i < 3 && (double)ns < units[i].ns)
        i++;
    snprintf(text, bytes, "%.4g%s", (double)ns / units[i].ns, units[i].name);
    return text;
}

static mr_location place_of_deadline(const mr_plan_vertex *source, const mr_spec *spec) {
    const mr_yaml *said = mr_yaml_get(spec->sources[source->source].node, "deadline");
    return said ? said->place : source->mark;
}

/* Links lead only to later vertices, and are ordered by where they lead. This goes from the last to the first, so the
 * rest of the way is summed up before a link is visited. */
static void find_ways(const mr_plan *plan, const int64_t *each_ns, const ways *found) {
    for (size_t v = 0; v < plan->vertex_count; v++) {
        found->ns[v] = each_ns[v];
        found->next[v] = -1;
    }
    for (size_t e = plan->edge_count; e-- > 0;) {
        const mr_view_link *edge = &plan->edges[e];
        if (found->ns[edge->to] > 0 && found->ns[edge->to] > found->ns[edge->from] - each_ns[edge->from]) {
            found->ns[edge->from] = each_ns[edge->from] + found->ns[edge->to];
            found->next[edge->from] = edge->to;
        }
    }
}

/* "decode 12ms, features 21.3ms" */
static void list_way(const mr_plan *plan, const ways *found, const int64_t *each_ns, int from, char *text,
                     size_t bytes) {
    char time[32];
    size_t length = 0;
    text[0] = 0;
    for (int v = from; v >= 0 && length < bytes; v = found->next[v])
        if (each_ns[v] > 0)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s %s", length ? ", " : "",
                                       plan->vertices[v].id, mr_lint_print_time(each_ns[v], time, sizeof time));
}

/* `what` says how a sum comes about. */
static void warn_of_ways(const mr_plan *plan, const mr_spec *spec, const ways *found, const int64_t *each_ns,
                         const char *what, const char *how, mr_diagnostics *diagnostics) {
    char deadline[32], sum[32], way[512], hint[160];
    for (size_t s = 0; s < plan->source_count; s++) {
        const mr_plan_vertex *source = &plan->vertices[s];
        if (!source->offer.deadline_ns || found->ns[s] <= source->offer.deadline_ns)
            continue;
        mr_lint_print_time(found->ns[s], sum, sizeof sum);
        list_way(plan, found, each_ns, (int)s, way, sizeof way);
        snprintf(hint, sizeof hint, "write a deadline of more than %s, or %s", sum, how);
        mr_diagnose(diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of_deadline(source, spec), hint,
                    "sources.%s.deadline: %s is less than the %s that %s: %s", source->id,
                    mr_lint_print_time(source->offer.deadline_ns, deadline, sizeof deadline), sum, what, way);
    }
}

static int make_ways(const mr_plan *plan, ways *made) {
    made->ns = calloc(plan->vertex_count + 1, sizeof *made->ns);
    made->next = calloc(plan->vertex_count + 1, sizeof *made->next);
    if (made->ns && made->next)
        return MR_OK;
    free(made->ns);
    free(made->next);
    return mr_fail(MR_ERROR_MEMORY, "no memory to compare deadlines");
}

/* Each vertex holds a frame for a call's time, and while a batch gathers. If `cost_ns` is NULL, only for the latter. */
static int compare(const mr_plan *plan, const mr_spec *spec, const int64_t *cost_ns, mr_diagnostics *diagnostics) {
    ways found;
    int64_t *each_ns = calloc(plan->vertex_count + 1, sizeof *each_ns);
    if (!each_ns || make_ways(plan, &found)) {
        free(each_ns);
        return mr_fail(MR_ERROR_MEMORY, "no memory to compare deadlines");
    }
    for (size_t v = 0; v < plan->vertex_count; v++) {
        each_ns[v] = batch_wait_ns(plan, &plan->vertices[v]);
        if (cost_ns)
            each_ns[v] += cost_ns[v] * mr_plan_batch_frames(&plan->vertices[v]);
    }
    find_ways(plan, each_ns, &found);
    if (cost_ns)
        warn_of_ways(plan, spec, &found, each_ns, "its frames took on their longest path when measured",
                     "make these stages faster", diagnostics);
    else
        warn_of_ways(plan, spec, &found, each_ns, "its frames may wait for batches to fill",
                     "a shorter batch.timeout", diagnostics);
    free(found.ns);
    free(found.next);
    free(each_ns);
    return MR_OK;
}

int mr_lint_costs(const mr_plan *plan, const int64_t *cost_ns, mr_diagnostics *diagnostics) {
    return compare(plan, plan->spec, cost_ns, diagnostics);
}

int mr_lint_deadlines(mr_plan_builder *b) {
    char hint[160];
    bool any = false;
    for (size_t s = 0; s < b->spec->source_count; s++) {
        const mr_plan_vertex *source = &b->plan->vertices[s];
        any = any || source->offer.deadline_ns;
        if (!source->offer.deadline_ns || source->offer.paced || source->type->external || b->spec->sources[s].partial)
            continue;
        if (source->type->paced_by)
            snprintf(hint, sizeof hint, "write %s, or remove `deadline`", source->type->paced_by);
        else
            snprintf(hint, sizeof hint, "remove `deadline`");
        mr_plan_error(
            b, place_of_deadline(source, b->spec), hint,
            "sources.%s.deadline: this source has no clock: it gives frames as fast as they are taken, so that none is "
            "ever late",
            source->id);
    }
    return any ? compare(b->plan, b->spec, NULL, b->diagnostics) : MR_OK;
}

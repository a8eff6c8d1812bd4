/* Deadlines of sources that keep to no clock, and deadlines that cannot be met. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/builder.h"
#include "engine/plan/lint.h"
#include "millrace/status.h"

/* The longest way from each vertex on: what it takes in all, and where it goes on (-1: nowhere). */
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

static mr_place place_of(const mr_plan_vertex *source, const mr_spec *spec) {
    const mr_yaml *said = mr_yaml_get(spec->sources[source->source].node, "deadline");
    return said ? said->place : source->mark;
}

/* Links go to later vertices only, and stand ordered by where they go: from the last to the first, what is behind
 * a link is summed up before the link is looked at. */
static void find_ways(const mr_plan *plan, const int64_t *each_ns, const ways *found) {
    for (size_t v = 0; v < plan->vertex_count; v++) {
        found->ns[v] = each_ns[v];
        found->next[v] = -1;
    }
    for (size_t e = plan->edge_count; e-- > 0;) {
        const mr_plan_edge *edge = &plan->edges[e];
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

/* `what` says of a sum how it comes about. */
static void warn_of_ways(const mr_plan *plan, const mr_spec *spec, const ways *found, const int64_t *each_ns,
                         const char *what, const char *how, mr_diagnostics *diagnostics) {
    char deadline[32], sum[32], way[512], hint[160];
    for (size_t s = 0; s < plan->source_count; s++) {
        const mr_plan_vertex *source = &plan->vertices[s];
        if (!source->deadline_ns || found->ns[s] <= source->deadline_ns)
            continue;
        mr_lint_print_time(found->ns[s], sum, sizeof sum);
        list_way(plan, found, each_ns, (int)s, way, sizeof way);
        snprintf(hint, sizeof hint, "write a deadline of more than %s, or %s", sum, how);
        mr_diagnose(diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(source, spec), hint,
                    "sources.%s.deadline: %s is less than the %s that %s: %s", source->id,
                    mr_lint_print_time(source->deadline_ns, deadline, sizeof deadline), sum, what, way);
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

/* Each vertex takes a frame as long as a call takes, and as long as its batch gathers. `cost_ns` NULL: only that. */
static int compare(const mr_plan *plan, const mr_spec *spec, const int64_t *cost_ns, mr_diagnostics *diagnostics) {
    ways found;
    int64_t *each_ns = calloc(plan->vertex_count + 1, sizeof *each_ns);
    if (!each_ns || make_ways(plan, &found)) {
        free(each_ns);
        return mr_fail(MR_ERROR_MEMORY, "no memory to compare deadlines");
    }
    for (size_t v = 0; v < plan->vertex_count; v++) {
        each_ns[v] = mr_lint_batch_wait_ns(plan, &plan->vertices[v]);
        if (cost_ns)
            each_ns[v] += cost_ns[v] * plan->vertices[v].batch;
    }
    find_ways(plan, each_ns, &found);
    if (cost_ns)
        warn_of_ways(plan, spec, &found, each_ns, "its frames were measured to take on their longest way",
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
        any = any || source->deadline_ns;
        if (!source->deadline_ns || source->paced || source->type->external)
            continue;
        if (source->type->paced_by)
            snprintf(hint, sizeof hint, "write %s, or take `deadline` away", source->type->paced_by);
        else
            snprintf(hint, sizeof hint, "take `deadline` away");
        mr_plan_error(
            b, place_of(source, b->spec), hint,
            "sources.%s.deadline: this source keeps to no clock: it gives frames as fast as they are taken, "
            "so that none is ever late",
            source->id);
    }
    return any ? compare(b->plan, b->spec, NULL, b->diagnostics) : MR_OK;
}

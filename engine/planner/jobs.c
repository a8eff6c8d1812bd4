/* How many videos are open at a time. From a folder with two hundred only some are read at once: each open one needs a
 * thread, a decoder and frames under way. The next one begins when all stages have seen the end of one.
 *
 * By default, videos from folders and globs wait, except those that keep to a clock or never end, which must run in
 * parallel. Other sources wait only if the author gives a number. */
#include "engine/planner/jobs.h"

#include "engine/planner/graph/builder.h"
#include "millrace/status.h"

enum { LEAST_JOBS = 2 };

static bool is_of_several(const mr_spec *spec, size_t source) {
    for (size_t g = 0; g < spec->group_count; g++)
        if (source - spec->groups[g].first < spec->groups[g].count)
            return spec->groups[g].count > 1;
    return false;
}

bool mr_plan_may_spare(const mr_plan_builder *b, int v) {
    return b->vertex[v]->is_source && b->plan->node_count == 0 && !b->params.added && is_of_several(b->spec, (size_t)v);
}

/* ---- sources that cannot be opened ------------------------------------------------------------------------------- */

static const mr_plan_vertex *first_of(const mr_plan_builder *b, const mr_spec_group *group, bool unreadable) {
    for (size_t s = group->first; s < group->first + group->count; s++)
        if (b->plan->vertices[s].offer.unreadable == unreadable)
            return &b->plan->vertices[s];
    return NULL;
}

static void fill(mr_plan_vertex *vertex, const mr_plan_vertex *like) {
    vertex->calls.blocking = like->calls.blocking;
    vertex->offer.paced = like->offer.paced;
    vertex->offer.endless = like->offer.endless;
    vertex->offer.repeats = like->offer.repeats;
    vertex->outputs[0] = like->outputs[0];
}

void mr_plan_fill_unreadable(mr_plan_builder *b) {
    for (size_t g = 0; g < b->spec->group_count; g++) {
        const mr_spec_group *group = &b->spec->groups[g];
        const mr_plan_vertex *like = first_of(b, group, false);
        if (!like && first_of(b, group, true))
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_DATA, b->vertex[group->first]->place, NULL,
                        "sources.%s: none of its %zu videos can be read", group->name, group->count);
        for (size_t s = group->first; like && s < group->first + group->count; s++) {
            if (b->plan->vertices[s].offer.unreadable)
                fill(&b->plan->vertices[s], like);
        }
    }
}

/* ---- which sources wait ------------------------------------------------------------------------------------------ */

/* An author's number applies to everything that reads videos to the end. */
static bool waits_by_request(const mr_plan_vertex *vertex) {
    return vertex->type && vertex->type->spread;
}

static bool waits_by_itself(const mr_plan_builder *b, const mr_plan_vertex *vertex) {
    return !vertex->offer.paced && !vertex->offer.endless && mr_plan_may_spare(b, (int)vertex->source);
}

static const mr_plan_vertex *first_endless(const mr_plan *plan) {
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].offer.waits && plan->vertices[s].offer.endless)
            return &plan->vertices[s];
    return NULL;
}

static mr_location place_of(const mr_plan_builder *b) {
    const mr_yaml *said = b->params.jobs ? NULL : mr_yaml_get(b->spec->root, "jobs");
    return said ? said->place : (mr_location){.file = b->spec->file};
}

static void check_request(mr_plan_builder *b, int jobs, size_t waiting) {
    const mr_plan_vertex *endless = first_endless(b->plan);
    if (b->plan->node_count > 0)
        mr_plan_error(b, place_of(b), "run it with --one-process, or remove jobs",
                      "jobs: %d: with nodes all sources are open at once", jobs);
    else if (endless && (size_t)jobs < waiting)
        mr_plan_error(b, place_of(b), "give it an end, such as loop: 2, or allow as many jobs as there are sources",
                      "jobs: %d of %zu sources run at a time, and \"%s\" never ends: others would never start", jobs,
                      waiting, endless->id);
    else if (!waiting)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b), "remove it",
                    "jobs: %d has no effect: no source reads videos", jobs);
}

/* Where sources come and go, each begins when it comes, and none waits for another. */
static void settle_room(mr_plan_builder *b, int asked) {
    for (size_t s = 0; s < b->plan->source_count; s++)
        b->plan->vertices[s].offer.waits = true;
    b->plan->jobs = (int)b->plan->source_count;
    if (asked)
        mr_plan_error(b, place_of(b), "remove jobs, or sources.max",
                      "jobs: %d: with sources.max all sources that are there are open at once", asked);
}

int mr_plan_settle_jobs(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    int asked = b->params.jobs ? b->params.jobs : b->spec->jobs;
    if (b->spec->most_sources) {
        settle_room(b, asked);
        return MR_OK;
    }
    for (size_t s = 0; s < plan->source_count; s++) {
        mr_plan_vertex *vertex = &plan->vertices[s];
        vertex->offer.waits =
            waits_by_itself(b, vertex) || vertex->offer.unreadable || (asked && waits_by_request(vertex));
    }
    size_t waiting = mr_plan_waiting(plan);
    if (asked)
        check_request(b, asked, waiting);
    plan->jobs = asked ? asked : plan->workers > LEAST_JOBS ? plan->workers : LEAST_JOBS;
    if ((size_t)plan->jobs > waiting)
        plan->jobs = (int)waiting;
    return MR_OK;
}

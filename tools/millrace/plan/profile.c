#include "tools/millrace/plan/profile.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "tools/millrace/plan/plan_parts.h"

/* How often to check whether a frame was delivered, and the longest wait for one. */
static const int64_t LOOK_NS = 10000000;
static const double LONGEST_WAIT_S = 120;
/* A shorter window is less precise than the whole run, start included. */
static const double SHORTEST_S = 0.2;
/* The least number of frames: after the time is up, the profile waits for them. */
enum { FEWEST_FRAMES = 8 };
/* With up to this share of dropped frames, the pipeline still keeps up with sources that keep to a clock. */
static const double FEW_DROPS = 0.02;

/* ---- running --------------------------------------------------------------------------------------------------- */

/* Waits for the first frame. MR_ERROR_AGAIN: the run continues; else it has ended, with that status. */
static int await_first(mr_pipeline *pipeline, mr_summary **seen) {
    int status = MR_ERROR_AGAIN;
    for (bool some = false; status == MR_ERROR_AGAIN && !some;) {
        mr_summary_destroy(seen);
        status = mr_pipeline_wait(pipeline, LOOK_NS);
        int failed = mr_pipeline_summarize(pipeline, seen);
        if (failed)
            return failed;
        some = (*seen)->first_s > 0 || (*seen)->wall_s > LONGEST_WAIT_S;
    }
    return status;
}

static uint64_t done(const mr_summary *summary) {
    return summary->delivered + summary->dropped + summary->absorbed;
}

/* Waits until the time is up, and for enough frames. MR_ERROR_AGAIN: the run continues; else it has ended, with that
 * status. */
static int await_enough(mr_pipeline *pipeline, double seconds, const mr_summary *first, mr_summary **last) {
    int status = mr_pipeline_wait(pipeline, (int64_t)(seconds * 1e9));
    int failed = mr_pipeline_summarize(pipeline, last);
    while (!failed && status == MR_ERROR_AGAIN && done(*last) - done(first) < FEWEST_FRAMES &&
           (*last)->wall_s - first->wall_s < LONGEST_WAIT_S) {
        mr_summary_destroy(last);
        status = mr_pipeline_wait(pipeline, LOOK_NS);
        failed = mr_pipeline_summarize(pipeline, last);
    }
    return failed ? failed : status;
}

static void stop(mr_pipeline *pipeline) {
    mr_pipeline_stop(pipeline, true);
    mr_pipeline_wait(pipeline, -1);
}

/* Takes two summaries of a run. Returns them even if the run fails. *waited_ns: how long threads waited for cores in
 * between. */
static int run(mr_pipeline *pipeline, double seconds, mr_summary **first, mr_summary **last, bool *ended,
               int64_t *waited_ns) {
    int status = mr_pipeline_start(pipeline);
    if (status)
        return status;
    status = await_first(pipeline, first);
    int failed = MR_OK;
    int64_t before_ns = mr_process_waited_ns();
    if (status == MR_ERROR_AGAIN)
        status = await_enough(pipeline, seconds, *first, last);
    else
        failed = mr_pipeline_summarize(pipeline, last);
    int64_t after_ns = mr_process_waited_ns();
    *waited_ns = after_ns > before_ns ? after_ns - before_ns : 0;
    *ended = status != MR_ERROR_AGAIN;
    if (!*ended)
        stop(pipeline);
    return failed ? failed : *ended ? status : MR_OK;
}

/* ---- measurements ---------------------------------------------------------------------------------------------- */

/* Counts from zero, without the first summary. */
static void forget(mr_summary *summary) {
    for (size_t i = 0; i < summary->stage_count; i++) {
        mr_stage_summary *stage = &summary->stages[i];
        for (size_t d = 0; d < stage->share_count; d++)
            stage->shares[d] = (mr_share_summary){0};
        *stage = (mr_stage_summary){.share_count = stage->share_count, .shares = stage->shares};
    }
    summary->delivered = summary->dropped = summary->absorbed = 0;
    summary->wall_s = summary->cpu_s = summary->threads_cpu_s = 0;
}

/* The number of workers, or of the stage's threads, that can be inside it at once, limited by the cores. */
static double parallel(const mr_plan_view *plan, const mr_view_stage *vertex) {
    int instances = vertex->calls.instances, cores = mr_usable_cores();
    int most = vertex->calls.blocking ? instances * (vertex->calls.threads > 1 ? vertex->calls.threads : 1)
                                      : instances * vertex->calls.entries;
    if (!vertex->calls.blocking && most > plan->workers)
        most = plan->workers;
    bool waits = vertex->calls.blocking && vertex->calls.threads == 0;
    return most > cores && !waits ? cores : most;
}

static bool has_foreign_threads(const mr_view_stage *vertex) {
    return vertex->calls.threads > 0 || strcmp(vertex->devices.first, "cpu") != 0;
}

/* Time inside stages whose libraries or devices start threads. */
static double foreign_weight(const mr_plan_view *plan, const mr_summary *first, const mr_summary *last) {
    double sum = 0;
    for (size_t v = 0; v < plan->stage_count; v++)
        if (has_foreign_threads(&plan->stages[v]))
            sum += (double)(last->stages[v].busy_ns - first->stages[v].busy_ns);
    return sum;
}

static double device_ns(const mr_stage_summary *stage) {
    double sum = 0;
    for (size_t i = 0; i < stage->share_count; i++)
        sum += (double)stage->shares[i].busy_ns;
    return sum;
}

static void work_out_costs(mr_profile *profile, const mr_plan_view *plan, const mr_summary *first,
                           const mr_summary *last) {
    double cpu_ns = (last->cpu_s - first->cpu_s) * 1e9;
    double foreign_ns = cpu_ns - (last->threads_cpu_s - first->threads_cpu_s) * 1e9;
    double weight = foreign_weight(plan, first, last), known_ns = 0;
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_stage_summary *from = &first->stages[v], *to = &last->stages[v];
        const mr_view_stage *vertex = &plan->stages[v];
        mr_stage_cost *cost = &profile->costs[v];
        double inside = (double)(to->busy_ns - from->busy_ns), cpu = (double)(to->cpu_ns - from->cpu_ns);
        if (has_foreign_threads(vertex) && weight > 0 && foreign_ns > 0)
            cpu += foreign_ns * inside / weight;
        cost->frames = vertex->role == MR_VIEW_SOURCE ? to->out - from->out : to->in - from->in;
        double frames = cost->frames ? (double)cost->frames : 1;
        uint64_t ever = vertex->role == MR_VIEW_SOURCE ? to->out : to->in;
        /* A stage that only waits for the system also counts as busy. */
        bool waits = vertex->calls.blocking && vertex->calls.threads == 0;
        cost->cpu_ns = cpu / frames;
        cost->inside_ns = inside / frames;
        cost->device_ns = (device_ns(to) - device_ns(from)) / frames;
        /* If all frames were dropped before this stage, only the first ones' cost is known. */
        if (cost->frames == 0 && ever > 0) {
            cost->cpu_ns = (double)to->cpu_ns / (double)ever;
            cost->inside_ns = (double)to->busy_ns / (double)ever;
        }
        cost->cpu_share = cpu_ns > 0 ? cpu / cpu_ns : 0;
        known_ns += cpu;
        cost->inside = inside / (profile->seconds * 1e9 * parallel(plan, vertex));
        bool own = vertex->calls.blocking || vertex->calls.instances * vertex->calls.entries < plan->workers;
        cost->few = own && parallel(plan, vertex) < mr_usable_cores();
        cost->utilisation = (waits ? inside : cpu) / (profile->seconds * 1e9 * parallel(plan, vertex));
    }
    /* Calls in progress at the first summary count in full when they end. */
    for (size_t v = 0; known_ns > cpu_ns && v < plan->stage_count; v++)
        profile->costs[v].cpu_share *= cpu_ns / known_ns;
}

/* ---- deadlines ------------------------------------------------------------------------------------------------- */

static int check_deadlines(mr_profile *profile, const mr_plan_view *plan) {
    int64_t *cost_ns = calloc(plan->stage_count + 1, sizeof *cost_ns);
    if (!cost_ns)
        return mr_fail(MR_ERROR_MEMORY, "no memory to compare deadlines");
    for (size_t v = 0; v < plan->stage_count; v++) {
        cost_ns[v] = (int64_t)profile->costs[v].inside_ns;
        profile->deadlines += plan->stages[v].offer.deadline_ns > 0;
    }
    int status = profile->deadlines ? mr_plan_view_check_costs(plan, cost_ns, &profile->late) : MR_OK;
    mr_diagnostics_sort(&profile->late);
    free(cost_ns);
    return status;
}

/* ---- expected rates -------------------------------------------------------------------------------------------- */

/* The frame rate of all sources together, by the clock; 0: one of them keeps to none. */
static double offered(const mr_plan_view *plan) {
    double rate = 0;
    for (size_t s = 0; s < plan->source_count; s++) {
        if (!plan->stages[s].offer.paced || plan->stages[s].offer.rate <= 0)
            return 0;
        rate += plan->stages[s].offer.rate;
    }
    return rate;
}

/* The total number of frames to come; 0: not known. */
static double planned_frames(const mr_plan_view *plan) {
    double frames = 0;
    for (size_t s = 0; s < plan->source_count; s++) {
        if (plan->stages[s].offer.frames <= 0)
            return 0;
        frames += (double)plan->stages[s].offer.frames;
    }
    return frames;
}

static void expect(mr_profile *profile, const mr_plan_view *plan, const mr_summary *last) {
    double by_clock = offered(plan), frames = planned_frames(plan);
    profile->rate = profile->seconds > 0 ? (double)profile->frames / profile->seconds : 0;
    if (by_clock > 0 && profile->rate > by_clock)
        profile->rate = by_clock;
    if (profile->ended)
        profile->run_s = last->wall_s;
    else if (frames > 0 && profile->rate > 0)
        profile->run_s = profile->first_s + frames / profile->rate;
    bool few = (double)profile->dropped <= FEW_DROPS * (double)profile->frames;
    mr_profile_find_bottleneck(profile, plan, by_clock > 0 && few);
    mr_profile_find_cures(profile, plan);
}

int mr_profile_measure(mr_profile *profile, mr_pipeline *pipeline, const mr_plan_view *plan, double seconds) {
    mr_summary *first = NULL, *last = NULL;
    *profile = (mr_profile){.costs = calloc(plan->stage_count + 1, sizeof *profile->costs)};
    if (!profile->costs)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a profile");
    int64_t waited_ns = 0;
    int status = run(pipeline, seconds, &first, &last, &profile->ended, &waited_ns);
    if (first && last) {
        if (last->wall_s - first->wall_s < SHORTEST_S)
            forget(first);
        profile->seconds = last->wall_s - first->wall_s;
        profile->first_s = last->first_s;
        profile->frames = done(last) - done(first);
        profile->dropped = last->dropped - first->dropped;
        profile->cores = profile->seconds > 0 ? (last->cpu_s - first->cpu_s) / profile->seconds : 0;
        profile->waiting = profile->seconds > 0 ? (double)waited_ns * 1e-9 / profile->seconds : 0;
        profile->peak_bytes = last->peak_bytes;
        profile->buffer_bytes = last->host_bytes + last->pinned_bytes + last->shared_bytes;
        work_out_costs(profile, plan, first, last);
        expect(profile, plan, last);
        int failed = check_deadlines(profile, plan);
        status = status ? status : failed;
    }
    mr_summary_destroy(&first);
    mr_summary_destroy(&last);
    return status;
}

void mr_profile_fini(mr_profile *profile) {
    free(profile->costs);
    mr_diagnostics_fini(&profile->late);
    *profile = (mr_profile){0};
}

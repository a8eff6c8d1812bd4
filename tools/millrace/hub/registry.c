#include "tools/millrace/hub/registry.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/grow.h"

/* Rates over less than this would jump. */
static const uint64_t SHORTEST_NS = 200000000;

const char *mr_hub_state_name(mr_hub_state state) {
    static const char *const names[] = {"runs", "drains", "ended", "lost"};
    return names[state];
}

const char *mr_hub_fate_name(mr_hub_fate fate) {
    static const char *const names[] = {"taken", "malformed", "stale", "full"};
    return names[fate];
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Where the run with that id is, or would be. */
static size_t place_of(const mr_hub_registry *registry, uint64_t id) {
    size_t low = 0, high = registry->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (registry->runs[middle]->report->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mr_hub_run *run_at(const mr_hub_registry *registry, size_t at, uint64_t id) {
    return at < registry->count && registry->runs[at]->report->id == id ? registry->runs[at] : NULL;
}

const mr_hub_run *mr_hub_registry_find(const mr_hub_registry *registry, uint64_t id) {
    return run_at(registry, place_of(registry, id), id);
}

mr_hub_sums mr_hub_registry_sum(const mr_hub_registry *registry) {
    mr_hub_sums all = {0};
    for (size_t i = 0; i < registry->count; i++) {
        const mr_hub_run *run = registry->runs[i];
        all.states[run->state]++;
        all.failed += run->state == MR_HUB_ENDED && run->report->exit_code;
        all.unwell += run->state == MR_HUB_RUNS && !run->report->well;
        all.delivered += run->delivered;
        all.dropped += run->dropped;
    }
    return all;
}

/* ---- forgetting -------------------------------------------------------------------------------------------------- */

static bool is_over(const mr_hub_run *run) {
    return run->state == MR_HUB_ENDED || run->state == MR_HUB_LOST;
}

static void forget(mr_hub_registry *registry, size_t at) {
    mr_hub_run *gone = registry->runs[at];
    registry->count--;
    memmove(&registry->runs[at], &registry->runs[at + 1], (registry->count - at) * sizeof *registry->runs);
    mr_hub_report_free(&gone->report);
    mr_free(gone);
    registry->version++;
}

/* Makes room for one more. False: all runs live. */
static bool make_room(mr_hub_registry *registry) {
    size_t oldest = registry->count;
    if (registry->count < registry->most)
        return true;
    for (size_t i = 0; i < registry->count; i++)
        if (is_over(registry->runs[i]) &&
            (oldest == registry->count || registry->runs[i]->heard_ns < registry->runs[oldest]->heard_ns))
            oldest = i;
    if (oldest == registry->count)
        return false;
    forget(registry, oldest);
    return true;
}

void mr_hub_registry_look(mr_hub_registry *registry, int64_t now_ns) {
    for (size_t i = 0; i < registry->count;) {
        mr_hub_run *run = registry->runs[i];
        const int64_t silent_ns = now_ns - run->heard_ns;
        if (!is_over(run) && silent_ns > registry->lost_ns) {
            run->state = MR_HUB_LOST;
            run->delivered = run->dropped = run->cores = 0;
            memset(run->busy, 0, sizeof run->busy);
            registry->version++;
        }
        if (is_over(run) && silent_ns > registry->keep_ns)
            forget(registry, i);
        else
            i++;
    }
}

void mr_hub_registry_fini(mr_hub_registry *registry) {
    while (registry->count)
        forget(registry, registry->count - 1);
    mr_free(registry->runs);
    registry->runs = NULL;
    registry->room = 0;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static uint64_t more(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

/* The busy time of the device with that name in an earlier report. */
static uint64_t busy_before(const mr_hub_report *report, const char *name) {
    for (size_t i = 0; i < report->n_devices; i++)
        if (strcmp(report->devices[i]->name, name) == 0)
            return report->devices[i]->busy_ns;
    return 0;
}

/* Counts what `next` adds to the report before. */
static void compare(mr_hub_registry *registry, mr_hub_run *run, const mr_hub_report *next) {
    const mr_hub_report *before = run->report;
    const uint64_t passed_ns = next->elapsed_ns - before->elapsed_ns;
    registry->delivered += more(next->delivered, before->delivered);
    registry->dropped += more(next->dropped, before->dropped);
    registry->absorbed += more(next->absorbed, before->absorbed);
    if (next->state == MILLRACE__HUB__STATE__ENDED) {
        run->delivered = run->dropped = run->cores = 0;
        memset(run->busy, 0, sizeof run->busy);
        return;
    }
    if (passed_ns < SHORTEST_NS)
        return;
    const double seconds = (double)passed_ns * 1e-9;
    run->delivered = (double)more(next->delivered, before->delivered) / seconds;
    run->dropped = (double)more(next->dropped, before->dropped) / seconds;
    run->cores = (double)more(next->cpu_ns, before->cpu_ns) / (double)passed_ns;
    for (size_t i = 0; i < next->n_devices; i++)
        run->busy[i] = (double)more(next->devices[i]->busy_ns, busy_before(before, next->devices[i]->name)) /
                       (double)passed_ns;
}

/* A run that is heard of for the first time. NULL: no room, or no memory. */
static mr_hub_run *add(mr_hub_registry *registry, mr_hub_report *report) {
    mr_hub_run *made = make_room(registry) ? mr_calloc(1, sizeof *made) : NULL;
    if (!made || !mr_grow((void **)&registry->runs, registry->count, &registry->room, sizeof *registry->runs)) {
        mr_free(made);
        return NULL;
    }
    const size_t at = place_of(registry, report->id);
    memmove(&registry->runs[at + 1], &registry->runs[at], (registry->count - at) * sizeof *registry->runs);
    registry->runs[at] = made;
    registry->count++;
    return made;
}

/* A run that was lost may come back with an earlier clock: its machine was set back to a snapshot. */
static mr_hub_fate take(mr_hub_registry *registry, mr_hub_report *report, int64_t now_ns) {
    mr_hub_run *run = run_at(registry, place_of(registry, report->id), report->id);
    const bool earlier = run && report->elapsed_ns < run->report->elapsed_ns;
    if (run && (run->state == MR_HUB_ENDED || (earlier && run->state != MR_HUB_LOST)))
        return MR_HUB_STALE;
    if (run && !earlier)
        compare(registry, run, report);
    if (!run)
        run = add(registry, report);
    if (!run)
        return MR_HUB_FULL;
    mr_hub_report_free(&run->report);
    run->report = report;
    run->heard_ns = now_ns;
    run->state = (mr_hub_state)report->state;
    registry->version++;
    return MR_HUB_TAKEN;
}

mr_hub_fate mr_hub_registry_take(mr_hub_registry *registry, const void *data, size_t bytes, int64_t now_ns) {
    mr_hub_report *report = NULL;
    mr_hub_fate fate = MR_HUB_MALFORMED;
    if (!mr_hub_report_read(&report, data, bytes))
        fate = take(registry, report, now_ns);
    if (fate != MR_HUB_TAKEN)
        mr_hub_report_free(&report);
    registry->messages[fate]++;
    return fate;
}

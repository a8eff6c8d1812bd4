#include "tools/millrace/http/health.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/print.h"

/* The run looks at itself twice a second. */
static const int64_t SILENCE_NS = 10000000000;

void mr_movement_look(mr_movement *movement, const mr_observed_ledger *sum, bool held_up, int64_t now_ns) {
    const uint64_t seen = sum->in + sum->delivered + sum->dropped + sum->absorbed;
    if (seen != movement->seen || !sum->in_flight || held_up || !movement->moved_ns)
        movement->moved_ns = now_ns;
    movement->seen = seen;
}

bool mr_movement_stalls(const mr_movement *movement, int64_t now_ns, int64_t stall_ns) {
    return movement->moved_ns && now_ns - movement->moved_ns > stall_ns;
}

static bool __attribute__((format(printf, 2, 3))) no(char why[MR_HEALTH_WHY], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mr_vprint_into(why, MR_HEALTH_WHY, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_alive(const mr_health *health, int64_t now_ns, char why[MR_HEALTH_WHY]) {
    const int64_t silent_ns = now_ns - health->shown_ns;
    if (!health->shown_ns || health->now->final)
        return true;
    if (silent_ns > SILENCE_NS)
        return no(why, "the run has not looked at itself for %.0f s", (double)silent_ns * 1e-9);
    if (mr_movement_stalls(health->movement, now_ns, health->stall_ns))
        return no(why, "frames are in flight, and none has moved for %.0f s",
                  (double)(now_ns - health->movement->moved_ns) * 1e-9);
    return true;
}

/* A process that has ended needs no connections. */
static bool is_connected(const mr_observed_process *process, char why[MR_HEALTH_WHY]) {
    const mr_summary *summary = process->summary;
    if (process->done)
        return true;
    if (!process->ready || !summary)
        return no(why, process->name ? "the node %s is not ready" : "stages are still being opened", process->name);
    for (size_t i = 0; i < summary->cut_count; i++)
        if (summary->cuts[i].absent)
            return no(why, "no node is connected over %s", summary->cuts[i].id);
    return true;
}

static bool is_ready(const mr_health *health, char why[MR_HEALTH_WHY]) {
    if (health->now->ending)
        return no(why, "the run is ending");
    if (!health->now->count)
        return no(why, "stages are still being opened");
    for (size_t i = 0; i < health->now->count; i++)
        if (!is_connected(&health->now->process[i], why))
            return false;
    return true;
}

static bool source_is_well(const mr_source_summary *source, char why[MR_HEALTH_WHY]) {
    if (!mr_observed_counts(source))
        return true;
    if (source->status)
        return no(why, "the source %s has failed: %s", source->id, source->message ? source->message : "");
    if (!source->ended && !mr_observed_is_linked(source))
        return no(why, "the source %s is %s", source->id, mr_link_state_name(source->report.phase));
    return true;
}

/* Its devices and its service. */
static bool stage_is_well(const mr_stage_summary *stage, char why[MR_HEALTH_WHY]) {
    const mr_link_state phase = stage->service.phase;
    if (phase == MR_LINK_AWAY || phase == MR_LINK_FAILED)
        return no(why, "the service of %s is %s: %s", stage->id, mr_link_state_name(phase), stage->service.why);
    for (size_t i = 0; i < stage->share_count; i++)
        if (stage->shares[i].state == MR_DEVICE_FAILED)
            return no(why, "the device %s of %s has failed", stage->shares[i].device, stage->id);
    return true;
}

static bool process_is_well(const mr_observed_process *process, char why[MR_HEALTH_WHY]) {
    const mr_summary *summary = process->summary;
    if (process->done && process->exit_code)
        return no(why, "the node %s has ended with exit code %d", process->name ? process->name : "",
                  process->exit_code);
    for (size_t i = 0; summary && i < summary->source_count; i++)
        if (!source_is_well(&summary->sources[i], why))
            return false;
    for (size_t i = 0; summary && i < summary->stage_count; i++)
        if (!stage_is_well(&summary->stages[i], why))
            return false;
    return true;
}

bool mr_health_is(const mr_health *health, mr_health_kind kind, int64_t now_ns, char why[MR_HEALTH_WHY]) {
    *why = '\0';
    if (kind != MR_HEALTH_READY && !is_alive(health, now_ns, why))
        return false;
    if (kind != MR_HEALTH_ALIVE && !is_ready(health, why))
        return false;
    for (size_t i = 0; kind == MR_HEALTH_WELL && i < health->now->count; i++)
        if (!process_is_well(&health->now->process[i], why))
            return false;
    return true;
}

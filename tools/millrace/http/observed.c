#include "tools/millrace/http/observed.h"

bool mr_observed_counts(const mr_source_summary *source) {
    return !source->elsewhere && !source->stay.removed;
}

bool mr_observed_is_linked(const mr_source_summary *source) {
    const mr_link_state phase = source->report.phase;
    return !source->ended && !source->status && (phase == MR_LINK_UNREPORTED || phase == MR_LINK_LIVE);
}

bool mr_observed_is_up(const mr_observed_process *process, const mr_source_summary *source) {
    return process->pid && process->ready && mr_observed_is_linked(source);
}

static bool is_away(mr_link_state phase) {
    return phase == MR_LINK_CONNECTING || phase == MR_LINK_STALLED || phase == MR_LINK_AWAY;
}

bool mr_observed_is_held_up(const mr_summary *summary) {
    for (size_t i = 0; i < summary->stage_count; i++)
        if (is_away(summary->stages[i].service.phase) || summary->stages[i].untaken)
            return true;
    for (size_t i = 0; i < summary->cut_count; i++)
        if (summary->cuts[i].absent)
            return true;
    return false;
}

bool mr_observed_any_is_held_up(const mr_observed *now) {
    for (size_t i = 0; i < now->count; i++)
        if (now->process[i].pid && now->process[i].summary && mr_observed_is_held_up(now->process[i].summary))
            return true;
    return false;
}

static void add(mr_observed_ledger *sum, const mr_source_summary *source) {
    if (source->elsewhere)
        return;
    sum->in += source->in;
    sum->delivered += source->delivered;
    sum->dropped += source->dropped;
    sum->absorbed += source->absorbed;
    sum->in_flight += source->in_flight;
}

mr_observed_ledger mr_observed_sum(const mr_observed *now) {
    mr_observed_ledger sum = {0};
    for (size_t i = 0; i < now->count; i++) {
        const mr_summary *summary = now->process[i].summary;
        for (size_t s = 0; summary && s < summary->source_count; s++)
            add(&sum, &summary->sources[s]);
    }
    return sum;
}

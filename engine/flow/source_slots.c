#include "engine/flow/source_slots.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "engine/base/thread.h"
#include "engine/flow/executor/drive.h"
#include "engine/flow/run/control.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/source_counts.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/tracing.h"
#include "millrace/log.h"

/* How many different ids a run may see: each must be remembered, since results and accounts refer to it. */
enum { MOST_IDS = 1 << 20, MOST_ID_BYTES = 64 << 20 };

typedef enum slot_phase {
    PRESENT, /* the source is there, or will begin */
    LEAVING, /* the source was removed; some frames may still be in flight */
    OVER,    /* the source has ended without being removed; another may have the slot */
    VACANT
} slot_phase;

typedef struct source_slot {
    slot_phase phase;
    mr_candidate *next; /* the source that gets the slot next; NULL: none */
    mr_spec *spec;      /* owns the source's options; NULL: the plan does */
    mr_format_set gives; /* proven for the source */
    mr_task room;       /* external sources: wakes a program that waits for room to push */
    bool pushed_end;    /* external sources: the program ended the source */
    uint64_t counted;   /* frames in the account before */
    int64_t counted_ns; /* when the account first had that many; 0: there were none */
} source_slot;

/* Needs the lock in sources.h. */
struct mr_source_slots {
    const mr_run *run;
    const mr_wiring *wiring;
    mr_source_jobs *jobs;
    bool open;
    struct mr_retired *retired;  /* removed sources; NULL: none can be removed */
    mr_names *ids;               /* ids for sources that come and go; NULL: none can */
    mr_names_share ids_share;
    source_slot slot[];  /* by source */
};

static bool retire(void *context, uint32_t source);

static void end_pushes(void *context, uint32_t source) {
    mr_source_end_pushes(context, source, NULL);
}

static void tell_room(void *context) {
    const mr_source_slots *slots = context;
    mr_sources_lock(slots->run->sources);
    mr_sources_announce(slots->run->sources);
    mr_sources_unlock(slots->run->sources);
}

static int create_changing(mr_source_slots *slots) {
    slots->retired = mr_calloc(1, sizeof *slots->retired);
    if (!slots->retired)
        return mr_fail(MR_ERROR_MEMORY, "no memory for sources that come and go");
    for (size_t s = 0; s < slots->run->plan->source_count; s++)
        slots->slot[s].phase = slots->run->plan->vertices[s].offer.reserved ? VACANT : PRESENT;
    return mr_names_create(&slots->ids, MOST_IDS, MOST_ID_BYTES);
}

int mr_source_slots_create(mr_source_slots **slots, const mr_run *run, const mr_wiring *wiring, mr_source_jobs *jobs) {
    mr_source_slots *made = mr_calloc(1, sizeof *made + run->plan->source_count * sizeof *made->slot);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    *slots = made;
    made->run = run;
    made->wiring = wiring;
    made->jobs = jobs;
    for (size_t s = 0; s < run->plan->source_count; s++) {
        mr_task_init(&made->slot[s].room, run->executor, tell_room, made);
        made->slot[s].gives = run->plan->vertices[s].outputs[0].set;
    }
    mr_source_jobs_set_calls(jobs, &(mr_source_jobs_calls){retire, end_pushes, made});
    return mr_plan_changes(run->plan) ? create_changing(made) : MR_OK;
}

static void forget(mr_candidate **candidate) {
    if (*candidate)
        mr_plan_destroy(&(*candidate)->with);
    mr_free(*candidate);
    *candidate = NULL;
}

void mr_source_slots_destroy(mr_source_slots **slots) {
    mr_source_slots *gone = *slots;
    if (!gone)
        return;
    for (size_t s = 0; s < gone->run->plan->source_count; s++) {
        mr_task_fini(&gone->slot[s].room);
        forget(&gone->slot[s].next);
        mr_spec_destroy(&gone->slot[s].spec);
    }
    if (gone->retired)
        mr_retired_fini(gone->retired);
    mr_free(gone->retired);
    mr_names_destroy(&gone->ids);
    mr_free(gone);
    *slots = NULL;
}

void mr_source_slots_open(mr_source_slots *slots) {
    mr_sources_lock(slots->run->sources);
    slots->open = true;
    mr_sources_unlock(slots->run->sources);
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

/* Keeps a copy: the label's owner may go with the source. */
static const char *keep_label(void *context, const char *label) {
    const mr_source_slots *slots = context;
    const char *kept = NULL;
    if (!slots->ids || !label)
        return label;
    return mr_names_keep(slots->ids, NULL, label, strlen(label), &kept) ? "" : kept;
}

/* Returns when the number of frames was last seen to have changed. Frames need not read the clock for that. */
static int64_t note_frames(source_slot *slot, uint64_t frames) {
    if (frames != slot->counted)
        slot->counted_ns = mr_clock_date_ns();
    slot->counted = frames;
    return slot->counted_ns;
}

/* With the lock. */
static void account_of(mr_source_slots *slots, uint32_t source, mr_source_summary *account) {
    mr_source_account(slots->run, source, !mr_wiring_source(slots->wiring, source), account);
    account->stay.leaving = slots->slot[source].phase == LEAVING;
    account->last_frame_ns = note_frames(&slots->slot[source], account->in);
    for (size_t i = 0; i < account->truth_count; i++)
        account->truths[i].label = keep_label(slots, account->truths[i].label);
}

bool mr_source_slot_account(mr_source_slots *slots, uint32_t source, mr_source_summary *account) {
    const bool there = slots->slot[source].phase != VACANT;
    if (there)
        account_of(slots, source, account);
    return there;
}

bool mr_source_slot_is_vacant(const mr_source_slots *slots, uint32_t source) {
    return slots->slot[source].phase == VACANT;
}

bool mr_source_retired_account(const mr_source_slots *slots, size_t index, mr_source_summary *account) {
    return slots->retired && index < mr_retired_count(slots->retired) &&
           mr_retired_copy(slots->retired, index, account);
}

uint64_t mr_source_slots_unaccounted(const mr_source_slots *slots) {
    return slots->retired ? mr_retired_unaccounted(slots->retired) : 0;
}

/* Moves the account to the removed sources, and starts a new one for the slot. With the lock. */
static void close_account(mr_source_slots *slots, uint32_t source) {
    mr_source_summary account;
    account_of(slots, source, &account);
    account.stay.leaving = false;
    account.stay.removed = account.ended = true;
    mr_retired_add(slots->retired, &account);
    mr_source_renew(slots->run, source);
    mr_spec_destroy(&slots->slot[source].spec);
    slots->slot[source].phase = VACANT;
    slots->slot[source].counted = 0;
    slots->slot[source].counted_ns = 0;
    mr_control_note_change(slots->run);
}

/* ---- admitting --------------------------------------------------------------------------------------------------- */

/* With the lock. */
static uint32_t find(const mr_source_slots *slots, const char *id) {
    for (uint32_t s = 0; s < slots->run->plan->source_count; s++)
        if (slots->slot[s].phase != VACANT && strcmp(slots->run->plan->vertices[s].id, id) == 0)
            return s;
    return MR_SOURCE_NONE;
}

static void rename_instances(mr_source_slots *slots, uint32_t source) {
    for (size_t i = 0; i < mr_wiring_count(slots->wiring); i++)
        if (mr_wiring_at(slots->wiring, i)->self.source == source)
            mr_instance_rename(mr_wiring_at(slots->wiring, i));
}

/* The slot must be vacant and `id` kept. Takes ownership of candidate->with. With the lock. Texts are kept for the run:
 * messages and views may name a source that is being removed. */
static void admit(mr_source_slots *slots, uint32_t slot, mr_candidate *candidate, const char *id) {
    source_slot *state = &slots->slot[slot];
    const mr_plan_vertex *source = &candidate->with->vertices[candidate->source];
    mr_plan_seat((mr_plan *)(uintptr_t)slots->run->plan, slot, source, id, keep_label(slots, source->place),
                 keep_label(slots, source->remarks.anywhere));
    mr_source_counts_renew(slots->run->counts, slot, mr_retired_epoch(slots->retired, id));
    state->gives = source->outputs[0].set;
    state->spec = (mr_spec *)(uintptr_t)candidate->with->spec;
    candidate->with->spec = NULL;
    mr_plan_destroy(&candidate->with);
    state->pushed_end = false;
    state->phase = PRESENT;
    mr_source_arrive(slots->run, slot);
    mr_control_note_change(slots->run);
    rename_instances(slots, slot);
    mr_tracing_rename(slots->run, slot);
}

static int keep_id(mr_source_slots *slots, const mr_candidate *candidate, const char **id) {
    const char *given = candidate->with->vertices[candidate->source].id;
    int status = mr_names_keep(slots->ids, &slots->ids_share, given, strlen(given), id);
    return status == MR_ERROR_PROTOCOL
               ? mr_fail(MR_ERROR_UNAVAILABLE, "this run has seen %d different sources, and remembers no more",
                         MOST_IDS)
               : status;
}

/* Whether the candidate can have the slot. If only formats or sizes do not fit, *status and the message give the
 * reason. */
static bool suits(const mr_source_slots *slots, uint32_t slot, const mr_candidate *candidate, int *status) {
    if (!mr_wiring_source(slots->wiring, slot) ||
        !mr_plan_fits(slots->run->plan, slot, candidate->with, candidate->source))
        return false;
    int proven = mr_plan_proves(slots->run->plan, slot, candidate->with, candidate->source);
    *status = proven ? proven : *status;
    return !proven;
}

/* Prefers a vacant slot to one whose source has ended. */
static uint32_t choose(const mr_source_slots *slots, const mr_candidate *candidate, int *status, size_t *taken) {
    uint32_t ended = MR_SOURCE_NONE;
    *taken = 0;
    for (uint32_t s = 0; s < slots->run->plan->source_count; s++) {
        slot_phase phase = slots->slot[s].phase;
        *taken += phase == PRESENT || phase == LEAVING;
        bool free = phase == VACANT || (phase == OVER && ended == MR_SOURCE_NONE);
        if (!free || !suits(slots, s, candidate, status))
            continue;
        if (phase == VACANT)
            return s;
        ended = s;
    }
    return ended;
}

static int no_place(const mr_source_slots *slots, const mr_candidate *candidate, int status, size_t taken) {
    const mr_spec *spec = slots->run->plan->spec;
    const mr_plan_vertex *vertex = &candidate->with->vertices[candidate->source];
    if (taken >= spec->most_sources)
        return mr_fail(MR_ERROR_UNAVAILABLE,
                       "%s: there are %zu sources already (sources.max, %s:%d:%d): remove one first",
                       vertex->id, taken, spec->most_place.file, spec->most_place.line, spec->most_place.column);
    if (status)
        return mr_fail(status, "%s: %s", vertex->id, mr_message());
    return mr_fail(MR_ERROR_CONFIG,
                   "%s: no place is left that is for type %s and leads to its stages: write like: {type: ...} under "
                   "`sources`",
                   vertex->id, vertex->type->name);
}

/* Makes the candidate follow the slot's source when that has left. With the lock; takes ownership of
 * candidate->with. */
static int line_up(mr_source_slots *slots, uint32_t slot, mr_candidate *candidate) {
    int status = MR_OK;
    if (!suits(slots, slot, candidate, &status))
        return status ? mr_fail(status, "%s: %s: remove it, and add it when it is gone",
                                slots->run->plan->vertices[slot].id, mr_message())
                      : mr_fail(MR_ERROR_CONFIG,
                                "%s: its type and its stages cannot change while it runs: remove it, and "
                                "add another", slots->run->plan->vertices[slot].id);
    mr_candidate *next = mr_calloc(1, sizeof *next);
    if (!next)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a source");
    forget(&slots->slot[slot].next);
    *next = *candidate;
    candidate->with = NULL;
    slots->slot[slot].next = next;
    return MR_OK;
}

static int refuse_time(const mr_source_slots *slots) {
    if (!slots->open)
        return mr_fail(MR_ERROR_USAGE, "the pipeline has not started");
    return mr_control_is_stopping(slots->run) ? mr_fail(MR_ERROR_CANCELLED, "the pipeline is stopping") : MR_OK;
}

/* With the lock. */
static int check_free(const mr_source_slots *slots, const char *id) {
    uint32_t same = find(slots, id);
    const source_slot *state = same == MR_SOURCE_NONE ? NULL : &slots->slot[same];
    int status = refuse_time(slots);
    if (status || !state || state->phase == OVER || (state->phase == LEAVING && !state->next))
        return status;
    return mr_fail(MR_ERROR_USAGE, "there is a source %s already: use set to change it", id);
}

int mr_source_may_come(mr_source_slots *slots, const char *id) {
    mr_sources_lock(slots->run->sources);
    int status = check_free(slots, id);
    mr_sources_unlock(slots->run->sources);
    return status;
}

static int take(mr_source_slots *slots, mr_candidate *candidate, uint32_t *slot) {
    const char *id = candidate->with->vertices[candidate->source].id;
    uint32_t same = find(slots, id);
    int status = check_free(slots, id);
    size_t taken = 0;
    if (status)
        return status;
    if (same != MR_SOURCE_NONE && slots->slot[same].phase == LEAVING)
        return line_up(slots, same, candidate);
    *slot = same != MR_SOURCE_NONE && suits(slots, same, candidate, &status)
                 ? same
                 : choose(slots, candidate, &status, &taken);
    if (*slot == MR_SOURCE_NONE)
        return no_place(slots, candidate, status, taken);
    status = keep_id(slots, candidate, &id);
    if (status)
        return status;
    if (same != MR_SOURCE_NONE)
        close_account(slots, same);
    if (slots->slot[*slot].phase == OVER)
        close_account(slots, *slot);
    admit(slots, *slot, candidate, id);
    return MR_OK;
}

int mr_source_admit(mr_source_slots *slots, mr_candidate *candidate) {
    uint32_t slot = MR_SOURCE_NONE;
    mr_sources_lock(slots->run->sources);
    int status = take(slots, candidate, &slot);
    mr_sources_unlock(slots->run->sources);
    if (!status && slot != MR_SOURCE_NONE)
        mr_source_jobs_ask(slots->jobs, slot);
    return status;
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

/* With the lock. */
static void push_end(mr_source_slots *slots, uint32_t slot) {
    mr_item end = {.kind = MR_ITEM_END,
                   .source = slot,
                   .leaves = mr_plan_changes(slots->run->plan) && !mr_control_is_stopping(slots->run)};
    if (!slots->slot[slot].pushed_end)
        mr_link_push(mr_wiring_external_inlet(slots->wiring, slot), &end, NULL);
    slots->slot[slot].pushed_end = true;
}

/* Interrupts the source. The lock ensures that this is not the slot's next source. A source that has not begun must see
 * by itself that it has to leave: its tasks may just be getting their threads. */
static void ask_to_leave(mr_source_slots *slots, uint32_t slot) {
    mr_instance *instance = mr_wiring_source(slots->wiring, slot);
    slots->slot[slot].phase = LEAVING;
    mr_source_ask_to_leave(slots->run, slot);
    if (slots->run->plan->vertices[slot].type->external)
        push_end(slots, slot);
    if (mr_opening_has_begun(&instance->opening)) {
        mr_instance_tell_stop(instance);
        mr_instance_wake_all(instance);
    }
    mr_sources_announce(slots->run->sources); /* for a program that waits to push */
}

/* With the lock. */
static int no_source(const mr_source_slots *slots, const char *id) {
    mr_nearest nearest = {.wanted = id};
    char meant[256];
    for (uint32_t s = 0; s < slots->run->plan->source_count; s++)
        if (slots->slot[s].phase != VACANT)
            mr_nearest_offer(&nearest, slots->run->plan->vertices[s].id);
    const char *near = mr_nearest_hint(&nearest, meant, sizeof meant, NULL);
    return mr_fail(MR_ERROR_USAGE, "pipeline %s has no source \"%s\"%s%s", slots->run->plan->name, id,
                   near ? ": " : "", near ? near : "");
}

int mr_source_remove(mr_source_slots *slots, const char *id) {
    mr_sources_lock(slots->run->sources);
    uint32_t slot = find(slots, id);
    source_slot *state = slot == MR_SOURCE_NONE ? NULL : &slots->slot[slot];
    bool asks = state && state->phase == PRESENT;
    if (asks)
        ask_to_leave(slots, slot);
    else if (state && state->phase == OVER)
        close_account(slots, slot);
    if (state)
        forget(&state->next);
    int status = state ? MR_OK : no_source(slots, id);
    mr_sources_unlock(slots->run->sources);
    return status;
}

int mr_source_replace(mr_source_slots *slots, mr_candidate *candidate) {
    const char *id = candidate->with->vertices[candidate->source].id;
    mr_sources_lock(slots->run->sources);
    uint32_t slot = find(slots, id);
    slot_phase phase = slot == MR_SOURCE_NONE ? VACANT : slots->slot[slot].phase;
    bool waits = phase == PRESENT || phase == LEAVING, admitted = false;
    int status = slot == MR_SOURCE_NONE ? no_source(slots, id) : refuse_time(slots);
    if (!status && waits)
        status = line_up(slots, slot, candidate);
    else if (!status)
        admitted = !(status = take(slots, candidate, &slot));
    if (!status && phase == PRESENT)
        ask_to_leave(slots, slot);
    mr_sources_unlock(slots->run->sources);
    if (admitted)
        mr_source_jobs_ask(slots->jobs, slot);
    return status;
}

static bool retire(void *context, uint32_t source) {
    mr_source_slots *slots = context;
    source_slot *state = &slots->slot[source];
    const char *id = NULL;
    mr_sources_lock(slots->run->sources);
    bool removed = state->phase == LEAVING, admitted = false;
    mr_source_counts_keep_labels(slots->run->counts, source, keep_label, slots);
    mr_source_leave(slots->run, source);
    state->phase = OVER;
    if (removed)
        close_account(slots, source);
    if (removed && state->next && !mr_control_is_stopping(slots->run)) {
        admitted = !keep_id(slots, state->next, &id);
        if (admitted)
            admit(slots, source, state->next, id);
        else
            mr_log(MR_LOG_ERROR, "%s", mr_message());
    }
    forget(&state->next);
    state->pushed_end = false;
    mr_sources_announce(slots->run->sources);
    mr_sources_unlock(slots->run->sources);
    return admitted;
}

static bool is_leaving(mr_source_slots *slots, const char *id) {
    uint32_t slot = find(slots, id);
    return slot != MR_SOURCE_NONE && slots->slot[slot].phase == LEAVING && !slots->slot[slot].next;
}

int mr_source_await_removal(mr_source_slots *slots, const char *id, int64_t timeout_ns) {
    const mr_run *run = slots->run;
    struct timespec until = mr_condition_until(timeout_ns);
    if (run->seed)
        mr_executor_drive(run->executor, mr_executor_now_ns(run->executor));
    mr_sources_lock(run->sources);
    bool leaving = is_leaving(slots, id), late = run->seed || timeout_ns == 0;
    while (leaving && !late) {
        late = !mr_sources_await(run->sources, timeout_ns < 0 ? NULL : &until);
        leaving = is_leaving(slots, id);
    }
    mr_sources_unlock(run->sources);
    return leaving ? mr_fail(MR_ERROR_AGAIN, "%s is leaving: frames of it are on their way", id) : MR_OK;
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */

static const mr_yaml *node_of(const mr_source_slots *slots, uint32_t slot, const char *id) {
    const mr_spec *spec = slots->slot[slot].spec;
    if (!spec)
        return slots->run->plan->spec->sources[slot].node;
    for (size_t s = 0; s < spec->source_count; s++)
        if (strcmp(spec->sources[s].id, id) == 0)
            return spec->sources[s].node;
    return NULL;
}

uint32_t mr_source_find(mr_source_slots *slots, const char *id, const char **kept) {
    mr_sources_lock(slots->run->sources);
    uint32_t slot = find(slots, id);
    *kept = slot == MR_SOURCE_NONE ? NULL : slots->run->plan->vertices[slot].id;
    mr_sources_unlock(slots->run->sources);
    return slot;
}

mr_format_set mr_source_formats(mr_source_slots *slots, uint32_t source) {
    mr_sources_lock(slots->run->sources);
    mr_format_set set = slots->slot[source].gives;
    mr_sources_unlock(slots->run->sources);
    return set;
}

bool mr_source_gives(mr_source_slots *slots, const char *id) {
    mr_sources_lock(slots->run->sources);
    uint32_t slot = find(slots, id);
    const source_slot *state = slot == MR_SOURCE_NONE ? NULL : &slots->slot[slot];
    bool gives = state && state->phase == PRESENT && !state->next;
    mr_sources_unlock(slots->run->sources);
    return gives;
}

int mr_source_options(mr_source_slots *slots, const char *id, mr_arena *arena, mr_yaml **node) {
    mr_sources_lock(slots->run->sources);
    uint32_t slot = find(slots, id);
    const mr_yaml *own = slot == MR_SOURCE_NONE ? NULL : node_of(slots, slot, id);
    const char *file = own ? mr_arena_text(arena, own->place.file, strlen(own->place.file)) : NULL;
    *node = file ? mr_yaml_copy(arena, own, file) : NULL;
    int status = !own ? no_source(slots, id) : *node ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a source");
    mr_sources_unlock(slots->run->sources);
    return status;
}

/* ---- frames from the program ------------------------------------------------------------------------------------- */

/* If sources can come and go, another may have the slot by now. With the lock. */
static bool takes_frames(const mr_source_slots *slots, uint32_t source, const char *id) {
    const source_slot *state = &slots->slot[source];
    return !slots->retired || !id ||
           (state->phase == PRESENT && !state->pushed_end && slots->run->plan->vertices[source].id == id);
}

void mr_source_end_pushes(mr_source_slots *slots, uint32_t source, const char *id) {
    mr_sources_lock(slots->run->sources);
    /* Otherwise the end would reach the slot's next source. */
    if (takes_frames(slots, source, id))
        push_end(slots, source);
    mr_sources_unlock(slots->run->sources);
}

int mr_source_push(mr_source_slots *slots, uint32_t source, const char *id, mr_frame *frame, int64_t timeout_ns) {
    const mr_run *run = slots->run;
    mr_item item = {.kind = MR_ITEM_FRAME, .source = source, .frame = frame};
    struct timespec until = mr_condition_until(timeout_ns);
    for (;;) {
        if (mr_control_is_stopping(run))
            return mr_fail(MR_ERROR_CANCELLED, "the pipeline is stopping");
        item.entered_ns = mr_executor_now_ns(run->executor);
        mr_sources_lock(run->sources);
        bool gone = !takes_frames(slots, source, id);
        bool pushed =
            !gone && mr_link_push(mr_wiring_external_inlet(slots->wiring, source), &item, &slots->slot[source].room);
        /* The room task needs the lock to signal, so it cannot do that before the wait begins. */
        bool waits = !pushed && !gone && timeout_ns != 0 && !run->seed;
        bool late = waits && !mr_sources_await(run->sources, timeout_ns < 0 ? NULL : &until);
        mr_sources_unlock(run->sources);
        if (pushed)
            return MR_OK;
        if (gone)
            return mr_fail(MR_ERROR_CANCELLED, "the source %s has ended, or was removed", id);
        if (run->seed && timeout_ns != 0 && mr_executor_drive(run->executor, item.entered_ns))
            continue;
        if (late || timeout_ns == 0 || run->seed)
            return mr_fail(MR_ERROR_AGAIN, "%s has no room", id);
    }
}

/* Inputs of a call: a batch from one link, or one frame of each port. */
#include "engine/flow/intake.h"

#include "engine/flow/copy.h"
#include "engine/flow/run/deadline.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/link/link.h"
#include "engine/flow/placement.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/settle.h"

/* ---- one port ---------------------------------------------------------------------------------------------------- */

/* Frames are taken from the link until the batch is full, its time is up, or no more can join. Frames that are late by
 * then are dropped before work is spent on them. */
int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    if (mr_event_done(frame->ready))
        return mr_event_status(frame->ready) < 0 ? mr_event_status(frame->ready) : 1;
    /* The same device orders the work itself; the host must wait until the device is done. */
    if (mr_event_device(frame->ready) == mr_slot_instance_state(entry->instance, slot)->self.device)
        return 1;
    mr_event_notify(frame->ready, &entry->waits[place], mr_task_waker, &entry->task);
    return 0;
}

/* Whether an earlier run settled the frame, and it goes no further. */
static bool leaves_out(const mr_instance *instance, const mr_frame *frame) {
    return instance->run->resume && mr_resume_leaves_out(instance->run->resume, instance->vertex, frame);
}

/* The reason not to process a frame; NULL if there is none. */
static const char *refusal(mr_instance *instance, const mr_frame *frame) {
    if (mr_control_is_cancelled(instance->run))
        return MR_REASON_STOPPED;
    if (atomic_load_explicit(&instance->failed, memory_order_relaxed))
        return "failed";
    return mr_shedder_sheds(&instance->shedder) ? mr_shedder_refusal(&instance->shedder, frame) : NULL;
}

/* Drops an input that is not to be processed, or cannot be. */
static void refuse(mr_instance *instance, mr_slot *slot, mr_item *item, const char *stage, const char *reason) {
    mr_instance_settle(instance, slot, item->frame, MR_NOTE_DROPPED, stage, reason);
    mr_frame_unref(&item->frame);
    mr_credit_return(&instance->credit, item->source);
}

/* Whether a frame of the source may be taken: there is room for it behind this stage, or it goes no further. If not,
 * the entry will be woken when there is. */
static bool take_credit(void *context, uint32_t source) {
    mr_entry_task *entry = context;
    mr_instance *instance = entry->instance;
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (!mr_credit_is_needed(&instance->credit))
        return true;
    const uint32_t coming = mr_credit_of(&instance->credit, source);
    const bool drops_all = mr_control_is_cancelled(instance->run) ||
                           atomic_load_explicit(&instance->failed, memory_order_relaxed);
    const bool fits = !hooks || !hooks->has_room ||
                      hooks->has_room(&instance->placement.states[0].self, source, coming);
    const bool has_room =
        drops_all || (fits && mr_outlets_have_room(&instance->outlets, source, coming, &entry->task));
    if (has_room)
        mr_credit_give(&instance->credit, source);
    instance->intake.held_up |= !has_room;
    return has_room;
}

static bool fill_inbox(mr_entry_task *entry, size_t wanted) {
    mr_intake *intake = &entry->instance->intake;
    if (intake->inbox_count)
        return true;
    size_t count = wanted > intake->burst ? wanted : intake->burst;
    count = count > MR_BURST ? MR_BURST : count;
    intake->inbox_first = 0;
    intake->held_up = false;
    intake->inbox_count = mr_credit_is_needed(&entry->instance->credit)
                              ? mr_link_pop_claimed(intake->ports[0], intake->inbox, count, take_credit, entry)
                                         : mr_link_pop(intake->ports[0], intake->inbox, count);
    return intake->inbox_count > 0;
}

static void take_from_inbox(mr_instance *instance) {
    instance->intake.inbox_first++;
    instance->intake.inbox_count--;
}

/* Moves the first frame of the inbox into the slot, or drops it. False: it is not ready; the entry will be woken. */
static bool take_frame(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    mr_item *item = &instance->intake.inbox[instance->intake.inbox_first];
    const char *reason = refusal(instance, item->frame);
    if (!reason && leaves_out(instance, item->frame)) {
        mr_instance_settle(instance, slot, item->frame, MR_NOTE_ABSORBED, instance->self.id, MR_REASON_DONE_BEFORE);
        mr_frame_unref(&item->frame);
        mr_credit_return(&instance->credit, item->source);
    } else if (reason && !instance->self.type->external) {
        refuse(instance, slot, item, instance->self.id, reason);
    } else {
        if (slot->frame_count == 0 && instance->placement.state_count > 1)
            slot->device_number = mr_instance_choose_device(instance, item->frame);
        int ready = mr_input_ready(slot, item->frame, entry, 0);
        if (ready == 0)
            return false;
        if (ready < 0)
            refuse(instance, slot, item, mr_event_stage(item->frame->ready)->id, "device error");
        else
            mr_slot_add_frame(slot, item);
    }
    take_from_inbox(instance);
    return true;
}

/* Drops frames that became late while their batch gathered. */
static void shed_gathered(mr_instance *instance, mr_slot *slot, const mr_task *task) {
    size_t kept = 0;
    int64_t now = mr_executor_now_ns(task->executor);
    for (size_t i = 0; i < slot->frame_count; i++) {
        mr_item item = {.source = slot->sources[i], .frame = slot->frames[i], .entered_ns = slot->entered_ns[i]};
        if (mr_deadline_passed(item.frame, now)) {
            refuse(instance, slot, &item, instance->self.id, "late");
            continue;
        }
        slot->frames[kept] = item.frame;
        slot->sources[kept] = item.source;
        slot->entered_ns[kept++] = item.entered_ns;
    }
    slot->frame_count = kept;
}

/* The frames that a call may take. Those that wait are taken together only if no worker is idle, which could work for
 * them meanwhile. */
static size_t most_frames(const mr_instance *instance, const mr_task *task) {
    const mr_plan_vertex *vertex = instance->vertex;
    const bool gathers = vertex->calls.gathers > 1 && mr_executor_is_busy(task->executor);
    return (size_t)(gathers ? vertex->calls.gathers : instance->self.batch);
}

/* Before a join, gaps count as frames: the other ways to the join hold as many frames as the batches on the way there
 * may gather, and no more. If the number of missing frames is unknown, the batch does not wait any longer. */
static bool is_full(const mr_instance *instance, const mr_slot *slot, size_t most) {
    size_t marks = mr_outlets_mark_gaps(&instance->outlets) ? slot->mark_count + slot->output_count : 0;
    return slot->lost || slot->frame_count + marks >= most;
}

/* A copy takes frames together only if one event makes them ready, so that work that fails affects no other frames. A
 * frame that is not ready does not join those that were gathered. */
static bool goes_alone(const mr_instance *instance, const mr_slot *slot, const mr_item *item) {
    const mr_event *ready = item->frame->ready;
    if (!slot->frame_count)
        return false;
    if (instance->vertex->calls.gathers > 1)
        return ready && !mr_event_done(ready);
    return instance->vertex->copy && ready != slot->frames[0]->ready;
}

/* A batch that is not full leaves when its time is up, when every source has ended, or when the frames that would fill
 * it have no room behind this stage; frames that are only gathered, and those of a copy, at once. */
static bool leaves(mr_instance *instance, mr_slot *slot, mr_task *task) {
    if (slot->frame_count == 0)
        return slot->mark_count > 0 || slot->output_count > 0;
    if (!mr_plan_waits_for_batch(instance->vertex) || is_full(instance, slot, (size_t)instance->self.batch) ||
        instance->intake.held_up || mr_link_ended(instance->intake.ports[0]))
        return true;
    if (instance->vertex->calls.batch_timeout_ns <= 0)
        return false;
    int64_t now = mr_executor_now_ns(task->executor);
    if (instance->intake.batch_due_ns == INT64_MAX)
        instance->intake.batch_due_ns = now + instance->vertex->calls.batch_timeout_ns;
    if (now >= instance->intake.batch_due_ns)
        return true;
    mr_task_wake_at(task, instance->intake.batch_due_ns);
    return false;
}

static void add_mark(mr_slot *slot, const mr_item *mark) {
    mr_slot_add_mark(slot, mark);
    slot->lost |= mark->kind == MR_ITEM_GAP && mr_identity_is_lost(&mark->identity);
}

bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    const size_t most = most_frames(instance, &entry->task);
    if (mr_shedder_sheds(&instance->shedder) && slot->frame_count)
        shed_gathered(instance, slot, &entry->task);
    while (!is_full(instance, slot, most) && fill_inbox(entry, most - slot->frame_count)) {
        mr_item *item = &instance->intake.inbox[instance->intake.inbox_first];
        if (item->kind == MR_ITEM_FRAME) {
            if (goes_alone(instance, slot, item))
                break;
            if (!take_frame(instance, slot, entry))
                return false;
        } else {
            if (item->kind == MR_ITEM_END || mr_outlets_mark_gaps(&instance->outlets))
                add_mark(slot, item);
            take_from_inbox(instance);
        }
        if (slot->mark_count && slot->frame_count == 0)
            break;
    }
    if (!leaves(instance, slot, &entry->task))
        return false;
    instance->intake.batch_due_ns = INT64_MAX;
    return true;
}

/* ---- joins ------------------------------------------------------------------------------------------------------- */

/* Joins: a stage with several input ports gets one frame of each, matched by identity.
 *
 * Within a source every port's frames come in the order of their identities, so it is enough to compare the first of
 * each lane: if all are equal they go together; otherwise the smallest can find no partner any more. A gap says so
 * before a later frame arrives, and an end says it for all that could follow. If a port's lane is `away` (gap.h),
 * nothing has a partner as long as that mark is there: frames on the other ports are passed over at once, and the mark
 * stays until another item replaces it. */
typedef enum verdict { WAITS, TAKEN, PASSED } verdict;

/* The state of each port for one source. */
typedef struct heads {
    mr_item item[MR_MAX_PORTS];
    size_t missing; /* ports with an empty lane */
    size_t ended;   /* ports at their end */
    size_t away;    /* ports whose last mark is away */
    const mr_identity *first; /* the smallest identity among frames and other gaps; NULL: none */
} heads;

static void look(mr_instance *instance, uint32_t source, heads *at) {
    *at = (heads){0};
    for (size_t port = 0; port < instance->intake.port_count; port++) {
        mr_item *item = &at->item[port];
        item->kind = MR_ITEM_END;
        bool comes = mr_link_has_source(instance->intake.ports[port], source);
        if (comes && !mr_link_head(instance->intake.ports[port], source, item))
            at->missing++;
        else if (item->kind == MR_ITEM_END)
            at->ended++;
        else if (item->kind == MR_ITEM_GAP && mr_identity_is_away(&item->identity))
            at->away++;
        else if (!at->first || mr_identity_compare(mr_item_identity(item), at->first) < 0)
            at->first = mr_item_identity(item);
    }
}

static bool stands_at(const mr_item *item, const mr_identity *identity) {
    return item->kind != MR_ITEM_END && mr_identity_compare(mr_item_identity(item), identity) == 0;
}

/* True if every port's first item is the frame `first`. */
static bool all_match(const mr_instance *instance, const heads *at) {
    for (size_t port = 0; port < instance->intake.port_count; port++)
        if (at->item[port].kind != MR_ITEM_FRAME || !stands_at(&at->item[port], at->first))
            return false;
    return true;
}

/* Takes the items at `first` from their ports; they have no partner in the others. */
static void pass_over(mr_instance *instance, mr_slot *slot, uint32_t source, heads *at) {
    mr_identity first = *at->first;
    for (size_t port = 0; port < instance->intake.port_count; port++) {
        mr_item item;
        if (!stands_at(&at->item[port], &first))
            continue;
        mr_link_take(instance->intake.ports[port], source, &item);
        if (item.kind != MR_ITEM_FRAME)
            continue;
        mr_receipt_note(item.frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "unmatched");
        mr_frame_unref(&item.frame);
    }
    mr_item gap = {.kind = MR_ITEM_GAP, .source = source, .identity = first};
    if (mr_outlets_mark_gaps(&instance->outlets))
        mr_slot_add_mark(slot, &gap);
}

/* Readiness of all frames that match: as mr_input_ready, of the first that is not 1. */
static int all_ready(const mr_instance *instance, const mr_slot *slot, const heads *at, mr_entry_task *entry,
                     size_t place, const mr_frame **failed) {
    for (size_t port = 0; port < instance->intake.port_count; port++) {
        int ready = mr_input_ready(slot, at->item[port].frame, entry, place);
        if (ready != 1) {
            *failed = at->item[port].frame;
            return ready;
        }
    }
    return 1;
}

/* A frame that went to another node and came back has a receipt of its own, and the joined frame holds only one of
 * them: "joined" is the outcome of the others, and of all if none graver follows. */
static void note_joined(const mr_instance *instance, mr_receipt *first, mr_receipt *other) {
    if (other == first)
        return;
    mr_receipt_note(first, MR_NOTE_ABSORBED, instance->self.id, "joined");
    mr_receipt_note(other, MR_NOTE_ABSORBED, instance->self.id, "joined");
}

/* With a reason: they go no further, as noted. */
static void take_all(mr_instance *instance, mr_slot *slot, uint32_t source, mr_note note, const char *stage,
                     const char *reason) {
    mr_receipt *first = NULL;
    for (size_t port = 0; port < instance->intake.port_count; port++) {
        mr_item item;
        mr_link_take(instance->intake.ports[port], source, &item);
        if (!reason) {
            first = port == 0 ? item.frame->receipt : first;
            note_joined(instance, first, item.frame->receipt);
            mr_slot_add_frame(slot, &item);
            continue;
        }
        mr_receipt_note(item.frame->receipt, note, stage, reason);
        if (port == 0)
            mr_instance_settle(instance, slot, item.frame, note, stage, reason);
        mr_frame_unref(&item.frame);
    }
}

static verdict take_match(mr_instance *instance, mr_slot *slot, size_t turn, const heads *at, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    size_t place = instance->self.source == MR_SOURCE_NONE ? turn : 0;
    const mr_frame *failed = NULL;
    if (instance->placement.state_count > 1)
        slot->device_number = mr_instance_choose_device(instance, at->item[0].frame);
    int ready = all_ready(instance, slot, at, entry, place, &failed);
    if (ready == 0)
        return WAITS;
    const char *stage = instance->self.id, *reason = NULL;
    if (mr_shedder_sheds(&instance->shedder))
        reason = mr_shedder_refusal(&instance->shedder, at->item[0].frame);
    if (mr_control_is_cancelled(instance->run)) {
        reason = MR_REASON_STOPPED;
    } else if (ready < 0) {
        stage = mr_event_stage(failed->ready)->id;
        reason = "device error";
    }
    mr_note note = MR_NOTE_DROPPED;
    if (!reason && leaves_out(instance, at->item[0].frame)) {
        note = MR_NOTE_ABSORBED;
        reason = MR_REASON_DONE_BEFORE;
    }
    if (!reason && !take_credit(entry, source))
        return WAITS;
    take_all(instance, slot, source, note, stage, reason);
    return reason ? PASSED : TAKEN;
}

static void take_ends(mr_instance *instance, mr_slot *slot, uint32_t source) {
    mr_item end;
    for (size_t port = 0; port < instance->intake.port_count; port++)
        if (mr_link_has_source(instance->intake.ports[port], source))
            mr_link_take(instance->intake.ports[port], source, &end);
    mr_slot_add_mark(slot, &end);
}

/* No frame is here, and every port is away: joins behind need not wait for it either. Reported once. */
static void pass_absence_on(mr_instance *instance, mr_slot *slot, uint32_t source, bool *reported) {
    mr_item away = {.kind = MR_ITEM_GAP, .source = source, .identity = mr_identity_away(source)};
    if (mr_outlets_mark_gaps(&instance->outlets) && !*reported)
        mr_slot_add_mark(slot, &away);
    *reported = true;
}

/* Moves one source on by one identity. */
static verdict advance(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry) {
    uint32_t source = instance->vertex->sources[turn];
    heads at;
    look(instance, source, &at);
    if (at.missing)
        return WAITS;
    if (at.away && !at.first) {
        pass_absence_on(instance, slot, source, &instance->intake.away_reported[turn]);
        return WAITS;
    }
    instance->intake.away_reported[turn] = false;
    if (at.ended == instance->intake.port_count) {
        take_ends(instance, slot, source);
        return TAKEN;
    }
    if (all_match(instance, &at))
        return take_match(instance, slot, turn, &at, entry);
    pass_over(instance, slot, source, &at);
    return PASSED;
}

bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    size_t count = instance->vertex->source_count;
    for (size_t i = 0; i < count; i++) {
        /* Sources take turns: the search starts behind the one that was served last. */
        size_t turn = (instance->intake.join_turn + i) % count;
        uint32_t source = instance->vertex->sources[turn];
        if (instance->self.source != MR_SOURCE_NONE && source != instance->self.source)
            continue;
        verdict found;
        while ((found = advance(instance, slot, turn, entry)) == PASSED)
            ;
        if (found == TAKEN) {
            instance->intake.join_turn = (turn + 1) % count;
            return true;
        }
    }
    /* Gaps left by drops here, for joins behind, must not wait for the next match. */
    return slot->mark_count > 0 || slot->output_count > 0;
}

/* Collects a call's inputs from one link. It takes frames until the batch is full, its time is up or no more can join.
 * Frames that became late meanwhile are dropped before any work is spent on them. */
#include "engine/flow/gather.h"

#include "engine/flow/copy.h"
#include "engine/flow/input.h"
#include "engine/flow/run/control.h"
#include "engine/flow/settle.h"

/* Why a frame must not be processed; NULL if it may. */
static const char *refusal(mr_instance *instance, const mr_frame *frame) {
    if (mr_control_is_cancelled(instance->run))
        return MR_REASON_STOPPED;
    if (atomic_load_explicit(&instance->failed, memory_order_relaxed))
        return "failed";
    return mr_shedder_sheds(&instance->shedder) ? mr_shedder_refusal(&instance->shedder, frame) : NULL;
}

/* Drops an input that must not, or cannot, be processed. */
static void refuse(mr_instance *instance, mr_slot *slot, mr_item *item, const char *stage, const char *reason) {
    mr_settle_frame(instance, slot, item->frame, MR_NOTE_DROPPED, stage, reason);
    mr_frame_unref(&item->frame);
    mr_credit_return(&instance->credit, item->source);
}

static void add_frame(mr_instance *instance, mr_slot *slot, const mr_item *item) {
    mr_spacing *spacing = &instance->spacing;
    mr_slot_add_frame(slot, item);
    mr_again_note(&instance->again, item->frame);
    if (!mr_spacing_is_on(spacing))
        return;
    slot->inputs[slot->frame_count - 1].passed = mr_spacing_passes(spacing, item->source, item->frame);
    mr_spacing_take(spacing, item->source, item->frame);
}

/* Moves the inbox's first frame into the slot, or drops it. False: it is not ready; the entry will be woken. */
static bool take_frame(mr_instance *instance, mr_slot *slot, mr_entry_task *entry, mr_item *item) {
    const char *reason = refusal(instance, item->frame);
    if (!reason && mr_input_is_left_out(instance, item->frame)) {
        mr_settle_frame(instance, slot, item->frame, MR_NOTE_ABSORBED, instance->self.id, MR_REASON_DONE_BEFORE);
        mr_input_await_former(instance, item->frame);
        mr_frame_unref(&item->frame);
        mr_credit_return(&instance->credit, item->source);
    } else if (reason && !instance->self.type->external) {
        refuse(instance, slot, item, instance->self.id, reason);
    } else {
        if (slot->frame_count == 0 && mr_parts_count(&instance->parts) > 1)
            slot->device_number = mr_shares_choose(&instance->shares, mr_copy_device(item->frame));
        int ready = mr_input_ready(slot, item->frame, entry, 0);
        if (ready == 0)
            return false;
        if (ready < 0)
            refuse(instance, slot, item, mr_event_stage(item->frame->ready)->id, "device error");
        else
            add_frame(instance, slot, item);
    }
    mr_inlets_take(&instance->inlets);
    return true;
}

/* Drops frames that became late while the batch was filling. */
static void shed_gathered(mr_instance *instance, mr_slot *slot, const mr_task *task) {
    size_t kept = 0;
    int64_t now = mr_executor_now_ns(task->executor);
    for (size_t i = 0; i < slot->frame_count; i++) {
        mr_item item = {.source = slot->inputs[i].source, .frame = slot->inputs[i].frame};
        if (!mr_deadline_passed(item.frame, now)) {
            slot->inputs[kept++] = slot->inputs[i];
            continue;
        }
        if (!slot->inputs[i].passed)
            mr_spacing_take_back(&instance->spacing, item.source, item.frame);
        refuse(instance, slot, &item, instance->self.id, "late");
    }
    slot->frame_count = kept;
}

/* How many frames a call may take. Waiting frames are taken together only if no worker is idle: an idle one could
 * process them at the same time. */
static size_t most_frames(const mr_instance *instance, const mr_task *task) {
    const mr_plan_vertex *vertex = instance->vertex;
    const bool gathers = vertex->calls.gathers > 1 && mr_executor_is_busy(task->executor);
    return (size_t)(gathers ? vertex->calls.gathers : instance->self.batch);
}

static size_t count_worked(const mr_slot *slot) {
    size_t count = slot->frame_count;
    for (size_t i = 0; i < slot->frame_count; i++)
        count -= slot->inputs[i].passed;
    return count;
}

/* The frames on which the call works. */
static inline size_t batch_of(const mr_instance *instance, const mr_slot *slot) {
    return mr_spacing_is_on(&instance->spacing) ? count_worked(slot) : slot->frame_count;
}

/* How many more frames surely fit. */
static inline size_t wanted(const mr_instance *instance, const mr_slot *slot, size_t most) {
    const size_t batch = most - batch_of(instance, slot);
    if (!mr_spacing_is_on(&instance->spacing))
        return batch;
    const size_t room = mr_instance_room(instance) - slot->frame_count;
    return room < batch ? room : batch;
}

/* Before a join, gaps count as frames: the other paths to the join hold only as many frames as batches on this path may
 * gather. In a cascade these are frames, not objects: they are counted by their ends. If the number of missing frames
 * is unknown, the batch must not wait longer. */
static bool is_full_with_gaps(const mr_instance *instance, const mr_slot *slot, size_t most) {
    const size_t marks = slot->mark_count + slot->output_count - slot->ends;
    return slot->lost || batch_of(instance, slot) + marks >= most || slot->ends >= most;
}

static inline bool is_full(const mr_instance *instance, const mr_slot *slot, size_t most) {
    if (mr_spacing_is_on(&instance->spacing) && slot->frame_count >= mr_instance_room(instance))
        return true;
    return mr_outlets_mark_gaps(&instance->outlets) ? is_full_with_gaps(instance, slot, most)
                                                    : batch_of(instance, slot) >= most;
}

/* A copy takes frames together only if one event makes them ready: failed work must not affect other frames. A frame
 * that is not ready cannot join a gathered batch. Frames that only pass do not wait for later ones. */
static bool goes_alone(const mr_instance *instance, const mr_slot *slot, const mr_item *item) {
    const mr_event *ready = item->frame->ready;
    if (!slot->frame_count)
        return false;
    if (mr_spacing_is_on(&instance->spacing) && !batch_of(instance, slot))
        return !mr_spacing_passes(&instance->spacing, item->source, item->frame);
    if (instance->vertex->calls.gathers > 1)
        return ready && !mr_event_done(ready);
    return instance->vertex->copy && ready != slot->inputs[0].frame->ready;
}

static bool has_frame_of(const mr_slot *slot, uint32_t source) {
    for (size_t i = 0; i < slot->frame_count; i++)
        if (slot->inputs[i].source == source)
            return true;
    return false;
}

/* Whether a source with frames in the slot must leave the run. */
static bool has_leaving_source(const mr_slot *slot) {
    for (size_t i = 0; i < slot->mark_count; i++)
        if (slot->marks[i].kind == MR_ITEM_END && slot->marks[i].leaves && has_frame_of(slot, slot->marks[i].source))
            return true;
    return false;
}

/* A partial batch leaves when its time is up, every source has ended, a source with frames in it must leave the run, or
 * the frames that would fill it have no room downstream. Gathered frames, and a copy's frames, leave at once. */
static bool leaves(mr_instance *instance, mr_slot *slot, mr_task *task) {
    if (slot->frame_count == 0)
        return slot->mark_count > 0 || slot->output_count > 0;
    if (!mr_plan_waits_for_batch(instance->vertex) || !batch_of(instance, slot) ||
        is_full(instance, slot, (size_t)instance->self.batch) || has_leaving_source(slot) ||
        mr_inlets_are_held_up(&instance->inlets) || mr_link_ended(mr_inlets_link(&instance->inlets, 0)))
        return true;
    if (instance->vertex->calls.batch_timeout_ns <= 0)
        return false;
    int64_t now = mr_executor_now_ns(task->executor);
    int64_t due = mr_inlets_due_ns(&instance->inlets, now, instance->vertex->calls.batch_timeout_ns);
    if (now >= due)
        return true;
    mr_task_wake_at(task, due);
    return false;
}

static void add_mark(mr_slot *slot, const mr_item *mark) {
    mr_slot_add_mark(slot, mark);
    slot->lost |= mark->kind == MR_ITEM_GAP && mr_identity_is_lost(&mark->identity);
    slot->ends += mark->kind == MR_ITEM_GAP && mr_identity_ends_objects(&mark->identity);
}

bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    const size_t most = most_frames(instance, &entry->task);
    if (mr_shedder_sheds(&instance->shedder) && slot->frame_count)
        shed_gathered(instance, slot, &entry->task);
    mr_link_claim *claim = mr_credit_is_needed(&instance->credit) ? mr_input_claim : NULL;
    while (!is_full(instance, slot, most)) {
        mr_item *item = mr_inlets_first(&instance->inlets, wanted(instance, slot, most), claim, entry);
        if (!item)
            break;
        if (item->kind == MR_ITEM_FRAME) {
            if (goes_alone(instance, slot, item))
                break;
            if (!take_frame(instance, slot, entry, item))
                return false;
        } else {
            if (item->kind == MR_ITEM_END || mr_outlets_mark_gaps(&instance->outlets))
                add_mark(slot, item);
            mr_inlets_take(&instance->inlets);
        }
        if (slot->mark_count && slot->frame_count == 0)
            break;
    }
    if (!leaves(instance, slot, &entry->task))
        return false;
    mr_inlets_end_batch(&instance->inlets);
    return true;
}

/* What a call gets: frames are taken from the link until the batch is full, its time is up, or nothing more can join.
 * What is late by then is dropped, before work is spent on it. */
#include <string.h>

#include "engine/flow/copy.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance.h"
#include "engine/flow/resume.h"

int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    if (mr_event_done(frame->ready))
        return mr_event_status(frame->ready) < 0 ? mr_event_status(frame->ready) : 1;
    /* The same device orders the work itself; the host must not look before the device is done. */
    if (mr_event_device(frame->ready) == mr_slot_part(entry->instance, slot)->self.device)
        return 1;
    mr_event_notify(frame->ready, &entry->waits[place], mr_task_waker, &entry->task);
    return 0;
}

bool mr_instance_leaves_out(const mr_instance *instance, const mr_frame *frame) {
    return instance->graph->resume && !instance->passes_settled && frame->receipt &&
           frame->receipt->page < instance->graph->plan->source_count &&
           mr_resume_settled(instance->graph->resume, &frame->receipt->frame);
}

/* Why a frame is not to be processed; NULL where it is. */
static const char *refusal(mr_instance *instance, const mr_frame *frame, const mr_task *task) {
    if (atomic_load_explicit(&instance->graph->cancelled, memory_order_relaxed))
        return MR_REASON_STOPPED;
    if (atomic_load_explicit(&instance->failed, memory_order_relaxed))
        return "failed";
    return instance->sheds ? mr_deadline_refusal(instance, frame, task) : NULL;
}

/* Drops an input that is not to be processed, or cannot be. */
static void refuse(mr_instance *instance, mr_slot *slot, mr_item *item, const char *stage, const char *reason) {
    mr_instance_settle(instance, slot, item->frame, MR_NOTE_DROPPED, stage, reason);
    mr_frame_unref(&item->frame);
}

static bool fill_inbox(mr_instance *instance, size_t wanted) {
    if (instance->inbox_count)
        return true;
    size_t count = wanted > instance->burst ? wanted : instance->burst;
    instance->inbox_first = 0;
    instance->inbox_count = mr_link_pop(instance->ports[0], instance->inbox, count > MR_BURST ? MR_BURST : count);
    return instance->inbox_count > 0;
}

static void take_from_inbox(mr_instance *instance) {
    instance->inbox_first++;
    instance->inbox_count--;
}

/* Moves the first frame of the inbox into the slot, or drops it. False: it is not ready; the entry will be woken. */
static bool take_frame(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    mr_item *item = &instance->inbox[instance->inbox_first];
    const char *reason = refusal(instance, item->frame, &entry->task);
    if (!reason && mr_instance_leaves_out(instance, item->frame)) {
        mr_instance_settle(instance, slot, item->frame, MR_NOTE_ABSORBED, instance->self.id, MR_REASON_DONE_BEFORE);
        mr_frame_unref(&item->frame);
    } else if (reason && !instance->self.type->external) {
        refuse(instance, slot, item, instance->self.id, reason);
    } else {
        if (slot->frame_count == 0 && instance->part_count > 1)
            slot->part = mr_instance_choose_part(instance, item->frame);
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

/* Drops what has become late while its batch gathered. */
static void shed_gathered(mr_instance *instance, mr_slot *slot, const mr_task *task) {
    size_t kept = 0;
    int64_t now = mr_executor_now_ns(task->executor);
    for (size_t i = 0; i < slot->frame_count; i++) {
        mr_item item = {.frame = slot->frames[i], .entered_ns = slot->entered_ns[i]};
        if (mr_deadline_passed(item.frame, now)) {
            refuse(instance, slot, &item, instance->self.id, "late");
            continue;
        }
        slot->frames[kept] = item.frame;
        slot->entered_ns[kept++] = item.entered_ns;
    }
    slot->frame_count = kept;
}

/* Before a join, what is gone counts as if it were there: the other ways to the join hold as many frames as the
 * batches on the way there may gather, and no more. Where nobody knows how much that is, nothing more is waited for. */
static bool is_full(const mr_instance *instance, const mr_slot *slot) {
    size_t gone = instance->tells_gone ? slot->mark_count + slot->output_count : 0;
    return slot->lost || slot->frame_count + gone >= (size_t)instance->self.batch;
}

/* A copy takes frames together that are there together: those that one event makes ready, so that work that fails takes
 * none along but its own. */
static bool goes_alone(const mr_instance *instance, const mr_slot *slot, const mr_item *item) {
    return instance->vertex->copy && slot->frame_count && item->frame->ready != slot->frames[0]->ready;
}

/* A batch that is not full leaves when its time is up or when every source has ended; that of a copy at once. */
static bool leaves(mr_instance *instance, mr_slot *slot, mr_task *task) {
    if (slot->frame_count == 0)
        return slot->mark_count > 0 || slot->output_count > 0;
    if (is_full(instance, slot) || mr_link_ended(instance->ports[0]) || instance->vertex->copy)
        return true;
    if (instance->vertex->batch_timeout_ns <= 0)
        return false;
    int64_t now = mr_executor_now_ns(task->executor);
    if (instance->batch_due_ns == INT64_MAX)
        instance->batch_due_ns = now + instance->vertex->batch_timeout_ns;
    if (now >= instance->batch_due_ns)
        return true;
    mr_task_wake_at(task, instance->batch_due_ns);
    return false;
}

static void add_mark(mr_slot *slot, const mr_item *mark) {
    mr_slot_add_mark(slot, mark);
    slot->lost |= mark->kind == MR_ITEM_GONE && mr_identity_is_lost(&mark->identity);
}

bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    size_t batch = (size_t)instance->self.batch;
    if (instance->sheds && slot->frame_count)
        shed_gathered(instance, slot, &entry->task);
    while (!is_full(instance, slot) && fill_inbox(instance, batch - slot->frame_count)) {
        mr_item *item = &instance->inbox[instance->inbox_first];
        if (item->kind == MR_ITEM_FRAME) {
            if (goes_alone(instance, slot, item))
                break;
            if (!take_frame(instance, slot, entry))
                return false;
        } else {
            if (item->kind == MR_ITEM_END || instance->tells_gone)
                add_mark(slot, item);
            take_from_inbox(instance);
        }
        if (slot->mark_count && slot->frame_count == 0)
            break;
    }
    if (!leaves(instance, slot, &entry->task))
        return false;
    instance->batch_due_ns = INT64_MAX;
    return true;
}

/* Ends calls and frees slots: outputs are pushed in call order, and a slot is free when the device work is done. */
#include "engine/flow/outputs.h"

#include "engine/flow/instance/instance.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/ends.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/run/taps.h"
#include "engine/flow/settle.h"
#include "engine/flow/tracing.h"

/* Forgets the entry's unrecorded work; it all belongs to this call. */
static void forget_work(mr_entry_task *entry) {
    for (size_t i = 0; i < mr_parts_count(&entry->instance->parts); i++) {
        entry->streams[i]->unrecorded = 0;
        if (entry->staging[i])
            entry->staging[i]->unrecorded = 0;
    }
}

/* Without an event, because the device accepts no more calls, nobody can know when it stops using the memory. The
 * memory must be kept until the streams end. Later calls' memory need not be. */
static void abandon(mr_entry_task *entry, mr_slot *slot) {
    forget_work(entry);
    slot->unended = true;
}

/* ---- the end of a call: outputs are ready, and inputs released, when its event completes ------------------------- */

/* The host's work is done, but nobody waited for copies that other devices make to it. */
static void abandon_copies(mr_entry_task *entry, mr_slot *slot) {
    bool some = false;
    for (size_t i = 0; i < mr_parts_count(&entry->instance->parts); i++)
        some = some || (entry->staging[i] && entry->staging[i]->unrecorded);
    if (some)
        abandon(entry, slot);
}

/* If work has no outputs, no consumer would wait for it. */
static bool gives_frames(const mr_slot *slot) {
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        if (slot->outputs[i].made)
            return true;
    return false;
}

static int mark_ready(mr_entry_task *entry, mr_slot *slot) {
    mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    const mr_stream *staging = entry->staging[slot->device_number];
    if (mr_parts_are_on_host(&entry->instance->parts, slot->device_number)) {
        abandon_copies(entry, slot);
        return MR_OK;
    }
    /* The event of an earlier call on this slot completes before this one. */
    mr_event *event = NULL;
    bool hands_on = mr_outlets_hand_on(&entry->instance->outlets) && gives_frames(slot);
    int status = mr_event_create(&event, self->device, self);
    if (!status)
        status = (hands_on ? mr_stream_hand_on : mr_stream_record)(entry->streams[slot->device_number], event);
    /* Input copies that nobody waited for have no end either. */
    if (!status && staging && staging->unrecorded)
        status = mr_fail(MR_ERROR_DEVICE, "%s: inputs could not be copied", self->device->name);
    if (status) {
        mr_event_unref(&event);
        /* Staged copies have separate events, which nobody waits for any more. */
        if (slot->staged || entry->streams[slot->device_number]->unrecorded || (staging && staging->unrecorded))
            abandon(entry, slot);
        return status;
    }
    mr_event_unref(&slot->event);
    slot->event = event;
    for (size_t i = slot->output_next; i < slot->output_count; i++) {
        mr_frame *frame = slot->outputs[i].item.frame;
        if (!slot->outputs[i].made)
            continue;
        mr_event_unref(&frame->ready);
        frame->ready = mr_event_ref(event);
        slot->outputs[i].made = false;
    }
    return MR_OK;
}

int mr_instance_seal_work(mr_entry_task *entry, mr_slot *slot, int answer) {
    if (answer == MR_ERROR_AGAIN) {
        /* Others wait for the inputs' work, which this stream took over. */
        mr_stream_settle(entry->streams[slot->device_number]);
        return answer;
    }
    /* A failed call may also have submitted device work, which must not outlive the memory it uses. */
    int status = mark_ready(entry, slot);
    return answer >= 0 && status ? status : answer;
}

/* ---- pushing --------------------------------------------------------------------------------------------------- */

/* A frame without a consumer is delivered if the port is optional; otherwise the work was useless. */
static void end_here(mr_instance *instance, mr_slot_output *output, int64_t now_ns) {
    mr_frame *frame = output->item.frame;
    if (instance->self.type->outputs && instance->self.type->outputs[output->port].optional) {
        mr_deliver(instance->run, instance->vertex, frame, now_ns);
    } else {
        mr_receipt_note(frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "not taken");
    }
    mr_frame_unref(&output->item.frame);
}

/* Drops a failed call's outputs. Frames leave gaps if a later stage needs them. */
static void drop_outputs(const mr_instance *instance, mr_slot *slot) {
    size_t kept = slot->output_next;
    for (size_t i = slot->output_next; i < slot->output_count; i++) {
        mr_slot_output *output = &slot->outputs[i];
        bool stays = true;
        if (output->dropped) {
            const mr_frame *frame = output->item.frame;
            stays = mr_outlets_mark_gaps(&instance->outlets) && frame->format.payload != MR_PAYLOAD_PACKET;
            mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, instance->self.id, slot->failure);
            output->dropped = false;
            output->item.kind = MR_ITEM_GAP;
            output->item.identity = frame->identity;
            mr_frame_unref(&output->item.frame);
        }
        if (stays)
            slot->outputs[kept++] = *output;
    }
    slot->output_count = kept;
    slot->failure = NULL;
}

static bool push_slot(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (slot->failure)
        drop_outputs(instance, slot);
    for (; slot->output_next < slot->output_count; slot->output_next++) {
        mr_slot_output *output = &slot->outputs[slot->output_next];
        output->item.entered_ns = mr_entry_now_ns(entry);
        if (output->item.frame)
            mr_taps_show(instance->run, instance->vertex, output->item.frame);
        if (!mr_outlets_push(&instance->outlets, output, &entry->task))
            return false;
        if (output->item.frame)
            end_here(instance, output, mr_entry_now_ns(entry));
    }
    slot->output_count = slot->output_next = 0;
    return true;
}

/* Counts ends that were pushed: all later stages can now see them. */
static void count_ends(mr_instance *instance, const mr_slot *slot) {
    const bool alone = instance->self.source != MR_SOURCE_NONE;
    for (size_t i = 0; i < slot->mark_count; i++) {
        if (slot->marks[i].kind != MR_ITEM_END)
            continue;
        mr_closing_pass_end(&instance->closing, slot->marks[i].leaves, alone);
        mr_ends_note(instance->run->ends, slot->marks[i].source, slot->marks[i].leaves);
    }
}

/* Returns the credit for all inputs. A join takes a frame from each port but only one credit. */
static void return_credit(mr_instance *instance, const mr_slot *slot) {
    if (!mr_credit_is_needed(&instance->credit))
        return;
    const size_t count = mr_inlets_join(&instance->inlets) && slot->frame_count ? 1 : slot->frame_count;
    for (size_t i = 0; i < count; i++)
        mr_credit_return(&instance->credit, slot->inputs[i].source);
}

static void push_done(mr_instance *instance, mr_entry_task *entry) {
    mr_outlets_retry(&instance->outlets);
    for (mr_slot *slot; (slot = mr_ring_unpushed(&instance->ring));) {
        bool mine = slot->state == MR_SLOT_DONE;
        /* An unfinished call's outputs can be pushed too, unless another worker may be adding to them. */
        if ((!mine && instance->shared) || !push_slot(instance, slot, entry) || !mine)
            return;
        count_ends(instance, slot);
        return_credit(instance, slot);
        mr_ring_push(&instance->ring, slot);
    }
}

/* Whether the device has done the slot's work; if not, the entry will be woken. */
static bool is_done(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (slot->event && !mr_event_done(slot->event)) {
        mr_event_notify(slot->event, &slot->wait, mr_task_waker, &entry->task);
        return false;
    }
    if (slot->event && mr_event_status(slot->event) == MR_ERROR_DEVICE)
        mr_settle_lost_device(instance, slot);
    if (slot->counted)
        mr_shares_end(&instance->shares, slot, mr_entry_now_ns(entry));
    return true;
}

/* Releases a slot if it is pushed and done. */
static bool release(void *context, mr_slot *slot) {
    mr_entry_task *entry = context;
    if (slot->state == MR_SLOT_RUNNING || !is_done(entry->instance, slot, entry) || slot->state == MR_SLOT_DONE)
        return false;
    mr_slot_free(slot, &entry->instance->abandoned);
    return true;
}

static void report_end(const mr_instance *instance) {
    if (instance->vertex->role == MR_ROLE_SOURCE)
        mr_source_end(instance->run, instance->self.source);
    if (mr_opening_waits(&instance->opening))
        mr_ends_note(instance->run->ends, instance->self.source, false);
    mr_ending_release(instance->run->ending);
}

/* Calls on one device finish in order; devices need not wait for each other. */
static void free_held(mr_instance *instance, mr_entry_task *entry) {
    mr_ring_free(&instance->ring, mr_parts_count(&instance->parts) > 1, release, entry);
    if (!mr_ring_is_empty(&instance->ring))
        return;
    if (mr_closing_take_left(&instance->closing))
        mr_ends_note(instance->run->ends, instance->self.source, true);
    if (mr_closing_take_end(&instance->closing))
        report_end(instance);
}

void mr_instance_retire(mr_instance *instance, mr_entry_task *entry) {
    push_done(instance, entry);
    free_held(instance, entry);
    if (instance->traced)
        mr_tracing_note_wait(instance);
}

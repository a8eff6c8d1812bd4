/* The end of a call, and the ring of slots: outputs are pushed in order of the calls, and a slot is free again when its
 * device work is done. */
#include "engine/flow/outputs.h"

#include "engine/base/memory.h"
#include "engine/data/pool.h"
#include "engine/data/store.h"
#include "engine/flow/credit.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/link/link.h"
#include "engine/flow/placement.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/ends.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/slots.h"
#include "engine/flow/tracing.h"

/* ---- memory that a device may still use ------------------------------------------------------------------------ */

static bool is_kept(const mr_abandonment *kept, const mr_buffer *buffer) {
    for (size_t i = 0; i < kept->count; i++)
        if (kept->items[i].buffer == buffer)
            return true;
    return false;
}

static void note(mr_abandonment *to, mr_abandoned item) {
    if (to->count == to->room) {
        size_t room = 2 * to->room + 16;
        mr_abandoned *wider = mr_realloc(to->items, room * sizeof *wider);
        to->items = wider ? wider : to->items;
        to->room = wider ? room : to->room;
    }
    if (to->count < to->room)
        to->items[to->count++] = item;
}

/* Takes over the references, even if there is no room to note them: memory that is never released does no harm. A
 * buffer that several planes or lists refer to is replaced once. */
static void keep(mr_instance *instance, mr_buffer *buffer, mr_result *result) {
    pthread_mutex_lock(&instance->abandoned.lock);
    const bool again = buffer && is_kept(&instance->abandoned, buffer);
    if (!again)
        note(&instance->abandoned, (mr_abandoned){buffer, result});
    pthread_mutex_unlock(&instance->abandoned.lock);
    if (again)
        mr_buffer_unref(&buffer);
    else if (buffer && buffer->pool)
        mr_pool_replace(buffer->pool);
}

/* Keeps the frame's memory, but not the frame, whose receipt has to close. */
static void keep_frame(mr_instance *instance, const mr_frame *frame) {
    for (int i = 0; frame && i < MR_MAX_PLANES; i++)
        if (frame->plane[i].buffer)
            keep(instance, mr_buffer_ref(frame->plane[i].buffer), NULL);
    if (frame && frame->results)
        keep(instance, NULL, mr_result_ref(frame->results));
}

/* All work of an entry that has no event yet is of its call. */
static void forget_work(mr_entry_task *entry) {
    for (size_t i = 0; i < entry->instance->placement.state_count; i++) {
        entry->streams[i]->unrecorded = 0;
        if (entry->staging[i])
            entry->staging[i]->unrecorded = 0;
    }
}

/* If there can be no event, because the device takes no more calls, its use of the memory has no known end: the memory
 * is kept until the streams end. That of later calls need not be. */
static void abandon(mr_entry_task *entry, mr_slot *slot) {
    mr_instance *instance = entry->instance;
    forget_work(entry);
    for (size_t i = 0; i < slot->frame_count; i++)
        keep_frame(instance, slot->frames[i]);
    for (size_t i = 0; i < slot->kept_count; i++)
        keep_frame(instance, slot->kept[i]);
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        if (slot->outputs[i].made)
            keep_frame(instance, slot->outputs[i].item.frame);
    for (size_t i = 0; i < slot->held_count; i++)
        keep(instance, mr_buffer_ref(slot->held[i]), NULL);
    for (size_t i = 0; i < slot->result_count; i++)
        keep(instance, NULL, mr_result_ref(slot->results[i]));
}

/* ---- the end of a call: outputs are ready, and inputs released, when its event completes ------------------------- */

/* The host has done its work, but copies to it may have been submitted to other devices and not been waited for. */
static void abandon_copies(mr_entry_task *entry, mr_slot *slot) {
    bool some = false;
    for (size_t i = 0; i < entry->instance->placement.state_count; i++)
        some = some || (entry->staging[i] && entry->staging[i]->unrecorded);
    if (some)
        abandon(entry, slot);
}

/* Work without outputs would not be taken over by any consumer. */
static bool gives_frames(const mr_slot *slot) {
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        if (slot->outputs[i].made)
            return true;
    return false;
}

static int mark_ready(mr_entry_task *entry, mr_slot *slot) {
    mr_stage *self = &mr_slot_instance_state(entry->instance, slot)->self;
    const mr_stream *staging = entry->staging[slot->device_number];
    if (mr_slot_instance_state(entry->instance, slot)->on_host) {
        abandon_copies(entry, slot);
        return MR_OK;
    }
    /* An event of an earlier call of the slot is behind this one's. */
    mr_event *event = NULL;
    bool hands_on = entry->instance->ring.hands_on && gives_frames(slot);
    int status = mr_event_create(&event, self->device, self);
    if (!status)
        status = (hands_on ? mr_stream_hand_on : mr_stream_record)(entry->streams[slot->device_number], event);
    /* Copies of inputs that were not waited for have no end either. */
    if (!status && staging && staging->unrecorded)
        status = mr_fail(MR_ERROR_DEVICE, "%s: inputs could not be copied", self->device->name);
    if (status) {
        mr_event_unref(&event);
        /* Staged copies have events of their own, which are not waited for any more. */
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
        if (mr_slot_keep(slot, frame)) {
            keep_frame(entry->instance, frame);
            status = MR_ERROR_MEMORY;
        }
        slot->outputs[i].made = false;
    }
    return status;
}

/* Outputs of a call that failed are dropped like its inputs. */
static void discard(mr_instance *instance, mr_slot *slot, size_t first, const char *reason) {
    size_t kept = first;
    for (size_t i = first; i < slot->output_count; i++) {
        mr_slot_output *output = &slot->outputs[i];
        if (output->item.kind == MR_ITEM_FRAME) {
            bool tells = instance->ring.marks_gaps && output->item.frame->format.payload != MR_PAYLOAD_PACKET;
            mr_receipt_note(output->item.frame->receipt, MR_NOTE_DROPPED, instance->self.id, reason);
            output->item.identity = output->item.frame->identity;
            mr_frame_unref(&output->item.frame);
            output->item.kind = MR_ITEM_GAP;
            output->made = false;
            if (!tells)
                continue;
        }
        slot->outputs[kept++] = *output;
    }
    slot->output_count = kept;
}

const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status) {
    const mr_stage *self = &mr_slot_instance_state(instance, slot)->self;
    /* Pinned memory is a device's too. */
    bool there = (self->device && self->device->type->kind != MR_DEVICE_CPU) ||
                 self->output_memory == MR_MEMORY_PINNED || self->output_memory == MR_MEMORY_DEVICE;
    if (status == MR_ERROR_DEVICE || (status == MR_ERROR_MEMORY && there))
        return "device error";
    return status == MR_ERROR_IO ? "io error" : "error";
}

int mr_instance_seal(mr_entry_task *entry, mr_slot *slot, size_t first, int answer) {
    if (answer == MR_ERROR_AGAIN) {
        /* Others wait for the work it has taken over. */
        if (!mr_slot_instance_state(entry->instance, slot)->on_host)
            mr_stream_settle(entry->streams[slot->device_number]);
        return answer;
    }
    /* A call that failed may also have submitted work to the device, which must not outlive the memory it uses. */
    int status = mark_ready(entry, slot);
    answer = answer >= 0 && status ? status : answer;
    if (answer < 0)
        discard(entry->instance, slot, first, mr_failure_reason(entry->instance, slot, answer));
    return answer;
}

/* ---- pushing --------------------------------------------------------------------------------------------------- */

/* Pushes to one consumer; if others want the frame too, this one gets a reference of its own. */
static bool push_to(mr_link *link, mr_slot_output *output, bool last, mr_entry_task *entry) {
    if (last) {
        if (!mr_link_push(link, &output->item, &entry->task))
            return false;
        output->item.frame = NULL;
        return true;
    }
    mr_item item = output->item;
    if (item.frame)
        mr_frame_ref(item.frame);
    bool pushed = mr_link_push(link, &item, &entry->task);
    if (!pushed && item.frame)
        mr_frame_unref(&item.frame);
    return pushed;
}

/* A frame that no stage takes is delivered if its port is optional; else the stage's work is in vain. */
static void end_here(mr_instance *instance, mr_slot_output *output, int64_t now_ns) {
    mr_frame *frame = output->item.frame;
    if (instance->self.type->outputs && instance->self.type->outputs[output->port].optional) {
        mr_receipt_note(frame->receipt, MR_NOTE_DELIVERED, NULL, NULL);
        mr_deliver(instance->run, instance->vertex, frame, now_ns);
    } else {
        mr_receipt_note(frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "not taken");
    }
    mr_frame_unref(&output->item.frame);
}

/* Pushes to the consumers that have not got it. False: one has no room. */
static bool push_output(mr_instance *instance, mr_slot_output *output, mr_entry_task *entry) {
    const mr_route *route = &instance->ring.routes[output->port];
    output->item.entered_ns = entry->io.now_ns;
    for (; output->next < route->consumer_count; output->next++) {
        mr_link *link = route->links[output->next][output->item.source];
        if (link && !push_to(link, output, output->next + 1 == route->consumer_count, entry))
            return false;
    }
    if (output->item.frame)
        end_here(instance, output, entry->io.now_ns);
    return true;
}

static bool push_slot(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    for (; slot->output_next < slot->output_count; slot->output_next++)
        if (!push_output(instance, &slot->outputs[slot->output_next], entry))
            return false;
    slot->output_count = slot->output_next = 0;
    return true;
}

/* Counts the ends that have been pushed: all stages behind see them. */
static void count_ends(mr_instance *instance, const mr_slot *slot) {
    for (size_t i = 0; i < slot->mark_count; i++) {
        if (slot->marks[i].kind != MR_ITEM_END)
            continue;
        const bool leaves = slot->marks[i].leaves;
        instance->intake.ends_left -= !leaves;
        if (leaves && instance->self.source != MR_SOURCE_NONE)
            mr_opening_note_left(&instance->opening);
        mr_ends_note(instance->run->ends, slot->marks[i].source, leaves);
    }
}

static void push_done(mr_instance *instance, mr_entry_task *entry) {
    instance->ring.stuck = false;
    while (instance->ring.pushed < instance->ring.claimed) {
        mr_slot *slot = mr_instance_slot(instance, instance->ring.pushed);
        bool mine = slot->state == MR_SLOT_DONE;
        /* Outputs of an unfinished call go on too, unless another worker may be adding to them. */
        if (!mine && instance->shared)
            return;
        if (!push_slot(instance, slot, entry)) {
            instance->ring.stuck = true;
            return;
        }
        if (!mine)
            return;
        count_ends(instance, slot);
        mr_credit_return_all(instance, slot);
        slot->state = MR_SLOT_HELD;
        instance->ring.pushed++;
    }
}

/* Whether the device has done the work of the slot's call; if not, the entry will be woken. */
static bool is_done(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (slot->event && !mr_event_done(slot->event)) {
        mr_event_notify(slot->event, &slot->wait, mr_task_waker, &entry->task);
        return false;
    }
    if (slot->event && mr_event_status(slot->event) == MR_ERROR_DEVICE)
        mr_instance_device_failed(instance, slot);
    if (slot->counted)
        mr_share_end(instance, slot, entry->io.now_ns);
    return true;
}

/* Releases a slot's contents, if it is pushed and done. */
static bool release(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (slot->state == MR_SLOT_FREE)
        return true;
    if (slot->state == MR_SLOT_RUNNING || !is_done(instance, slot, entry) || slot->state == MR_SLOT_DONE)
        return false;
    mr_slot_reset(slot);
    instance->ring.released++;
    return true;
}

static void report_end(const mr_instance *instance) {
    if (instance->vertex->role == MR_ROLE_SOURCE)
        mr_source_end(instance->run, instance->self.source);
    if (mr_opening_waits(&instance->opening))
        mr_ends_note(instance->run->ends, instance->self.source, false);
    mr_ending_release(instance->run->ending);
}

/* Calls of one device are done in order; one device does not wait for another. */
static void free_held(mr_instance *instance, mr_entry_task *entry) {
    bool done = true;
    for (uint64_t n = instance->ring.freed; n < instance->ring.claimed && (done || instance->placement.state_count > 1);
         n++) {
        done = release(instance, mr_instance_slot(instance, n), entry);
        instance->ring.freed += done && n == instance->ring.freed;
    }
    if (instance->ring.freed == instance->ring.claimed && mr_opening_take_left(&instance->opening))
        mr_ends_note(instance->run->ends, instance->self.source, true);
    if (instance->intake.ends_left == 0 && instance->ring.freed == instance->ring.claimed && !instance->ring.reported) {
        instance->ring.reported = true;
        report_end(instance);
    }
}

void mr_instance_retire(mr_instance *instance, mr_entry_task *entry) {
    push_done(instance, entry);
    free_held(instance, entry);
    if (instance->traced)
        mr_tracing_note_wait(instance);
}

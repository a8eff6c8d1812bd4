/* The end of a call: what was given to the device ends with an event, which what was emitted is ready behind and what
 * was used is held until. Where the call failed, what it emitted goes no further. Where there can be no event,
 * because the device takes no more calls, nobody will ever be told when it has let go: the memory is kept until the
 * streams end. */
#include "engine/base/memory.h"
#include "engine/data/pool.h"
#include "engine/data/store.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance.h"

/* ---- what a device may still use ------------------------------------------------------------------------------- */

/* Takes over the references, also where there is no room to note them: what is never given back can do no harm. */
static void keep(mr_instance *instance, mr_buffer *buffer, mr_result *result) {
    if (buffer && buffer->pool)
        mr_pool_replace(buffer->pool);
    pthread_mutex_lock(&instance->pool_lock);
    if (instance->abandoned_count == instance->abandoned_room) {
        size_t room = 2 * instance->abandoned_room + 16;
        mr_abandoned *wider = mr_realloc(instance->abandoned, room * sizeof *wider);
        instance->abandoned = wider ? wider : instance->abandoned;
        instance->abandoned_room = wider ? room : instance->abandoned_room;
    }
    if (instance->abandoned_count < instance->abandoned_room)
        instance->abandoned[instance->abandoned_count++] = (mr_abandoned){buffer, result};
    pthread_mutex_unlock(&instance->pool_lock);
}

/* Not the frame itself, whose receipt has to close. */
static void keep_frame(mr_instance *instance, const mr_frame *frame) {
    for (int i = 0; frame && i < MR_MAX_PLANES; i++)
        if (frame->plane[i].buffer)
            keep(instance, mr_buffer_ref(frame->plane[i].buffer), NULL);
    if (frame && frame->results)
        keep(instance, NULL, mr_result_ref(frame->results));
}

static void abandon(mr_instance *instance, mr_slot *slot) {
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

void mr_instance_release_abandoned(mr_instance *instance) {
    for (size_t i = 0; i < instance->abandoned_count; i++) {
        mr_buffer_unref(&instance->abandoned[i].buffer);
        mr_result_unref(&instance->abandoned[i].result);
    }
    instance->abandoned_count = 0;
    mr_free(instance->abandoned);
    instance->abandoned = NULL;
}

/* ---- the event ------------------------------------------------------------------------------------------------- */

/* The host has done its work, but copies to it may have been given to other devices and not been waited for. */
static void abandon_copies(mr_entry_task *entry, mr_slot *slot) {
    bool some = false;
    for (size_t i = 0; i < entry->instance->part_count; i++)
        some = some || (entry->staging[i] && entry->staging[i]->unrecorded);
    if (some)
        abandon(entry->instance, slot);
}

/* Nobody would take over what goes nowhere. */
static bool gives_frames(const mr_slot *slot) {
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        if (slot->outputs[i].made)
            return true;
    return false;
}

static int mark_ready(mr_entry_task *entry, mr_slot *slot) {
    mr_stage *self = &mr_slot_part(entry->instance, slot)->self;
    const mr_stream *staging = entry->staging[slot->part];
    if (mr_slot_part(entry->instance, slot)->on_host) {
        abandon_copies(entry, slot);
        return MR_OK;
    }
    /* An event of an earlier call of the slot is behind this one's. */
    mr_event *event = NULL;
    bool hands_on = entry->instance->hands_on && gives_frames(slot);
    int status = mr_event_create(&event, self->device, self);
    if (!status)
        status = (hands_on ? mr_stream_hand_on : mr_stream_record)(entry->streams[slot->part], event);
    /* What was brought in, and not waited for, has no end either. */
    if (!status && staging && staging->unrecorded)
        status = mr_fail(MR_ERROR_DEVICE, "%s: inputs could not be brought in", self->device->name);
    if (status) {
        mr_event_unref(&event);
        if (entry->streams[slot->part]->unrecorded || (staging && staging->unrecorded))
            abandon(entry->instance, slot);
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

/* Outputs of a call that failed: as its inputs, they are dropped. */
static void discard(mr_instance *instance, mr_slot *slot, size_t first, const char *reason) {
    size_t kept = first;
    for (size_t i = first; i < slot->output_count; i++) {
        mr_output *output = &slot->outputs[i];
        if (output->item.kind == MR_ITEM_FRAME) {
            bool tells = instance->tells_gone && output->item.frame->format.payload != MR_PAYLOAD_PACKET;
            mr_receipt_note(output->item.frame->receipt, MR_NOTE_DROPPED, instance->self.id, reason);
            mr_frame_unref(&output->item.frame);
            output->item.kind = MR_ITEM_GONE;
            output->made = false;
            if (!tells)
                continue;
        }
        slot->outputs[kept++] = *output;
    }
    slot->output_count = kept;
}

const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status) {
    const mr_stage *self = &mr_slot_part(instance, slot)->self;
    /* Pinned memory is a device's too. */
    bool there = (self->device && self->device->type->kind != MR_DEVICE_CPU) ||
                 self->output_memory == MR_MEMORY_PINNED || self->output_memory == MR_MEMORY_DEVICE;
    if (status == MR_ERROR_DEVICE || (status == MR_ERROR_MEMORY && there))
        return "device error";
    return status == MR_ERROR_IO ? "io error" : "error";
}

int mr_instance_seal(mr_entry_task *entry, mr_slot *slot, size_t first, int answer) {
    if (answer == MR_ERROR_AGAIN) {
        /* Others wait for what it has taken over. */
        if (!mr_slot_part(entry->instance, slot)->on_host)
            mr_stream_settle(entry->streams[slot->part]);
        return answer;
    }
    /* Also a call that failed may have given work to the device, which must not outlive what it works on. */
    int status = mark_ready(entry, slot);
    answer = answer >= 0 && status ? status : answer;
    if (answer < 0)
        discard(entry->instance, slot, first, mr_failure_reason(entry->instance, slot, answer));
    return answer;
}

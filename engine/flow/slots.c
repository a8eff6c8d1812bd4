/* The contents of a slot: inputs, outputs, marks and memory of one call. */
#include "engine/flow/slots.h"

#include "engine/base/memory.h"
#include "engine/data/store.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/ledger/ledger.h"

/* Makes room for one more element in an array of a slot. */
static bool room_for(void **array, size_t count, size_t *room, size_t element) {
    if (count < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 4;
    void *grown = mr_realloc(*array, wanted * element);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

mr_slot_output *mr_slot_grow_outputs(mr_instance *instance, mr_slot *slot, mr_frame *frame) {
    if (room_for((void **)&slot->outputs, slot->output_count, &slot->output_room, sizeof *slot->outputs))
        return &slot->outputs[slot->output_count++];
    if (frame)
        mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, instance->self.id, "out of memory");
    mr_frame_unref(&frame);
    mr_fail(MR_ERROR_MEMORY, "no memory for the outputs of %s", instance->self.id);
    return NULL;
}

int mr_slot_add_mark_output(mr_instance *instance, mr_slot *slot, uint32_t port, const mr_item *mark) {
    mr_slot_output *output = mr_slot_next_output(instance, slot, NULL);
    if (!output)
        return MR_ERROR_MEMORY;
    *output = (mr_slot_output){.port = port, .item = *mark};
    return MR_OK;
}

int mr_slot_add_mark(mr_slot *slot, const mr_item *mark) {
    if (!room_for((void **)&slot->marks, slot->mark_count, &slot->mark_room, sizeof *slot->marks))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a mark");
    slot->marks[slot->mark_count++] = *mark;
    return MR_OK;
}

int mr_slot_keep(mr_slot *slot, mr_frame *frame) {
    if (!room_for((void **)&slot->kept, slot->kept_count, &slot->kept_room, sizeof(mr_frame *)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the work of a device");
    slot->kept[slot->kept_count++] = mr_frame_ref(frame);
    return MR_OK;
}

int mr_slot_keep_result(mr_slot *slot, mr_result *result) {
    if (!room_for((void **)&slot->results, slot->result_count, &slot->result_room, sizeof(mr_result *)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the work of a device");
    slot->results[slot->result_count++] = mr_result_ref(result);
    return MR_OK;
}

void mr_instance_mark_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap) {
    /* A stage on the other node asks. The cut's end here has one entry, so everything before the mark was passed on. */
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (instance->ring.marks_gaps && hooks && hooks->mark)
        hooks->mark(&instance->placement.states[0].self, gap);
    for (size_t port = 0; instance->ring.marks_gaps && port < instance->vertex->output_count; port++)
        mr_slot_add_mark_output(instance, slot, (uint32_t)port, gap);
}

void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason) {
    mr_receipt_note(frame->receipt, note, stage, reason);
    /* A packet's number differs from those of its pictures: joins behind do not wait for it. */
    mr_item gap = {.kind = MR_ITEM_GAP, .source = frame->identity.source, .identity = frame->identity};
    if (frame->format.payload != MR_PAYLOAD_PACKET)
        mr_instance_mark_gap(instance, slot, &gap);
}

void mr_slot_reset(mr_slot *slot) {
    for (size_t i = 0; i < slot->frame_count; i++)
        if (slot->frames[i])
            mr_frame_unref(&slot->frames[i]);
    for (size_t i = 0; i < slot->held_count; i++)
        mr_buffer_unref(&slot->held[i]);
    for (size_t i = 0; i < slot->kept_count; i++)
        mr_frame_unref(&slot->kept[i]);
    for (size_t i = 0; i < slot->result_count; i++)
        mr_result_unref(&slot->results[i]);
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        mr_frame_unref(&slot->outputs[i].item.frame);
    if (slot->wait.event)
        mr_event_forget(&slot->wait);
    if (slot->event)
        mr_event_unref(&slot->event);
    slot->frame_count = slot->held_count = slot->kept_count = slot->result_count = 0;
    slot->mark_count = slot->mark_next = 0;
    slot->output_count = slot->output_next = 0;
    slot->processed = slot->staged = slot->counted = slot->lost = false;
    slot->device_number = 0;
    slot->state = MR_SLOT_FREE;
}

bool mr_slot_hold(mr_slot *slot, mr_buffer *buffer) {
    if (!room_for((void **)&slot->held, slot->held_count, &slot->held_room, sizeof(mr_buffer *)))
        return false;
    slot->held[slot->held_count++] = mr_buffer_ref(buffer);
    return true;
}

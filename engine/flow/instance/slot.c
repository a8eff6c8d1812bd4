#include "engine/flow/instance/slot.h"

#include "engine/base/memory.h"
#include "engine/data/store.h"
#include "engine/flow/ledger/ledger.h"

int mr_slot_create(mr_slot *slot, size_t frames) {
    slot->frames = mr_calloc(frames + 1, sizeof(mr_frame *));
    slot->sources = mr_calloc(frames + 1, sizeof *slot->sources);
    slot->entered_ns = mr_calloc(frames + 1, sizeof *slot->entered_ns);
    slot->settled = mr_calloc(frames + 1, sizeof *slot->settled);
    return slot->frames && slot->sources && slot->entered_ns && slot->settled ? MR_OK : MR_ERROR_MEMORY;
}

void mr_slot_destroy(mr_slot *slot) {
    if (slot->frames)
        mr_slot_reset(slot);
    mr_free(slot->frames);
    mr_free(slot->sources);
    mr_free(slot->entered_ns);
    mr_free(slot->settled);
    mr_free(slot->marks);
    mr_free(slot->outputs);
    mr_free(slot->held);
    mr_free(slot->kept);
    mr_free(slot->results);
}

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

mr_slot_output *mr_slot_grow_outputs(mr_slot *slot, mr_frame *frame, const char *stage) {
    if (room_for((void **)&slot->outputs, slot->output_count, &slot->output_room, sizeof *slot->outputs))
        return &slot->outputs[slot->output_count++];
    if (frame)
        mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, stage, "out of memory");
    mr_frame_unref(&frame);
    mr_fail(MR_ERROR_MEMORY, "no memory for the outputs of %s", stage);
    return NULL;
}

int mr_slot_add_mark_outputs(mr_slot *slot, size_t port_count, const mr_item *mark, const char *stage) {
    for (uint32_t port = 0; port < port_count; port++) {
        mr_slot_output *output = mr_slot_next_output(slot, NULL, stage);
        if (!output)
            return MR_ERROR_MEMORY;
        *output = (mr_slot_output){.port = port, .item = *mark};
    }
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

void mr_slot_give_back(mr_slot *slot, size_t held, size_t results) {
    while (slot->held_count > held)
        mr_buffer_unref(&slot->held[--slot->held_count]);
    while (slot->result_count > results)
        mr_result_unref(&slot->results[--slot->result_count]);
}

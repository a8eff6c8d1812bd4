#include "engine/flow/instance/slot.h"

#include <string.h>

#include "engine/base/grow.h"
#include "engine/data/gap.h"
#include "engine/data/store.h"

int mr_slot_create(mr_slot *slot, size_t frames) {
    slot->inputs = mr_calloc(frames + 1, sizeof *slot->inputs);
    return slot->inputs ? MR_OK : MR_ERROR_MEMORY;
}

mr_slot_output *mr_slot_grow_outputs(mr_slot *slot, const char *stage) {
    if (mr_grow((void **)&slot->outputs, slot->output_count, &slot->output_room, sizeof *slot->outputs))
        return &slot->outputs[slot->output_count++];
    mr_fail(MR_ERROR_MEMORY, "no memory for the outputs of %s", stage);
    return NULL;
}

static bool is_later(const mr_slot_output *output, const mr_identity *mark) {
    const mr_identity *of = mr_item_identity(&output->item);
    return output->item.kind == MR_ITEM_FRAME && of->source == mark->source && mr_identity_compare(of, mark) > 0;
}

/* The last output stands for an object that will not come, or ends those of a frame. It goes before later frames: a
 * batch, or the frames after a gap in a join, come with it. */
static void put_in_order(mr_slot *slot) {
    const size_t last = slot->output_count - 1;
    const mr_slot_output mark = slot->outputs[last];
    size_t place = slot->output_next;
    while (place < last && !is_later(&slot->outputs[place], &mark.item.identity))
        place++;
    memmove(&slot->outputs[place + 1], &slot->outputs[place], (last - place) * sizeof mark);
    slot->outputs[place] = mark;
}

int mr_slot_add_mark_outputs(mr_slot *slot, size_t port_count, const mr_item *mark, const char *stage) {
    for (uint32_t port = 0; port < port_count; port++) {
        mr_slot_output *output = mr_slot_grow_outputs(slot, stage);
        if (!output)
            return MR_ERROR_MEMORY;
        *output = (mr_slot_output){.port = port, .item = *mark};
        if (mark->kind == MR_ITEM_GAP && mark->identity.sub && mark->identity.sub < MR_SUB_LOST)
            put_in_order(slot);
    }
    return MR_OK;
}

int mr_slot_add_mark(mr_slot *slot, const mr_item *mark) {
    if (!mr_grow((void **)&slot->marks, slot->mark_count, &slot->mark_room, sizeof *slot->marks))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a mark");
    slot->marks[slot->mark_count++] = *mark;
    return MR_OK;
}

void mr_slot_drop_outputs(mr_slot *slot, const char *reason) {
    slot->failure = reason;
    for (size_t i = slot->output_first; i < slot->output_count; i++)
        if (slot->outputs[i].item.kind == MR_ITEM_FRAME) {
            slot->outputs[i].dropped = true;
            slot->outputs[i].made = false;
        }
}

static void abandon(const mr_slot *slot, mr_abandonment *kept) {
    for (size_t i = 0; i < slot->frame_count; i++)
        mr_abandon_frame(kept, slot->inputs[i].frame);
    mr_holds_abandon(&slot->holds, kept);
}

void mr_slot_free(mr_slot *slot, mr_abandonment *kept) {
    if (slot->unended && kept)
        abandon(slot, kept);
    for (size_t i = 0; i < slot->frame_count; i++)
        if (slot->inputs[i].frame)
            mr_frame_unref(&slot->inputs[i].frame);
    mr_holds_release(&slot->holds);
    for (size_t i = slot->output_next; i < slot->output_count; i++)
        mr_frame_unref(&slot->outputs[i].item.frame);
    if (slot->wait.event)
        mr_event_forget(&slot->wait);
    if (slot->event)
        mr_event_unref(&slot->event);
    slot->frame_count = 0;
    slot->mark_count = slot->mark_next = 0;
    slot->output_count = slot->output_next = slot->output_first = 0;
    slot->processed = slot->staged = slot->counted = slot->lost = slot->unended = false;
    slot->failure = NULL;
    slot->ends = 0;
    slot->device_number = 0;
    slot->state = MR_SLOT_FREE;
}

void mr_slot_destroy(mr_slot *slot) {
    if (slot->inputs)
        mr_slot_free(slot, NULL);
    mr_free(slot->inputs);
    mr_free(slot->marks);
    mr_free(slot->outputs);
    mr_holds_fini(&slot->holds);
}

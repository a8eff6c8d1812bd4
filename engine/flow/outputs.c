/* Slots: what a call has given is pushed in order of the calls, and a slot is free again when its device work is
 * done. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/flow/graph.h"
#include "engine/flow/hooks.h"
#include "engine/flow/instance.h"
#include "engine/flow/tracing.h"
#include "engine/flow/turns.h"

/* ---- filling a slot -------------------------------------------------------------------------------------------- */

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

mr_output *mr_slot_grow_outputs(mr_instance *instance, mr_slot *slot, mr_frame *frame) {
    if (room_for((void **)&slot->outputs, slot->output_count, &slot->output_room, sizeof *slot->outputs))
        return &slot->outputs[slot->output_count++];
    if (frame)
        mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, instance->self.id, "out of memory");
    mr_frame_unref(&frame);
    mr_fail(MR_ERROR_MEMORY, "no memory for the outputs of %s", instance->self.id);
    return NULL;
}

int mr_slot_add_mark_output(mr_instance *instance, mr_slot *slot, uint32_t port, const mr_item *mark) {
    mr_output *output = mr_slot_next_output(instance, slot, NULL);
    if (!output)
        return MR_ERROR_MEMORY;
    *output = (mr_output){.port = port, .item = *mark};
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
        return mr_fail(MR_ERROR_MEMORY, "no memory for what a device works on");
    slot->kept[slot->kept_count++] = mr_frame_ref(frame);
    return MR_OK;
}

int mr_slot_keep_result(mr_slot *slot, mr_result *result) {
    if (!room_for((void **)&slot->results, slot->result_count, &slot->result_room, sizeof(mr_result *)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for what a device works on");
    slot->results[slot->result_count++] = mr_result_ref(result);
    return MR_OK;
}

void mr_instance_tell_gone(mr_instance *instance, mr_slot *slot, const mr_item *gone) {
    /* A stage on the other node asks. Its end here has one entry, so that everything before the mark was passed on. */
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (instance->tells_gone && hooks && hooks->mark)
        hooks->mark(&instance->parts[0].self, gone);
    for (size_t port = 0; instance->tells_gone && port < instance->vertex->output_count; port++)
        mr_slot_add_mark_output(instance, slot, (uint32_t)port, gone);
}

void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason) {
    mr_receipt_note(frame->receipt, note, stage, reason);
    /* A packet is numbered otherwise than the pictures that come of it: joins behind do not wait for its number. */
    mr_item gone = {.kind = MR_ITEM_GONE, .source = frame->identity.source, .identity = frame->identity};
    if (frame->format.payload != MR_PAYLOAD_PACKET)
        mr_instance_tell_gone(instance, slot, &gone);
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
    slot->part = 0;
    slot->state = MR_SLOT_FREE;
}

/* ---- pushing --------------------------------------------------------------------------------------------------- */

/* Pushes to one consumer; a frame that others want too goes there as a reference of its own. */
static bool push_to(mr_link *link, mr_output *output, bool last, mr_entry_task *entry) {
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

/* A frame that no stage takes has arrived, where the port may lead nowhere; else its stage works in vain. */
static void end_here(mr_instance *instance, mr_output *output, int64_t now_ns) {
    mr_frame *frame = output->item.frame;
    if (instance->self.type->outputs && instance->self.type->outputs[output->port].optional) {
        mr_receipt_note(frame->receipt, MR_NOTE_DELIVERED, NULL, NULL);
        mr_graph_deliver(instance->graph, instance, frame, now_ns);
    } else {
        mr_receipt_note(frame->receipt, MR_NOTE_ABSORBED, instance->self.id, "not taken");
    }
    mr_frame_unref(&output->item.frame);
}

/* Pushes to the consumers that have not got it. False: one has no room. */
static bool push_output(mr_instance *instance, mr_output *output, mr_entry_task *entry) {
    const mr_route *route = &instance->routes[output->port];
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

/* Ends that have been pushed are seen by all that come behind. */
static void count_ends(mr_instance *instance, const mr_slot *slot) {
    for (size_t i = 0; i < slot->mark_count; i++) {
        if (slot->marks[i].kind != MR_ITEM_END)
            continue;
        instance->ends_left--;
        mr_turns_note(instance->graph->turns, slot->marks[i].source);
    }
}

static void push_done(mr_instance *instance, mr_entry_task *entry) {
    instance->stuck = false;
    while (instance->pushed < instance->claimed) {
        mr_slot *slot = mr_instance_slot(instance, instance->pushed);
        bool mine = slot->state == MR_SLOT_DONE;
        /* What an unfinished call has given so far goes on too, unless another worker may be adding to it. */
        if (!mine && instance->shared)
            return;
        if (!push_slot(instance, slot, entry)) {
            instance->stuck = true;
            return;
        }
        if (!mine)
            return;
        count_ends(instance, slot);
        slot->state = MR_SLOT_HELD;
        instance->pushed++;
    }
}

/* Whether the device has done what the slot's call gave it; where not, the entry will be woken. */
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

/* Releases what a slot holds, where it is pushed and done. */
static bool release(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (slot->state == MR_SLOT_FREE)
        return true;
    if (slot->state == MR_SLOT_RUNNING || !is_done(instance, slot, entry) || slot->state == MR_SLOT_DONE)
        return false;
    mr_slot_reset(slot);
    instance->released++;
    return true;
}

/* Calls of one device are done in order; one device does not wait for another. */
static void free_held(mr_instance *instance, mr_entry_task *entry) {
    bool done = true;
    for (uint64_t n = instance->freed; n < instance->claimed && (done || instance->part_count > 1); n++)
        done = release(instance, mr_instance_slot(instance, n), entry);
    while (instance->freed < instance->pushed && mr_instance_slot(instance, instance->freed)->state == MR_SLOT_FREE)
        instance->freed++;
    if (instance->ends_left == 0 && instance->freed == instance->claimed && !instance->reported) {
        instance->reported = true;
        mr_graph_instance_ended(instance->graph, instance);
    }
}

void mr_instance_retire(mr_instance *instance, mr_entry_task *entry) {
    push_done(instance, entry);
    free_held(instance, entry);
    if (instance->traced)
        mr_tracing_note_wait(instance);
}

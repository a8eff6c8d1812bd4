/* The contents of a slot: inputs, outputs, marks and memory of one call. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_SLOTS_H
#define MILLRACE_FLOW_SLOTS_H

#include "engine/data/receipt.h"
#include "engine/flow/instance/instance.h"

/* mr_slot_next_output if there is no room yet. */
mr_slot_output *mr_slot_grow_outputs(mr_instance *instance, mr_slot *slot, mr_frame *frame);
/* The place of the next output of a call, to be filled in by the caller. If there is no memory for it, `frame` (may be
 * NULL) is dropped in the stage's name and the result is NULL. */
static inline mr_slot_output *mr_slot_next_output(mr_instance *instance, mr_slot *slot, mr_frame *frame) {
    bool room = slot->output_count < slot->output_room;
    return room ? &slot->outputs[slot->output_count++] : mr_slot_grow_outputs(instance, slot, frame);
}
/* Adds a mark for one output port. */
int mr_slot_add_mark_output(mr_instance *instance, mr_slot *slot, uint32_t port, const mr_item *mark);
/* Keeps a reference to the frame until the slot's device work is done. MR_ERROR_MEMORY. */
int mr_slot_keep(mr_slot *slot, mr_frame *frame);
int mr_slot_keep_result(mr_slot *slot, mr_result *result);
int mr_slot_add_mark(mr_slot *slot, const mr_item *mark);
/* Leaves that mark on all outputs, if a stage behind wants gaps. */
void mr_instance_mark_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap);
/* Notes the outcome of a frame that goes no further, and leaves a gap for joins behind. */
void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason);
/* Keeps a reference to a buffer until the slot's device work is done; false: no memory. */
bool mr_slot_hold(mr_slot *slot, mr_buffer *buffer);
/* Drops the slot's references and makes it free. */
void mr_slot_reset(mr_slot *slot);

#endif

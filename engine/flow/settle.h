/* What becomes of frames that stop here: dropped, absorbed or delivered, and the gaps they leave. Internal to
 * engine/flow. */
#pragma once

#include "engine/data/receipt.h"
#include "engine/flow/instance/instance.h"

/* Adds the mark to all outputs, if a later stage needs gaps. */
void mr_settle_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap);
/* Notes the outcome for a frame that stops here, and leaves a gap for later joins. */
void mr_settle_frame(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                     const char *reason);
/* Delivers a sink's inputs that are not settled yet. */
void mr_settle_delivery(mr_instance *instance, mr_slot *slot, int64_t now_ns);
/* A call failed: drops its inputs and outputs. A source fails; a sink takes no more frames. */
void mr_settle_failure(mr_instance *instance, mr_slot *slot, int status);
/* Accounts for a call of process that is over, and returned `answer`. */
static inline void mr_settle_call(mr_entry_task *entry, mr_slot *slot, int answer, int64_t now_ns) {
    mr_instance *instance = entry->instance;
    if (answer < 0)
        mr_settle_failure(instance, slot, answer);
    else if (!instance->self.type->outputs)
        mr_settle_delivery(instance, slot, now_ns);
    if (!slot->frame_count)
        return;
    mr_meter_count_in(&entry->meter, slot->frame_count);
    const mr_slot_input *input = slot->inputs, *end = input + slot->frame_count;
    do
        mr_meter_add_latency(&entry->meter, input->entered_ns, now_ns);
    while (++input < end);
    if (mr_shedder_sheds(&instance->shedder))
        mr_shedder_note_call(&instance->shedder, now_ns - slot->begun_ns);
}
/* The slot's device failed: later calls go to another device if they can. */
void mr_settle_lost_device(mr_instance *instance, const mr_slot *slot);
/* Logs mr_fail's message in the stage's name. */
void mr_settle_complain(const mr_instance *instance, int status);

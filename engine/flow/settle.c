#include "engine/flow/settle.h"

#include "engine/flow/instance/hooks.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/deliveries.h"

void mr_instance_mark_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap) {
    if (!mr_outlets_mark_gaps(&instance->outlets))
        return;
    /* A stage on the other node needs gaps. The cut's end here has one entry, so everything before the mark was passed
     * on. */
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (hooks && hooks->mark)
        hooks->mark(mr_parts_stage(&instance->parts, 0), gap);
    mr_slot_add_mark_outputs(slot, instance->vertex->output_count, gap, instance->self.id);
}

void mr_instance_settle(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                        const char *reason) {
    mr_receipt_note(frame->receipt, note, stage, reason);
    /* A packet's number differs from its pictures' numbers: joins do not wait for it. */
    mr_item gap = {.kind = MR_ITEM_GAP, .source = frame->identity.source, .identity = frame->identity};
    if (frame->format.payload != MR_PAYLOAD_PACKET)
        mr_instance_mark_gap(instance, slot, &gap);
}

void mr_instance_settle_all(mr_instance *instance, mr_slot *slot, mr_note note, const char *reason) {
    for (size_t i = 0; i < slot->frame_count; i++)
        if (!slot->settled[i] && slot->frames[i]) {
            mr_instance_settle(instance, slot, slot->frames[i], note, instance->self.id, reason);
            slot->settled[i] = true;
        }
}

void mr_instance_deliver_all(mr_instance *instance, mr_slot *slot, int64_t now_ns) {
    for (size_t i = 0; i < slot->frame_count; i++)
        if (!slot->settled[i]) {
            mr_receipt_note(slot->frames[i]->receipt, MR_NOTE_DELIVERED, NULL, NULL);
            mr_deliver(instance->run, instance->vertex, slot->frames[i], now_ns);
            slot->settled[i] = true;
        }
}

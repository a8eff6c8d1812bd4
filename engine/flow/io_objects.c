/* Frames for objects: mr_io_set_object and mr_io_end_objects in stage.h. */
#include "engine/data/gap.h"
#include "engine/data/store.h"
#include "engine/flow/io.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/settle.h"
#include "millrace/stage.h"

int mr_io_set_object(mr_io *io, mr_frame *frame, uint32_t number) {
    mr_identity identity = frame->identity;
    mr_receipt *own = NULL;
    (void)io;
    identity.sub = number;
    int status = frame->receipt ? mr_ledger_derive(frame->receipt, &identity, &own) : MR_OK;
    if (status)
        return status;
    frame->identity = identity;
    mr_receipt_unref(&frame->receipt);
    frame->receipt = own;
    if (frame->results)
        mr_result_unref(&frame->results);
    return MR_OK;
}

void mr_io_end_objects(mr_io *io, const mr_frame *input, uint32_t count, const char *reason) {
    mr_slot *slot = io->slot;
    mr_item end = {.kind = MR_ITEM_GAP, .source = input->identity.source, .identity = input->identity};
    end.identity.sub = MR_SUB_OBJECTS + count;
    for (size_t i = 0; i < slot->frame_count; i++)
        slot->inputs[i].settled |= slot->inputs[i].frame == input;
    mr_receipt_note(input->receipt, MR_NOTE_ABSORBED, io->instance->self.id, reason);
    mr_settle_gap(io->instance, slot, &end);
}

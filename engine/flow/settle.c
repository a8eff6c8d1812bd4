#include "engine/flow/settle.h"

#include "engine/flow/instance/hooks.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/run/taps.h"
#include "millrace/log.h"

void mr_settle_gap(mr_instance *instance, mr_slot *slot, const mr_item *gap) {
    if (!mr_outlets_mark_gaps(&instance->outlets))
        return;
    /* A stage on the other node needs gaps. The cut's end here has one entry, so everything before the mark was passed
     * on. */
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (hooks && hooks->mark)
        hooks->mark(mr_parts_stage(&instance->parts, 0), gap);
    mr_slot_add_mark_outputs(slot, instance->vertex->output_count, gap, instance->self.id);
}

void mr_settle_frame(mr_instance *instance, mr_slot *slot, const mr_frame *frame, mr_note note, const char *stage,
                     const char *reason) {
    /* A packet's number differs from its pictures' numbers: joins do not wait for it. Objects go no further than the
     * stage that gathers them. */
    const bool object = frame->identity.sub && instance->self.type->cascade == MR_CASCADE_GATHER;
    mr_item gap = {.kind = MR_ITEM_GAP, .source = frame->identity.source, .identity = frame->identity,
                   .absorbed = note == MR_NOTE_ABSORBED};
    if (frame->format.payload != MR_PAYLOAD_PACKET && !object)
        mr_settle_gap(instance, slot, &gap);
    mr_receipt_note(frame->receipt, note, stage, reason);
}

void mr_settle_delivery(mr_instance *instance, mr_slot *slot, int64_t now_ns) {
    for (size_t i = 0; i < slot->frame_count; i++)
        if (!slot->inputs[i].settled) {
            if (!instance->self.type->outputs)
                mr_taps_show(instance->run, instance->vertex, slot->inputs[i].frame);
            mr_deliver(instance->run, instance->vertex, slot->inputs[i].frame, now_ns);
            slot->inputs[i].settled = true;
        }
}

/* ---- what a stage type says of its inputs ------------------------------------------------------------------------ */

/* The frame is an input, or one that the stage type has kept from an earlier call. */
static void mark_settled(mr_slot *slot, const mr_frame *frame) {
    for (size_t i = 0; i < slot->frame_count; i++)
        slot->inputs[i].settled |= slot->inputs[i].frame == frame;
}

static void settle(mr_io *io, const mr_frame *frame, mr_note note, const char *reason) {
    mark_settled(io->slot, frame);
    mr_settle_frame(io->instance, io->slot, frame, note, io->instance->self.id, reason);
}

void mr_io_drop(mr_io *io, const mr_frame *frame, const char *reason) {
    settle(io, frame, MR_NOTE_DROPPED, reason);
}

void mr_io_absorb(mr_io *io, const mr_frame *frame, const char *reason) {
    settle(io, frame, MR_NOTE_ABSORBED, reason);
}

void mr_io_skip(mr_io *io, uint32_t epoch, uint64_t seq, bool rest) {
    mr_instance *instance = io->instance;
    mr_item gap = {.kind = MR_ITEM_GAP,
                    .source = instance->self.source,
                    .identity = {.source = instance->self.source,
                                 .epoch = epoch,
                                 .seq = seq,
                                 .sub = rest ? MR_SUB_REST : 0}};
    mr_settle_gap(instance, io->slot, &gap);
}

void mr_io_end_objects(mr_io *io, const mr_frame *input, uint32_t count, const char *reason) {
    mr_item end = {.kind = MR_ITEM_GAP, .source = input->identity.source, .identity = input->identity};
    end.identity.sub = MR_SUB_OBJECTS + count;
    mark_settled(io->slot, input);
    mr_receipt_note(input->receipt, MR_NOTE_ABSORBED, io->instance->self.id, reason);
    mr_settle_gap(io->instance, io->slot, &end);
}

mr_receipt *mr_io_hold(mr_io *io, const mr_frame *frame) {
    return frame->receipt ? mr_receipt_ref(frame->receipt) : NULL;
}

void mr_stage_release(const mr_stage *self, mr_receipt **held, const char *dropped) {
    if (*held && dropped)
        mr_receipt_note(*held, MR_NOTE_DROPPED, self->id, dropped);
    mr_receipt_unref(held);
}

/* ---- failed calls ------------------------------------------------------------------------------------------------ */

void mr_settle_complain(const mr_instance *instance, int status) {
    mr_log_repeating(status == MR_ERROR_CLOSED ? MR_LOG_DEBUG : MR_LOG_ERROR, instance->self.id, "%s: %s: %s",
                     instance->self.place, instance->self.id, mr_message_or(status));
}

/* The ledger's reason for frames dropped by this failure. */
static const char *reason_of(const mr_instance *instance, const mr_slot *slot, int status) {
    const mr_stage *self = mr_parts_stage(&instance->parts, slot->device_number);
    /* Pinned memory also belongs to a device. */
    bool there = (self->device && self->device->type->kind != MR_DEVICE_CPU) ||
                 self->output_memory == MR_MEMORY_PINNED || self->output_memory == MR_MEMORY_DEVICE;
    if (status == MR_ERROR_CANCELLED && mr_control_is_cancelled(instance->run))
        return MR_REASON_STOPPED;
    if (status == MR_ERROR_DEVICE || (status == MR_ERROR_MEMORY && there))
        return "device error";
    return status == MR_ERROR_IO ? "io error" : "error";
}

/* If an input had already failed, this device need not have failed. */
static bool came_failed(const mr_slot *slot) {
    for (size_t i = 0; i < slot->frame_count; i++) {
        const mr_event *ready = slot->inputs[i].frame ? slot->inputs[i].frame->ready : NULL;
        if (ready && mr_event_done(ready) && mr_event_status(ready) < 0)
            return true;
    }
    return false;
}

void mr_settle_lost_device(mr_instance *instance, const mr_slot *slot) {
    const mr_stage *self = &instance->self;
    const char *name = mr_parts_stage(&instance->parts, slot->device_number)->device->name;
    size_t other = 0;
    if (came_failed(slot))
        return;
    switch (mr_shares_lose(&instance->shares, slot->device_number, &other)) {
    case MR_LOSS_KNOWN:
        break;
    case MR_LOSS_ALONE: /* report it once, unless the call did */
        if (!atomic_exchange(&instance->complained, true))
            mr_log(MR_LOG_ERROR, "%s: %s: %s has failed; its frames are dropped", self->place, self->id, name);
        break;
    case MR_LOSS_LAST:
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed, and no other device is left", self->place, self->id, name);
        break;
    case MR_LOSS_TAKEN:
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed; from now on %s does the work", self->place, self->id, name,
               mr_parts_stage(&instance->parts, other)->device->name);
        break;
    case MR_LOSS_SHARED:
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed; the other devices take over its share", self->place, self->id,
               name);
    }
}

/* A sink that fails takes no more frames. */
static void report_failure(mr_instance *instance, const mr_slot *slot, int status) {
    const mr_stage_type *type = instance->self.type;
    mr_settle_complain(instance, status);
    if (!type->outputs || instance->vertex->handling.on_error == MR_ON_ERROR_FAIL) {
        atomic_store(&instance->failed, !type->outputs);
        mr_control_fail(instance->run, status, mr_message_or(status));
    }
    if (status == MR_ERROR_DEVICE)
        mr_settle_lost_device(instance, slot);
}

void mr_settle_failure(mr_instance *instance, mr_slot *slot, int status) {
    const char *reason = reason_of(instance, slot, status);
    if (status == MR_ERROR_CANCELLED && mr_control_is_cancelled(instance->run))
        ; /* expected */
    else if (instance->self.type->inputs)
        report_failure(instance, slot, status);
    else
        mr_source_fail(instance->run, instance->self.source, status, mr_message_or(status));
    for (size_t i = 0; i < slot->frame_count; i++)
        if (!slot->inputs[i].settled && slot->inputs[i].frame) {
            mr_settle_frame(instance, slot, slot->inputs[i].frame, MR_NOTE_DROPPED, instance->self.id, reason);
            slot->inputs[i].settled = true;
        }
    mr_slot_drop_outputs(slot, reason);
    mr_message_clear(); /* a later failure may have none */
}

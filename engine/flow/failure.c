#include "engine/flow/failure.h"

#include "millrace/log.h"

const char *mr_failure_reason(const mr_instance *instance, const mr_slot *slot, int status) {
    const mr_stage *self = mr_parts_stage(&instance->parts, slot->device_number);
    /* Pinned memory also belongs to a device. */
    bool there = (self->device && self->device->type->kind != MR_DEVICE_CPU) ||
                 self->output_memory == MR_MEMORY_PINNED || self->output_memory == MR_MEMORY_DEVICE;
    if (status == MR_ERROR_DEVICE || (status == MR_ERROR_MEMORY && there))
        return "device error";
    return status == MR_ERROR_IO ? "io error" : "error";
}

/* If an input had already failed, this device need not have failed. */
static bool came_failed(const mr_slot *slot) {
    for (size_t i = 0; i < slot->frame_count; i++) {
        const mr_event *ready = slot->frames[i] ? slot->frames[i]->ready : NULL;
        if (ready && mr_event_done(ready) && mr_event_status(ready) < 0)
            return true;
    }
    return false;
}

void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot) {
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

#include "engine/flow/input.h"

#include "engine/flow/instance/hooks.h"
#include "engine/flow/run/control.h"

bool mr_input_claim(void *context, uint32_t source) {
    mr_entry_task *entry = context;
    mr_instance *instance = entry->instance;
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (!mr_credit_is_needed(&instance->credit))
        return true;
    const uint32_t coming = mr_credit_of(&instance->credit, source);
    const bool drops_all = mr_control_is_cancelled(instance->run) ||
                           atomic_load_explicit(&instance->failed, memory_order_relaxed);
    const bool fits = !hooks || !hooks->has_room ||
                      hooks->has_room(mr_parts_stage(&instance->parts, 0), source, coming);
    const bool has_room =
        drops_all || (fits && mr_outlets_have_room(&instance->outlets, source, coming, &entry->task));
    if (has_room)
        mr_credit_give(&instance->credit, source);
    else
        mr_inlets_hold_up(&instance->inlets);
    return has_room;
}

int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    if (mr_event_done(frame->ready))
        return mr_event_status(frame->ready) < 0 ? mr_event_status(frame->ready) : 1;
    /* The same device orders the work itself; the host must wait for the device. */
    if (mr_event_device(frame->ready) == mr_parts_stage(&entry->instance->parts, slot->device_number)->device)
        return 1;
    mr_event_notify(frame->ready, &entry->waits[place], mr_task_waker, &entry->task);
    return 0;
}

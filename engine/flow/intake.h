/* Inputs of a call. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_INTAKE_H
#define MILLRACE_FLOW_INTAKE_H

#include "engine/flow/instance/instance.h"

/* Collects the next call's inputs in `slot`. True if it is complete; else the entry will be woken. */
bool mr_instance_gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);
/* The same for stages with several ports: one frame of each, matched by identity. */
bool mr_instance_join(mr_instance *instance, mr_slot *slot, mr_entry_task *entry);
/* mr_input_ready of a frame that has an event. */
int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place);
/* Readiness of an input for a call of that slot's device: 1 it may be used, 0 not yet (the entry will be woken, and
 * waits in that place of its `waits`), negative: its producer's device work failed. */
static inline int mr_input_ready(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    return frame->ready ? mr_input_await(slot, frame, entry, place) : 1;
}

#endif

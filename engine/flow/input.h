/* One input of a call: whether it may be taken, and may be used. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_INPUT_H
#define MILLRACE_FLOW_INPUT_H

#include "engine/flow/instance/instance.h"
#include "engine/flow/run/resume.h"

/* Whether an earlier run settled the frame, and it goes no further. */
static inline bool mr_input_is_left_out(const mr_instance *instance, const mr_frame *frame) {
    return instance->run->resume && mr_resume_leaves_out(instance->run->resume, instance->vertex, frame);
}
/* Whether a frame of the source may be taken, as mr_link_claim of an entry: there is room for it behind the stage, or
 * it goes no further. If not, the entry will be woken when there is. */
bool mr_input_claim(void *entry, uint32_t source);
/* mr_input_ready of a frame that has an event. */
int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place);
/* Readiness of an input for a call of that slot's device: 1 it may be used, 0 not yet (the entry will be woken, and
 * waits in that place of its `waits`), negative: its producer's device work failed. */
static inline int mr_input_ready(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    return frame->ready ? mr_input_await(slot, frame, entry, place) : 1;
}

#endif

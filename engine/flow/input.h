/* A call's inputs: whether it may take them, and makes them available on its device. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"
#include "engine/flow/run/resume.h"
#include "engine/plan/renewal.h"

/* Whether the frame stops here: an earlier run settled it, or this end of a way has had it. */
static inline bool mr_input_is_left_out(const mr_instance *instance, const mr_frame *frame) {
    return (instance->run->resume && mr_resume_leaves_out(instance->run->resume, instance->vertex, frame)) ||
           mr_again_has(&instance->again, frame);
}
/* Settles a frame that is left out no earlier than the same one that came before. */
static inline void mr_input_await_former(const mr_instance *instance, const mr_frame *frame) {
    if (instance->again.sources)
        mr_receipt_await_former(frame->receipt, mr_plan_most_passes(instance->run->plan));
}
/* The entry's mr_link_claim: whether a frame from this source may be taken, because there is room downstream or it will
 * be dropped. If not, the entry will be woken when there is room. */
bool mr_input_claim(void *entry, uint32_t source);
/* mr_input_ready for a frame with an event. */
int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place);
/* Whether a call on the slot's device can use an input. 1: yes. 0: not yet; the entry will be woken and waits in
 * waits[place]. Negative: the producer's device work failed. */
static inline int mr_input_ready(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    return frame->ready ? mr_input_await(slot, frame, entry, place) : 1;
}
/* Makes all inputs available on the call's device, and copies those there that are elsewhere. MR_ERROR_AGAIN: call
 * again when woken. */
int mr_input_provide_there(mr_entry_task *entry, const mr_slot *slot);
static inline int mr_input_provide(mr_entry_task *entry, const mr_slot *slot) {
    const mr_instance *instance = entry->instance;
    const bool here = mr_parts_count(&instance->parts) == 1 && mr_parts_are_on_host(&instance->parts, 0);
    return here && !instance->run->reads_checked ? MR_OK : mr_input_provide_there(entry, slot);
}

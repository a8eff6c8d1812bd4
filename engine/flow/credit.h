/* Room behind a stage, for each source by itself. Internal to engine/flow.
 *
 * A stage that serves several sources passes their frames on in the order in which it took them. If a lane behind it is
 * full, the frame for that lane holds up those of all other sources. That is a deadlock if ways meet again in a join:
 * one way is held up by a frame of source a, the other by a frame of source b, and the join waits for a frame of each.
 *
 * So if a join lies behind, such a stage takes a frame only if every lane that may get its output has room for it. Then
 * no source waits for another. A frame that was taken has credit until its call's outputs have been pushed. If several
 * frames come of one, all but the first are without credit, and may be held up.
 *
 * Threads: under the instance's lock, if it has one. */
#ifndef MILLRACE_FLOW_CREDIT_H
#define MILLRACE_FLOW_CREDIT_H

#include "engine/flow/instance/instance.h"

/* For an instance that needs credit; once it is known whether a join lies behind. MR_ERROR_MEMORY. */
int mr_credit_create(mr_instance *instance);
void mr_credit_destroy(mr_instance *instance);

/* Whether a frame of the source may be taken; true if the instance needs no credit. If not, the entry will be woken
 * when there is room. */
bool mr_credit_take(mr_entry_task *entry, uint32_t source);
static inline void mr_credit_return(mr_instance *instance, uint32_t source) {
    if (instance->intake.credit)
        instance->intake.credit[source]--;
}
/* That of all inputs of a call. */
static inline void mr_credit_return_all(mr_instance *instance, const mr_slot *slot) {
    if (!instance->intake.credit)
        return;
    /* A join takes one frame from each port for one credit. */
    const size_t count = instance->intake.port_count > 1 && slot->frame_count ? 1 : slot->frame_count;
    for (size_t i = 0; i < count; i++)
        mr_credit_return(instance, slot->sources[i]);
}

#endif

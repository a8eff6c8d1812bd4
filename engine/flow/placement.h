/* Stages on several devices: which of them takes the next call, and how its inputs come there. Internal to engine/flow.
 *
 * Frames go to the device that, by what its last calls have cost, will be done with them first; to one that has its fill
 * only when all have. One that is so slow that the others would have to wait for the order to be restored gets none,
 * but for a try now and then. So each device does as much as it can, whatever it is capable of at the time.
 *
 * Copies are not placed: they go where a frame is. */
#ifndef MILLRACE_FLOW_PLACEMENT_H
#define MILLRACE_FLOW_PLACEMENT_H

#include "engine/flow/instance.h"

/* The part that a call works on whose first frame that is. With the lock. */
size_t mr_instance_choose_part(mr_instance *instance, const mr_frame *frame);
/* The part that takes over from that one: itself, unless its device has failed or is disabled, and others are there. */
size_t mr_instance_part_now(mr_instance *instance, size_t part);
/* Whether calls are counted: not those of the host alone, which are done when they return. */
static inline bool mr_instance_shares(const mr_instance *instance) {
    return instance->placement.part_count > 1 || !instance->placement.parts[0].on_host;
}
/* Of calls that are counted: one begins, or another part takes it over before it has begun; its work is done. */
void mr_share_begin(mr_instance *instance, mr_slot *slot, int64_t now_ns);
void mr_share_move(mr_instance *instance, mr_slot *slot, size_t part);
void mr_share_end(mr_instance *instance, mr_slot *slot, int64_t now_ns);
/* The device of the slot's part has failed: the next calls go elsewhere, if there is anywhere. */
void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot);
/* Whether calls could go on without that device; true where none go there. */
bool mr_instance_can_spare(const mr_instance *instance, const mr_device *device);
/* Lets calls go to that device, where they may have failed before, or no more. Any thread. */
void mr_instance_enable(mr_instance *instance, const mr_device *device, bool enabled);

/* Whether calls bring their inputs in themselves: where there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return instance->placement.part_count > 1 && !instance->vertex->copy;
}
/* Brings the call's inputs into the memory of its device, in such an instance. MR_ERROR_AGAIN: call again
 * when woken. */
int mr_io_bring_in(mr_io *io);

#endif

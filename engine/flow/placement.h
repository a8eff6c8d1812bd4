/* Stages on several devices: chooses the device of the next call, and brings its inputs there. Internal to engine/flow.
 *
 * A frame goes to the device that, by the cost of its last calls, will finish it first; to a device whose queue is full
 * only if all are. A device so slow that the others would wait for the order to be restored gets none, except for a try
 * now and then. So each device does as much as it can, whatever its speed at the time.
 *
 * Copies are not placed: they go where a frame is. */
#ifndef MILLRACE_FLOW_PLACEMENT_H
#define MILLRACE_FLOW_PLACEMENT_H

#include "engine/flow/instance/instance.h"

/* The number of the device for a call whose first frame is `frame`. With the lock. */
size_t mr_instance_choose_device(mr_instance *instance, const mr_frame *frame);
/* The device that takes over from that one: itself, unless it has failed or is disabled and there are others. */
size_t mr_instance_device_now(mr_instance *instance, size_t number);
/* Whether calls are counted: not those of the host alone, which are done when they return. */
static inline bool mr_instance_shares(const mr_instance *instance) {
    return instance->placement.state_count > 1 || !instance->placement.states[0].on_host;
}
/* Of calls that are counted: the call begins; another device takes it over before it has begun; its work is done. */
void mr_share_begin(mr_instance *instance, mr_slot *slot, int64_t now_ns);
void mr_share_move(mr_instance *instance, mr_slot *slot, size_t number);
void mr_share_end(mr_instance *instance, mr_slot *slot, int64_t now_ns);
/* The slot's device has failed: the next calls go elsewhere, if possible. */
void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot);
/* Whether calls could go on without that device; true if none go there. */
bool mr_instance_can_spare(const mr_instance *instance, const mr_device *device);
/* Enables calls on that device, even if they failed before, or disables them. Any thread. */
void mr_instance_enable(mr_instance *instance, const mr_device *device, bool enabled);

/* Whether calls bring their inputs in themselves: if there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return instance->placement.state_count > 1 && !instance->vertex->copy;
}
/* Brings the call's inputs into the memory of its device, in such an instance. MR_ERROR_AGAIN: call again when
 * woken. */
int mr_io_bring_in(mr_io *io);

#endif

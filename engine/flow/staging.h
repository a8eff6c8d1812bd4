/* Inputs of calls on several devices: brings them to the call's device. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_STAGING_H
#define MILLRACE_FLOW_STAGING_H

#include "engine/flow/instance/instance.h"

/* Whether calls bring their inputs in themselves: if there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return mr_parts_count(&instance->parts) > 1 && !instance->vertex->copy;
}
/* Brings the call's inputs into the memory of its device, in such an instance. MR_ERROR_AGAIN: call again when
 * woken. */
int mr_io_bring_in(mr_io *io);

#endif

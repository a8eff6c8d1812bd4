/* Copies inputs to the call's device, for stages on several devices. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* Whether calls must copy inputs to the device: true if there are several devices. */
static inline bool mr_instance_brings_in(const mr_instance *instance) {
    return mr_parts_count(&instance->parts) > 1 && !instance->vertex->copy;
}
/* Copies the call's inputs into the device's memory, if mr_instance_brings_in. MR_ERROR_AGAIN: call again when
 * woken. */
int mr_io_bring_in(mr_io *io);

/* The devices of a fit, as its parameters name them.
 *
 * Ownership: the caller's, until they are closed. One thread. Errors as mr_device_open. */
#ifndef MILLRACE_STAGES_TRAIN_TRAIN_DEVICES_H
#define MILLRACE_STAGES_TRAIN_TRAIN_DEVICES_H

#include "engine/device/device.h"
#include "kernels/fit/fit_device.h"
#include "stages/train/training.h"

/* Of a failure in the midst some are open, and are to be closed. `devices` is zeroed before. */
int mr_train_open_devices(const mr_fitting *training, mr_device *devices[MR_FIT_DEVICES]);
void mr_train_close_devices(mr_device *devices[MR_FIT_DEVICES]);

#endif

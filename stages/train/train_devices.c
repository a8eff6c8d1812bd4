#include "stages/train/train_devices.h"

#include "engine/device/open/open.h"

enum { DEVICE_SEED = 1 }; /* of simulated devices */

int mr_train_open_devices(const mr_fitting *training, mr_device *devices[MR_FIT_DEVICES]) {
    const mr_fit_params *p = &training->params;
    int status = MR_OK;
    for (size_t i = 0; i < p->device_count && !status; i++)
        status = mr_device_open(&devices[i], p->devices[i], DEVICE_SEED, true);
    return status;
}

void mr_train_close_devices(mr_device *devices[MR_FIT_DEVICES]) {
    for (size_t i = 0; i < MR_FIT_DEVICES; i++)
        if (devices[i])
            mr_device_destroy(&devices[i]);
}

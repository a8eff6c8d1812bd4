#include "stages/media/media_hardware.h"

#include <stddef.h>
#include <string.h>

#include "millrace/status.h"

const char *const mr_hardware_choices[] = {
    [MR_HARDWARE_AUTO] = "auto", [MR_HARDWARE_OFF] = "off", [MR_HARDWARE_REQUIRE] = "require", NULL};

bool mr_hardware_is_on(const char *device) {
    return strncmp(device, "cuda", 4) == 0;
}

int mr_hardware_check(mr_hardware hardware, const char *device, int (*check)(void)) {
    if (hardware != MR_HARDWARE_REQUIRE)
        return MR_OK;
    return mr_hardware_is_on(device) ? check()
                                     : mr_fail(MR_ERROR_CONFIG,
                                               "hardware: require needs a CUDA device, and %s is not one; write "
                                               "device: cuda:0, or hardware: auto", device);
}

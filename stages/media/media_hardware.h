/* The option `hardware` in decode and encode: whether NVDEC or NVENC is used on a CUDA device. Pure functions. */
#pragma once

#include <stdbool.h>

typedef enum mr_hardware { MR_HARDWARE_AUTO, MR_HARDWARE_OFF, MR_HARDWARE_REQUIRE } mr_hardware;
extern const char *const mr_hardware_choices[];

/* Whether this device can have them. */
bool mr_hardware_is_on(const char *device);
/* As mr_stage_type.check_device; `check` is mr_nvdec_check or mr_nvenc_check. */
int mr_hardware_check(mr_hardware hardware, const char *device, int (*check)(void));

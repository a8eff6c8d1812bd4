/* Devices by name: the only place that knows every kind of device. millrace/devices.h has the name forms, sim.h a
 * simulated device's parameters.
 *
 * Threads: any. */
#pragma once

#include "engine/device/device.h"
#include "engine/device/sim/card.h"
#include "millrace/devices.h"

/* Opens a device. `seed` is for simulated devices, which work in simulated time if `manual` is set. MR_ERROR_CONFIG:
 * there is no such kind of device, or no such parameter; MR_ERROR_UNAVAILABLE: this machine has no such device;
 * MR_ERROR_MEMORY, MR_ERROR_DEVICE. On failure *device is NULL. */
int mr_device_open(mr_device **device, const char *name, uint64_t seed, bool manual);
/* A GPU has two names. If `name` has the UUID of a GPU in this machine, writes the name with the number, else `name`
 * itself, which is well formed and shorter than MR_DEVICE_NAME. Returns `text`. */
const char *mr_device_number(const char *name, char text[MR_DEVICE_NAME]);
/* The compute capability of the CUDA device with that well-formed name: 90 is 9.0. 0: it is not a CUDA device, or there
 * is none. */
int mr_device_capability(const char *name);
/* If the well-formed name is for a simulated device with a card's figures, copies them and returns true. */
bool mr_device_card(const char *name, mr_card *card);

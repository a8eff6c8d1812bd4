/* The simulated accelerator. Its memory is the host's. Work runs later, on a separate thread or, if `manual` is set, in
 * simulated time (mr_device_advance).
 *
 * Times. Without rates, any number of streams work at once, and each piece takes a time drawn from `seed`, uniform in
 * [min_delay_ns, max_delay_ns]. With a rate or a time per call, the device has three engines (upload, compute,
 * download) that work side by side, each in order. A copy's time follows from the engine's rate; a copy from another
 * device uses the upload engine. Other work takes `call_ns` plus, at `compute_rate`, the bytes in all buffers whose
 * addresses are among the arguments. Delays are added if they are set. If `copies` is 1, both copy engines are one. If
 * `kernels` is above 1, that many other pieces spend `call_ns` side by side; their bytes share one memory and pass one
 * after the other. Work joined to the previous piece (mr_stream.joined) needs no `call_ns`, and a buffer that both use
 * counts once.
 *
 * Misuse fails the call, or the event after the work if it has run by then, with MR_ERROR_INTERNAL. The message names
 * stage and frame; it is logged as an error, and mr_sim_misuses counts it. Misuse is: another device's memory, an
 * address beyond a buffer, work that was not made to wait for whoever writes its memory, memory that was freed or
 * handed to another user before the work on it was done.
 *
 * Threads: as for devices (device.h); mr_sim_advance from one thread at a time. */
#pragma once

#include "engine/device/sim/sim_misuse.h"
#include "engine/device/sim/sim_parameters.h"
#include "engine/device/sim/sim_run.h"

/* MR_ERROR_MEMORY: no memory, or no thread. */
int mr_sim_create(mr_device **device, const mr_sim_params *params);
/* A simulated device's calls so far, as fail_call counts them. */
int64_t mr_sim_calls(mr_device *device);

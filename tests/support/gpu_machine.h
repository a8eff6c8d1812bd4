/* An imitation of a machine with two NVIDIA GPUs: its driver's libraries, kernel module and device files are a table of
 * functions for mr_gpus_probe. They return the values that a test sets in `gpu_here`.
 *
 * Threads: one at a time. */
#pragma once

#include "engine/device/probe/gpu.h"

extern struct gpu_machine {
    int init_error;      /* the CUresult of cuInit */
    int cuda;            /* that the driver runs, as 13000 */
    int count, cards;    /* GPUs that the driver shows, and cards on the PCI bus */
    int capability;      /* of each GPU, as 90 */
    int mode;            /* its compute mode: CUcomputemode */
    int mig, persistence;
    unsigned long long errors, slowed; /* uncorrected memory errors; reasons: nvmlClocksEventReasons */
    const char *module;  /* version of the driver in the kernel; NULL: none is loaded */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    const char *refused; /* the device file that cannot be opened, for the errno `refusal`; NULL: none */
    int refusal;
    bool nodes;          /* there are device files */
} gpu_here;

/* Primary contexts and sessions of NVML that are open. */
extern int gpu_contexts, gpu_sessions;

/* Both begin `gpu_here` anew. The table, whose calls a test may replace: all is well, */
mr_gpu_access gpu_healthy(void);
/* or no driver is loaded, and its library cannot be opened. */
mr_gpu_access gpu_without_driver(void);

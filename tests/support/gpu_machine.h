/* Imitates a machine with two NVIDIA GPUs: a table of functions for mr_gpus_probe stands for the driver's libraries,
 * kernel module and device files. They return what a test sets in `gpu_here`.
 *
 * Threads: one at a time. */
#pragma once

#include "engine/device/probe/gpu.h"

extern struct gpu_machine {
    int init_error;      /* what cuInit returns */
    int cuda;            /* the driver's CUDA version, such as 13000 */
    int count, cards;    /* GPUs that the driver reports; cards on the PCI bus */
    int capability;      /* for each GPU, such as 90 */
    int mode;            /* CUcomputemode */
    int mig, persistence;
    unsigned long long errors, slowed; /* uncorrected memory errors; reasons: nvmlClocksEventReasons */
    const char *module;  /* the kernel driver's version; NULL: no driver is loaded */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    const char *refused; /* a device file that cannot be opened, with errno `refusal`; NULL: none */
    int refusal;
    bool nodes;          /* device files exist */
} gpu_here;

/* Primary contexts and NVML sessions that are open. */
extern int gpu_contexts, gpu_sessions;

/* Both reset `gpu_here`. The table, whose calls a test may replace: everything works, */
mr_gpu_access gpu_healthy(void);
/* or no driver is loaded and the library cannot be opened. */
mr_gpu_access gpu_without_driver(void);

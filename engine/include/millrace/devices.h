/* The devices of this machine: its processors, its NVIDIA GPUs and why one cannot be used. It is what `millrace
 * devices` prints.
 *
 *     const mr_machine *machine;
 *     if (!mr_machine_open(&machine)) {
 *         for (size_t i = 0; i < machine->gpu_count; i++) {
 *             const mr_gpu *gpu = &machine->gpus[i];
 *             printf("%s: %s%s\n", gpu->name, gpu->model, gpu->usable ? "" : ", not usable");
 *         }
 *         mr_machine_close(&machine);
 *     }
 *
 * Neither a driver nor a GPU nor a build with CUDA is needed: GPUs are described by the driver and NVML, and problems
 * are findings with a remedy, not errors.
 *
 * Devices have names: "cpu"; "cuda:N" or "cuda:GPU-<uuid>", also "cuda", which is the first GPU; "sim:N", also "sim",
 * with parameters after a `?`, is a simulated accelerator, of which there are any number. */
#ifndef MILLRACE_DEVICES_H
#define MILLRACE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A problem, and its remedy. */
typedef struct mr_machine_finding {
    const char *code; /* for programs: "no-driver", "driver-old", "prohibited", ... */
    bool fatal;       /* the GPU, or all of them, cannot be used */
    const char *what, *mend; /* for people, one sentence each without a full stop */
} mr_machine_finding;

/* NVDEC's limits for a codec, at 8 bits and 4:2:0. */
typedef struct mr_machine_codec {
    const char *name; /* as libavcodec calls it: "h264" */
    unsigned max_width, max_height; /* px */
    bool ten_bits;    /* it decodes 10 bits, too */
} mr_machine_codec;

typedef struct mr_machine_gpu {
    const char *name;                  /* "cuda:0" */
    const char *model;                 /* "NVIDIA H100 80GB HBM3" */
    const char *uuid;                  /* "GPU-...", or "MIG-..." of an instance of a divided one; NULL: not known */
    bool usable;                       /* no finding of it or of the machine is fatal */
    uint64_t memory_bytes, free_bytes; /* 0: not known */
    int major, minor;                  /* compute capability */
    int multiprocessors, copy_engines;
    size_t codec_count;
    const mr_machine_codec *codecs;
    size_t peer_count;
    const int *peers;                  /* numbers of the GPUs whose memory it reaches, in ascending order */
    int utilisation, memory_utilisation; /* per cent of the last second or less; -1: not known */
    int celsius;                       /* -1: not known */
    size_t slowed_count;
    const char *const *slowed_by;      /* reasons for which its clocks are held down now: "power limit" */
    int persistence, mig;              /* modes: 1 on, 0 off, -1 not known */
    size_t finding_count;
    const mr_machine_finding *findings;
} mr_machine_gpu;

/* What was found when it was opened. All of it belongs to the view, is never changed, may be read by any thread, and
 * lives until the view is closed. Grows at its end (version.h): a program does not copy it. */
typedef struct mr_machine {
    const char *processor;    /* its model; NULL: not known */
    int cores;                /* online */
    int usable_cores;         /* of them, that this process may keep busy: affinity and limits of its cgroup */
    int numa_nodes;           /* 1 if the machine is not divided */
    uint64_t memory_bytes;    /* 0: not known, as the next */
    uint64_t available_bytes; /* that can be taken now without swapping */
    const char *driver;       /* of NVIDIA, its version: "580.65.06"; NULL: not known */
    int driver_cuda;          /* CUDA that the driver runs: 13000 is 13.0; 0: there is no driver */
    int build_cuda;           /* CUDA that this library is built with; 0: none */
    int cards;                /* of NVIDIA on the PCI bus; 0 also if that cannot be seen */
    size_t gpu_count;
    const mr_machine_gpu *gpus; /* gpus[N] is cuda:N */
    size_t finding_count;
    const mr_machine_finding *findings; /* that concern all GPUs */
} mr_machine;

/* Reads everything, once; with a driver it takes tenths of a second. One thread at a time. MR_ERROR_MEMORY is the only
 * error; *machine is NULL then. */
MR_API int mr_machine_open(const mr_machine **machine);
/* Also of NULL; sets *machine to NULL. */
MR_API void mr_machine_close(const mr_machine **machine);

/* The room for the longest name of a device, with its final 0. */
enum { MR_DEVICE_NAME = 256 };

/* MR_OK if the name is well formed, else MR_ERROR_CONFIG. Does not look for the device. Any thread. */
MR_API int mr_device_check_name(const char *name);
/* Checks that this machine has the device and this library can use it, and reads the size of its memory: 0 where that
 * is not known or has no limit. The name is well formed. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. Any thread. */
MR_API int mr_device_probe(const char *name, uint64_t *memory_bytes);

/* An operation of the kernels, and the instruction set of the variant that is used for it. */
typedef struct mr_kernel_variant {
    const char *step; /* "vertical", "horizontal", "colour": of preprocess */
    const char *isa;  /* "c", "avx2", "avx512" */
} mr_kernel_variant;
/* Grows at its end, as mr_machine. */
typedef struct mr_kernel_variants {
    const char *isa;  /* the best instruction set that is used */
    size_t step_count;
    const mr_kernel_variant *steps; /* operations for which a variant is chosen by measurement */
} mr_kernel_variants;
/* The variants of the kernels for the host's processors. The first call, here or of a stage, chooses them, which takes
 * less than a millisecond; MILLRACE_KERNELS in the environment ("c", "avx2", "avx512") names one instead. All variants
 * give the same results. Lives as long as the process. Any thread. */
MR_API const mr_kernel_variants *mr_kernel_variants_get(void);

/* Asks the CUDA driver for as many hardware queues as there are (CUDA_DEVICE_MAX_CONNECTIONS=32 in the environment,
 * unless that is set); otherwise streams of large pipelines share queues and wait for each other without need. It
 * writes the environment, which other threads may be reading, and the driver reads it once: for the first lines of
 * `main`. The library never does so by itself; it logs if streams share queues. */
MR_API void mr_gpu_want_connections(void);

#ifdef __cplusplus
}
#endif
#endif

/* This machine's devices: processors and NVIDIA GPUs, and why a GPU cannot be used. `millrace devices` prints it.
 *
 *     const mr_machine *machine;
 *     if (!mr_machine_open(&machine)) {
 *         for (size_t i = 0; i < machine->gpu_count; i++) {
 *             const mr_machine_gpu *gpu = &machine->gpus[i];
 *             printf("%s: %s%s\n", gpu->name, gpu->model, gpu->usable ? "" : ", not usable");
 *         }
 *         mr_machine_close(&machine);
 *     }
 *
 * You need no driver, GPU or build with CUDA. The driver and NVML describe the GPUs. Problems are findings with a
 * remedy, not errors.
 *
 * Device names: "cpu"; "cuda:N" or "cuda:GPU-<uuid>"; "cuda" is the first GPU. "sim:N" or "sim", with optional
 * parameters after a `?`, is a simulated accelerator; there are any number of them. */
#ifndef MILLRACE_DEVICES_H
#define MILLRACE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A problem and the remedy. */
typedef struct mr_machine_finding {
    const char *code; /* for programs: "no-driver", "driver-old", "prohibited", ... */
    bool fatal;       /* the GPU, or all of them, cannot be used */
    const char *what, *mend; /* for people: one sentence each, without a full stop */
} mr_machine_finding;

/* NVDEC's limits for a codec, at 8 bits and 4:2:0. */
typedef struct mr_machine_codec {
    const char *name; /* name in libavcodec: "h264" */
    unsigned max_width, max_height; /* px */
    bool ten_bits;    /* also decodes 10 bits */
} mr_machine_codec;

/* A decoder of this board that the kernel offers through V4L2; `decode` on "cpu" uses it. */
typedef struct mr_machine_decoder {
    const char *codec;              /* name in libavcodec: "h264" */
    unsigned max_width, max_height; /* px; 0: not known */
    const char *node;               /* "/dev/video10" */
    const char *card;               /* as the driver calls it */
} mr_machine_decoder;

typedef struct mr_machine_gpu {
    const char *name;                  /* "cuda:0" */
    const char *model;                 /* "NVIDIA H100 80GB HBM3" */
    const char *uuid;                  /* "GPU-...", or "MIG-..." for an instance of a partitioned GPU; NULL: not
                                          known */
    bool usable;                       /* neither the GPU nor the machine has a fatal finding */
    uint64_t memory_bytes, free_bytes; /* 0: not known */
    int major, minor;                  /* compute capability */
    int multiprocessors, copy_engines;
    size_t codec_count;
    const mr_machine_codec *codecs;
    size_t peer_count;
    const int *peers;                  /* indexes of GPUs whose memory it can access, ascending */
    int utilisation, memory_utilisation; /* per cent, over the last second or less; -1: not known */
    int celsius;                       /* -1: not known */
    size_t slowed_count;
    const char *const *slowed_by;      /* why clocks are reduced now: "power limit" */
    int persistence, mig;              /* modes: 1 on, 0 off, -1 not known */
    size_t finding_count;
    const mr_machine_finding *findings;
} mr_machine_gpu;

/* The state at mr_machine_open. The view owns everything, never changes, may be read by any thread, and lives until it
 * is closed. Grows at its end (version.h): a program must not copy it. */
typedef struct mr_machine {
    const char *processor;    /* model; NULL: not known */
    int cores;                /* online */
    int usable_cores;         /* cores that this process may keep busy: affinity and cgroup limits */
    int numa_nodes;           /* 1: the machine has no NUMA nodes */
    uint64_t memory_bytes;    /* 0: not known, also below */
    uint64_t available_bytes; /* what can be allocated now without swapping */
    const char *driver;       /* version of the NVIDIA driver: "580.65.06"; NULL: not known */
    int driver_cuda;          /* CUDA version that the driver supports: 13000 is 13.0; 0: there is no driver */
    int build_cuda;           /* CUDA version of this library's build; 0: none */
    int cards;                /* NVIDIA cards on the PCI bus; 0 if that is not known */
    size_t gpu_count;
    const mr_machine_gpu *gpus; /* gpus[N] is cuda:N */
    size_t finding_count;
    const mr_machine_finding *findings; /* findings about all GPUs */
    size_t decoder_count;
    const mr_machine_decoder *decoders;
    const char *closed_node; /* a /dev/video* node that this process may not open; NULL: none */
} mr_machine;

/* Reads everything once; with a driver it takes tenths of a second. One thread at a time. MR_ERROR_MEMORY is the only
 * error; *machine is then NULL. */
MR_API int mr_machine_open(const mr_machine **machine);
/* Frees a view and sets *machine to NULL; NULL is allowed. */
MR_API void mr_machine_close(const mr_machine **machine);

/* Room for the longest device name, with the final 0. */
enum { MR_DEVICE_NAME = 256 };

/* Checks that a name is well formed. MR_OK or MR_ERROR_CONFIG. Does not look for the device. Any thread. */
MR_API int mr_device_check_name(const char *name);
/* Checks that the device exists and that this library can use it. *memory_bytes receives the memory size; 0: not known
 * or unlimited. The name must be well formed. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. Any thread. */
MR_API int mr_device_probe(const char *name, uint64_t *memory_bytes);

/* The instruction set of the kernels for the host's processors: "c", "neon" (ARM64), "avx2" or "avx512", the widest
 * that they have and that MILLRACE_KERNELS in the environment allows. All variants give the same results. Any
 * thread. */
MR_API const char *mr_kernel_isa(void);

/* Sets CUDA_DEVICE_MAX_CONNECTIONS=32 in the environment, unless it is set, so that the CUDA driver uses all hardware
 * queues. Otherwise streams of large pipelines share queues and wait for each other. Call it in the first lines of
 * `main`: other threads may read the environment, and the driver reads it once. The library never calls it; it logs if
 * streams share queues. */
MR_API void mr_gpu_want_connections(void);

#ifdef __cplusplus
}
#endif
#endif

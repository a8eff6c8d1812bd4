/* The NVIDIA GPUs of this machine, and why one cannot be used: read from the driver and NVML, not from the CUDA
 * runtime, so that a build without CUDA and a machine without a driver get an answer too.
 *
 * All queries go through a call table. It has the functions that the driver's libraries export (a call that a library
 * lacks is NULL, and its facts stay unknown), and those that inspect the rest of the machine. mr_gpu_access_open fills
 * it from this machine; tests fill it with invented answers. Prototypes and numbers follow NVIDIA's documentation: CUDA
 * Driver API, NVML API Reference, Video Codec SDK (cuviddec.h).
 *
 * Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_GPU_MOST = 64, MR_GPU_FINDINGS = 8, MR_GPU_CODECS = 12, MR_GPU_UUID = 48, MR_GPU_NAME = 96 };

/* ---- the table ------------------------------------------------------------------------------------------------- */

/* NVML: nvmlMemory_t, nvmlUtilization_t. */
typedef struct mr_nvml_memory {
    unsigned long long total, free, used; /* bytes */
} mr_nvml_memory;
typedef struct mr_nvml_utilization {
    unsigned gpu, memory; /* per cent during the last second or less */
} mr_nvml_utilization;

/* CUVIDDECODECAPS: NVDEC's limits for one codec, chroma format and depth. */
typedef struct mr_nvdec_caps {
    int codec, chroma; /* asked: cudaVideoCodec, cudaVideoChromaFormat (1: 4:2:0) */
    unsigned depth_minus_8;
    unsigned reserved1[3];
    unsigned char supported, engines;
    unsigned short output_formats;
    unsigned max_width, max_height, max_macroblocks;
    unsigned short min_width, min_height;
    unsigned char histogram, counter_bits;
    unsigned short histogram_bins;
    unsigned reserved3[10];
} mr_nvdec_caps;

/* A CUdevice is an int, a CUcontext and an nvmlDevice_t are pointers; answers are CUresult and nvmlReturn_t, 0 if
 * all went well. */
typedef struct mr_gpu_access {
    bool has_driver; /* libcuda.so.1 could be opened */
    int (*cuInit)(unsigned flags);
    int (*cuDriverGetVersion)(int *version); /* 12020: CUDA 12.2 */
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDeviceGetName)(char *name, int bytes, int device);
    int (*cuDeviceGetUuid)(unsigned char uuid[16], int device);
    int (*cuDeviceTotalMem)(size_t *bytes, int device);
    int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
    int (*cuDeviceCanAccessPeer)(int *can, int device, int peer);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease)(int device);
    int (*cuCtxPushCurrent)(void *context);
    int (*cuCtxPopCurrent)(void **context);
    int (*cuGetErrorName)(int error, const char **name);
    int (*cuvidGetDecoderCaps)(mr_nvdec_caps *caps); /* libnvcuvid.so.1; needs a current context */
    int (*nvmlInit)(void);                           /* libnvidia-ml.so.1 */
    int (*nvmlShutdown)(void);
    int (*nvmlSystemGetDriverVersion)(char *version, unsigned bytes);
    int (*nvmlDeviceGetCount)(unsigned *count);
    int (*nvmlDeviceGetHandleByIndex)(unsigned index, void **handle);
    int (*nvmlDeviceGetHandleByUUID)(const char *uuid, void **handle);
    int (*nvmlDeviceGetMemoryInfo)(void *handle, mr_nvml_memory *memory);
    int (*nvmlDeviceGetUtilizationRates)(void *handle, mr_nvml_utilization *utilization);
    int (*nvmlDeviceGetTemperature)(void *handle, int sensor, unsigned *celsius);
    int (*nvmlDeviceGetClockInfo)(void *handle, int type, unsigned *mhz);
    int (*nvmlDeviceGetCurrentClocksEventReasons)(void *handle,
                                                  unsigned long long *reasons); /* or ...ThrottleReasons */
    int (*nvmlDeviceGetPersistenceMode)(void *handle, int *mode);
    int (*nvmlDeviceGetMigMode)(void *handle, unsigned *current, unsigned *pending);
    int (*nvmlDeviceGetTotalEccErrors)(void *handle, int type, int counter, unsigned long long *count);

    int (*count_cards)(void);                            /* NVIDIA display and 3D controllers on the PCI bus */
    bool (*module_version)(char *version, size_t bytes); /* the driver in the kernel; false: there is none */
    int (*check_node)(const char *path);                 /* 0 if it can be read and written, else an errno */
    const char *(*environment)(const char *name);
    int runtime;              /* CUDA that this build is made with, as 13000; 0: none */
    const int *architectures; /* compiled for: 75, ..., ended by 0; code for the last also
                                 serves those that come after it */
    void *libraries[3];
} mr_gpu_access;

void mr_gpu_access_open(mr_gpu_access *access);
void mr_gpu_access_close(mr_gpu_access *access);

/* ---- the GPUs --------------------------------------------------------------------------------------------------- */

/* Something that is wrong, and how to mend it. */
typedef struct mr_gpu_finding {
    const char *code; /* for scripts: "no-driver", "driver-old", ...; see gpu_findings.c */
    bool fatal;       /* the GPU (all GPUs, in mr_gpus) cannot be used */
    char what[320], mend[256];
} mr_gpu_finding;

typedef struct mr_gpu_codec {
    const char *name;               /* as libavcodec calls it: "h264" */
    unsigned max_width, max_height; /* px, 8 bits, 4:2:0 */
    bool ten_bits;
} mr_gpu_codec;

typedef struct mr_gpu {
    int index; /* cuda:N */
    char name[MR_GPU_NAME];
    char uuid[MR_GPU_UUID];            /* "GPU-..." or "MIG-..."; "" unknown */
    uint64_t memory_bytes, free_bytes; /* 0: unknown */
    int major, minor;                  /* compute capability */
    int multiprocessors, copy_engines;
    uint64_t peers; /* bit N: it can reach cuda:N's memory */
    int codec_count;
    mr_gpu_codec codecs[MR_GPU_CODECS];
    int utilisation, memory_utilisation; /* per cent; -1: unknown */
    int celsius;                         /* -1: unknown */
    int core_mhz, memory_mhz;            /* present clocks, multiprocessors and memory; 0: unknown */
    uint64_t slowed;                     /* why the clocks are held down now: nvmlClocksEventReasons */
    int persistence, mig;                /* 1 on, 0 off, -1 unknown */
    int finding_count;
    mr_gpu_finding findings[MR_GPU_FINDINGS];
} mr_gpu;

typedef struct mr_gpus {
    char driver[80];          /* the version: "580.65.06"; "" unknown */
    int driver_cuda, runtime; /* CUDA that the driver can run, and that this build is made with: 13000; 0: none */
    int cards;                /* on the PCI bus; 0 also if that cannot be seen */
    int count;
    mr_gpu *gpu;
    int finding_count;
    mr_gpu_finding findings[MR_GPU_FINDINGS];
} mr_gpus;

/* Reads everything. Problems are among the findings; MR_ERROR_MEMORY is the only failure. mr_gpus_fini frees. */
int mr_gpus_probe(const mr_gpu_access *access, mr_gpus *found);
void mr_gpus_fini(mr_gpus *found);
/* Whether nothing stands against using it. */
bool mr_gpu_usable(const mr_gpus *found, const mr_gpu *gpu);

/* ---- NVDEC ------------------------------------------------------------------------------------------------------ */

/* cudaVideoChromaFormat, and bits per sample: 8, 10 and 12. */
enum { MR_GPU_MONO, MR_GPU_420, MR_GPU_422, MR_GPU_444, MR_GPU_CHROMAS };
enum { MR_GPU_DEPTHS = 3 };

typedef struct mr_gpu_decoder {
    bool supported;
    unsigned min_width, min_height, max_width, max_height; /* px */
    unsigned max_macroblocks;                              /* 256 px each */
} mr_gpu_decoder;
typedef struct mr_gpu_decoders {
    mr_gpu_decoder of[MR_GPU_CODECS][MR_GPU_CHROMAS][MR_GPU_DEPTHS];
} mr_gpu_decoders;

/* Asks cuda:index's decoder for all; the primary context exists while that lasts. MR_ERROR_UNAVAILABLE if it cannot be
 * asked. */
int mr_gpu_read_decoders(const mr_gpu_access *access, int index, mr_gpu_decoders *found);
/* A codec as libavcodec calls it; NULL if that has no separate decoder name for it. */
const char *mr_gpu_codec_name(int codec);
/* NVDEC's limits for a codec of that name (NULL: unknown to it), with that chroma format and depth. */
const mr_gpu_decoder *mr_gpu_decoder_for(const mr_gpu_decoders *decoders, const char *codec, int chroma, int depth);

/* ---- names ----------------------------------------------------------------------------------------------------- */

/* "GPU-..." or, for an instance on a divided one, "MIG-...", as nvidia-smi -L writes them: eight, four, four, four and
 * twelve hexadecimal digits. */
bool mr_gpu_is_uuid(const char *text);
/* The N of cuda:N for a UUID, in upper or lower case. MR_ERROR_UNAVAILABLE if there is no such GPU, or no GPU can be
 * queried. */
int mr_gpu_index_of(const mr_gpu_access *access, const char *uuid, int *index);

/* The words for each reason in mr_gpu.slowed that costs speed ("heat", "power"), from the first; NULL after the
 * last. */
const char *mr_gpu_slowed_by(uint64_t slowed, int i);

/* ---- for gpu.c and gpu_findings.c ------------------------------------------------------------------------------ */

/* cuInit failed with `error`; or, if `error` is 0, there is no driver, or it shows no GPU. */
void mr_gpus_diagnose(const mr_gpu_access *access, mr_gpus *found, int error);
/* One GPU's problems. `mode`: the compute mode; `errors`: uncorrected memory errors since it was reset. */
void mr_gpu_diagnose(const mr_gpu_access *access, mr_gpu *gpu, int mode, unsigned long long errors);
/* Whether the architectures, ended by 0, have code for a compute capability (90: 9.0). */
bool mr_gpu_has_code(const int *architectures, int capability);
/* Writes "7.5, 8.0" and returns `text`. */
const char *mr_gpu_print_architectures(const int *architectures, char *text, size_t bytes);
/* Those that this build has kernels for; none in a build without CUDA. */
const int *mr_gpu_architectures(void);
/* Whether the driver can run code for this build's CUDA version. */
bool mr_gpu_driver_suffices(int driver_cuda, int runtime);

/* ---- the environment ------------------------------------------------------------------------------------------- */

/* A process has 8 hardware queues unless the environment sets another number, at most 32. Streams beyond share them,
 * and wait for each other without need. The driver reads it when it is first used. */
#define MR_GPU_CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define MR_GPU_MOST_CONNECTIONS "32"
/* mr_gpu_want_connections (millrace/devices.h) sets it. */

#include "engine/device/probe/gpu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/memory.h"
#include "millrace/devices.h"
#include "millrace/status.h"

/* CUdevice_attribute, CUcomputemode. */
enum { MULTIPROCESSORS = 16, COMPUTE_MODE = 20, COPY_ENGINES = 40, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };
enum { NVML_UNCORRECTED = 1, NVML_SINCE_RESET = 0, NVML_CORE_SENSOR = 0, NVML_SM_CLOCK = 1, NVML_MEMORY_CLOCK = 2 };

/* ---- UUIDs ----------------------------------------------------------------------------------------------------- */

enum { PREFIX = 4 };

bool mr_gpu_is_uuid(const char *text) {
    static const int groups[] = {8, 4, 4, 4, 12};
    if (strncmp(text, "GPU-", PREFIX) != 0 && strncmp(text, "MIG-", PREFIX) != 0)
        return false;
    text += PREFIX;
    for (int g = 0; g < 5; g++) {
        for (int i = 0; i < groups[g]; i++)
            if (!isxdigit((unsigned char)*text++))
                return false;
        if (g < 4 && *text++ != '-')
            return false;
    }
    return *text == 0;
}

void mr_gpu_want_connections(void) {
    setenv(MR_GPU_CONNECTIONS, MR_GPU_MOST_CONNECTIONS, 0);
}

static void print_uuid(char text[MR_GPU_UUID], const unsigned char u[16]) {
    snprintf(text, MR_GPU_UUID, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
             u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static void read_uuid(const mr_gpu_access *access, int device, char text[MR_GPU_UUID]) {
    unsigned char uuid[16];
    text[0] = 0;
    if (access->cuDeviceGetUuid && !access->cuDeviceGetUuid(uuid, device))
        print_uuid(text, uuid);
}

int mr_gpu_index_of(const mr_gpu_access *access, const char *uuid, int *index) {
    char other[MR_GPU_UUID];
    int count = 0, device;
    if (!access->has_driver)
        return mr_fail(MR_ERROR_UNAVAILABLE, "cuda:%s: there is no NVIDIA driver; see \"millrace devices\"",
                       uuid);
    int error = access->cuInit(0);
    if (!error)
        error = access->cuDeviceGetCount(&count);
    if (error)
        return mr_fail(MR_ERROR_UNAVAILABLE,
                       "cuda:%s: the NVIDIA driver shows no GPU (error %d); \"millrace devices\" says more",
                       uuid, error);
    for (int i = 0; i < count && i < MR_GPU_MOST; i++) {
        if (access->cuDeviceGet(&device, i))
            continue;
        read_uuid(access, device, other);
        if (*other && strcasecmp(other + PREFIX, uuid + PREFIX) == 0) {
            *index = i;
            return MR_OK;
        }
    }
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "cuda:%s: none of the %d GPUs here has this UUID; \"millrace devices\" lists them", uuid, count);
}

/* ---- one GPU --------------------------------------------------------------------------------------------------- */

static int attribute(const mr_gpu_access *access, int attribute, int device) {
    int value = 0;
    return access->cuDeviceGetAttribute(&value, attribute, device) ? 0 : value;
}

/* With 4:2:0, which most streams have. */
static void read_codecs(const mr_gpu_access *access, mr_gpu *gpu) {
    mr_gpu_decoders decoders;
    if (mr_gpu_read_decoders(access, gpu->index, &decoders))
        return;
    for (int i = 0; i < MR_GPU_CODECS; i++) {
        const mr_gpu_decoder *eight = &decoders.of[i][MR_GPU_420][0];
        if (mr_gpu_codec_name(i) && eight->supported)
            gpu->codecs[gpu->codec_count++] = (mr_gpu_codec){.name = mr_gpu_codec_name(i),
                                                             .max_width = eight->max_width,
                                                             .max_height = eight->max_height,
                                                             .ten_bits = decoders.of[i][MR_GPU_420][1].supported};
    }
}

/* For a divided GPU (MIG) the driver gives the UUID of the instance, and NVML knows it by that UUID. */
static bool find_handle(const mr_gpu_access *access, mr_gpu *gpu, void **handle) {
    if (!access->nvmlDeviceGetHandleByUUID)
        return false;
    if (!access->nvmlDeviceGetHandleByUUID(gpu->uuid, handle))
        return true;
    char instance[MR_GPU_UUID];
    snprintf(instance, sizeof instance, "MIG-%s", *gpu->uuid ? gpu->uuid + PREFIX : "");
    if (access->nvmlDeviceGetHandleByUUID(instance, handle))
        return false;
    memcpy(gpu->uuid, instance, sizeof instance);
    return true;
}

/* MHz, or 0. */
static int clock_of(const mr_gpu_access *access, void *handle, int type) {
    unsigned mhz = 0;
    if (!access->nvmlDeviceGetClockInfo || access->nvmlDeviceGetClockInfo(handle, type, &mhz))
        return 0;
    return (int)mhz;
}

/* The facts that only NVML reports. `errors` gets its memory's uncorrected errors. */
static void read_management(const mr_gpu_access *access, mr_gpu *gpu, unsigned long long *errors) {
    void *handle = NULL;
    mr_nvml_memory memory;
    mr_nvml_utilization utilization;
    unsigned value, pending;
    unsigned long long reasons;
    int mode;
    if (!find_handle(access, gpu, &handle))
        return;
    if (access->nvmlDeviceGetMemoryInfo && !access->nvmlDeviceGetMemoryInfo(handle, &memory))
        gpu->free_bytes = memory.free;
    if (access->nvmlDeviceGetUtilizationRates && !access->nvmlDeviceGetUtilizationRates(handle, &utilization)) {
        gpu->utilisation = (int)utilization.gpu;
        gpu->memory_utilisation = (int)utilization.memory;
    }
    if (access->nvmlDeviceGetTemperature && !access->nvmlDeviceGetTemperature(handle, NVML_CORE_SENSOR, &value))
        gpu->celsius = (int)value;
    gpu->core_mhz = clock_of(access, handle, NVML_SM_CLOCK);
    gpu->memory_mhz = clock_of(access, handle, NVML_MEMORY_CLOCK);
    if (access->nvmlDeviceGetCurrentClocksEventReasons &&
        !access->nvmlDeviceGetCurrentClocksEventReasons(handle, &reasons))
        gpu->slowed = reasons;
    if (access->nvmlDeviceGetPersistenceMode && !access->nvmlDeviceGetPersistenceMode(handle, &mode))
        gpu->persistence = mode;
    if (access->nvmlDeviceGetMigMode && !access->nvmlDeviceGetMigMode(handle, &value, &pending))
        gpu->mig = (int)value;
    if (access->nvmlDeviceGetTotalEccErrors &&
        access->nvmlDeviceGetTotalEccErrors(handle, NVML_UNCORRECTED, NVML_SINCE_RESET, errors))
        *errors = 0;
}

static void read_peers(const mr_gpu_access *access, const int *devices, int count, mr_gpu *gpu) {
    for (int other = 0; other < count && access->cuDeviceCanAccessPeer; other++) {
        int can = 0;
        if (other != gpu->index && !access->cuDeviceCanAccessPeer(&can, devices[gpu->index], devices[other]) && can)
            gpu->peers |= UINT64_C(1) << other;
    }
}

static void read_gpu(const mr_gpu_access *access, const int *devices, int count, bool managed, mr_gpu *gpu) {
    int device = devices[gpu->index];
    size_t bytes = 0;
    unsigned long long errors = 0;
    gpu->utilisation = gpu->memory_utilisation = gpu->celsius = gpu->persistence = gpu->mig = -1;
    if (!access->cuDeviceGetName || access->cuDeviceGetName(gpu->name, (int)sizeof gpu->name, device))
        snprintf(gpu->name, sizeof gpu->name, "NVIDIA GPU");
    read_uuid(access, device, gpu->uuid);
    if (access->cuDeviceTotalMem && !access->cuDeviceTotalMem(&bytes, device))
        gpu->memory_bytes = bytes;
    gpu->major = attribute(access, CAPABILITY_MAJOR, device);
    gpu->minor = attribute(access, CAPABILITY_MINOR, device);
    gpu->multiprocessors = attribute(access, MULTIPROCESSORS, device);
    gpu->copy_engines = attribute(access, COPY_ENGINES, device);
    read_peers(access, devices, count, gpu);
    if (managed)
        read_management(access, gpu, &errors);
    mr_gpu_diagnose(access, gpu, attribute(access, COMPUTE_MODE, device), errors);
    bool fatal = false;
    for (int i = 0; i < gpu->finding_count; i++)
        fatal = fatal || gpu->findings[i].fatal;
    if (!fatal)
        read_codecs(access, gpu);
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static int read_all(const mr_gpu_access *access, mr_gpus *found, int count, bool managed) {
    int devices[MR_GPU_MOST];
    found->count = 0;
    found->gpu = mr_calloc((size_t)count, sizeof *found->gpu);
    if (!found->gpu)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %d GPUs", count);
    for (int i = 0; i < count; i++)
        if (access->cuDeviceGet(&devices[i], i))
            count = i;
    for (int i = 0; i < count; i++) {
        found->gpu[i].index = i;
        read_gpu(access, devices, count, managed, &found->gpu[i]);
    }
    found->count = count;
    return MR_OK;
}

/* The driver's version in the usual form, from the first source that reports it. */
static void read_version(const mr_gpu_access *access, bool managed, mr_gpus *found) {
    if (access->has_driver && access->cuDriverGetVersion(&found->driver_cuda))
        found->driver_cuda = 0;
    if (managed && access->nvmlSystemGetDriverVersion &&
        !access->nvmlSystemGetDriverVersion(found->driver, (unsigned)sizeof found->driver))
        return;
    found->driver[0] = 0;
    if (!access->module_version(found->driver, sizeof found->driver))
        found->driver[0] = 0;
}

int mr_gpus_probe(const mr_gpu_access *access, mr_gpus *found) {
    *found = (mr_gpus){.runtime = access->runtime, .cards = access->count_cards()};
    bool managed = access->nvmlInit && !access->nvmlInit();
    int error = 0, count = 0, status = MR_OK;
    read_version(access, managed, found);
    if (access->has_driver) {
        error = access->cuInit(0);
        if (!error)
            error = access->cuDeviceGetCount(&count);
    }
    count = count > MR_GPU_MOST ? MR_GPU_MOST : count;
    if (!error && count > 0)
        status = read_all(access, found, count, managed);
    if (!status)
        mr_gpus_diagnose(access, found, error);
    if (managed && access->nvmlShutdown)
        access->nvmlShutdown();
    return status;
}

void mr_gpus_fini(mr_gpus *found) {
    mr_free(found->gpu);
    *found = (mr_gpus){0};
}

static bool none_fatal(const mr_gpu_finding *findings, int count) {
    for (int i = 0; i < count; i++)
        if (findings[i].fatal)
            return false;
    return true;
}

bool mr_gpu_usable(const mr_gpus *found, const mr_gpu *gpu) {
    return none_fatal(found->findings, found->finding_count) && none_fatal(gpu->findings, gpu->finding_count);
}

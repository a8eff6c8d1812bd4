#include "tests/support/gpu_machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct gpu_machine gpu_here;
int gpu_contexts, gpu_sessions;

static int cu_init(unsigned flags) {
    return gpu_here.init_error;
}
static int cu_version(int *version) {
    *version = gpu_here.cuda;
    return 0;
}
static int cu_count(int *count) {
    *count = gpu_here.count;
    return 0;
}
/* Handles must differ from ordinals, so that mixing them up fails. */
static int cu_device(int *device, int ordinal) {
    *device = 10 + ordinal;
    return 0;
}
static int cu_name(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "Test GPU %d", device - 10);
    return 0;
}
static int cu_uuid(unsigned char uuid[16], int device) {
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(0xa0 + i);
    uuid[15] = (unsigned char)(device - 10);
    return 0;
}
static int cu_memory(size_t *bytes, int device) {
    *bytes = UINT64_C(80) << 30;
    return 0;
}
static int cu_attribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 16:
        *value = 132;
        return 0;
    case 20:
        *value = gpu_here.mode;
        return 0;
    case 40:
        *value = 3;
        return 0;
    case 75:
        *value = gpu_here.capability / 10;
        return 0;
    case 76:
        *value = gpu_here.capability % 10;
        return 0;
    default:
        return 1;
    }
}
/* Only 0 can reach 1. */
static int cu_peer(int *can, int device, int peer) {
    *can = device == 10 && peer == 11;
    return 0;
}
static int cu_retain(void **context, int device) {
    *context = &gpu_contexts;
    gpu_contexts++;
    return 0;
}
static int cu_release(int device) {
    gpu_contexts--;
    return 0;
}
static int cu_push(void *context) {
    return context != &gpu_contexts;
}
static int cu_pop(void **context) {
    *context = &gpu_contexts;
    return 0;
}
static int cu_error_name(int error, const char **name) {
    *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return 0;
}
/* H.264 with 8 bits, HEVC with 8 and 10. */
static int decoder_caps(mr_nvdec_caps *caps) {
    caps->supported = caps->codec == 8 || (caps->codec == 4 && caps->depth_minus_8 == 0);
    caps->max_width = 8192;
    caps->max_height = 4320;
    return caps->chroma == 1 ? 0 : 1;
}
static int nvml_init(void) {
    gpu_sessions++;
    return 0;
}
static int nvml_shutdown(void) {
    gpu_sessions--;
    return 0;
}
static int nvml_version(char *version, unsigned bytes) {
    snprintf(version, bytes, "580.65.06");
    return 0;
}
static int nvml_count(unsigned *count) {
    *count = 1;
    return 0;
}
static int nvml_by_index(unsigned index, void **handle) {
    *handle = &gpu_here;
    return 0;
}
static int nvml_by_uuid(const char *uuid, void **handle) {
    *handle = &gpu_here;
    return strncmp(uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae0", 39) != 0;
}
static int nvml_memory(void *handle, mr_nvml_memory *memory) {
    memory->free = UINT64_C(79) << 30;
    return handle != &gpu_here;
}
static int nvml_utilization(void *handle, mr_nvml_utilization *utilization) {
    *utilization = (mr_nvml_utilization){37, 12};
    return handle != &gpu_here;
}
static int nvml_temperature(void *handle, int sensor, unsigned *celsius) {
    *celsius = 54;
    return handle != &gpu_here || sensor != 0;
}
/* nvmlClockType_t: 1 for multiprocessors, 2 for memory. */
static int nvml_clock(void *handle, int type, unsigned *mhz) {
    *mhz = type == 1 ? 1980 : type == 2 ? 2619 : 1;
    return handle != &gpu_here;
}
static int nvml_reasons(void *handle, unsigned long long *reasons) {
    *reasons = gpu_here.slowed;
    return handle != &gpu_here;
}
static int nvml_persistence(void *handle, int *mode) {
    *mode = gpu_here.persistence;
    return handle != &gpu_here;
}
static int nvml_mig(void *handle, unsigned *current, unsigned *pending) {
    *current = *pending = (unsigned)gpu_here.mig;
    return handle != &gpu_here;
}
static int nvml_errors(void *handle, int type, int counter, unsigned long long *count) {
    *count = gpu_here.errors;
    return handle != &gpu_here || type != 1 || counter != 0;
}
static int count_cards(void) {
    return gpu_here.cards;
}
static bool module_version(char *version, size_t bytes) {
    if (gpu_here.module)
        snprintf(version, bytes, "%s", gpu_here.module);
    return gpu_here.module != NULL;
}
static int check_node(const char *path) {
    if (gpu_here.refused && strcmp(path, gpu_here.refused) == 0)
        return gpu_here.refusal;
    return gpu_here.nodes ? 0 : ENOENT;
}
static const char *environment(const char *name) {
    return strcmp(name, "CUDA_VISIBLE_DEVICES") == 0 ? gpu_here.visible : NULL;
}

static const int compiled[] = {75, 80, 86, 90, 0};

mr_gpu_access gpu_healthy(void) {
    gpu_here = (struct gpu_machine){.cuda = 13000,
                                    .count = 2,
                                    .capability = 90,
                                    .cards = 2,
                                    .persistence = 1,
                                    .module = "580.65.06",
                                    .nodes = true};
    return (mr_gpu_access){
        .has_driver = true,
        .cuInit = cu_init,
        .cuDriverGetVersion = cu_version,
        .cuDeviceGetCount = cu_count,
        .cuDeviceGet = cu_device,
        .cuDeviceGetName = cu_name,
        .cuDeviceGetUuid = cu_uuid,
        .cuDeviceTotalMem = cu_memory,
        .cuDeviceGetAttribute = cu_attribute,
        .cuDeviceCanAccessPeer = cu_peer,
        .cuDevicePrimaryCtxRetain = cu_retain,
        .cuDevicePrimaryCtxRelease = cu_release,
        .cuCtxPushCurrent = cu_push,
        .cuCtxPopCurrent = cu_pop,
        .cuGetErrorName = cu_error_name,
        .cuvidGetDecoderCaps = decoder_caps,
        .nvmlInit = nvml_init,
        .nvmlShutdown = nvml_shutdown,
        .nvmlSystemGetDriverVersion = nvml_version,
        .nvmlDeviceGetCount = nvml_count,
        .nvmlDeviceGetHandleByIndex = nvml_by_index,
        .nvmlDeviceGetHandleByUUID = nvml_by_uuid,
        .nvmlDeviceGetMemoryInfo = nvml_memory,
        .nvmlDeviceGetUtilizationRates = nvml_utilization,
        .nvmlDeviceGetTemperature = nvml_temperature,
        .nvmlDeviceGetClockInfo = nvml_clock,
        .nvmlDeviceGetCurrentClocksEventReasons = nvml_reasons,
        .nvmlDeviceGetPersistenceMode = nvml_persistence,
        .nvmlDeviceGetMigMode = nvml_mig,
        .nvmlDeviceGetTotalEccErrors = nvml_errors,
        .count_cards = count_cards,
        .module_version = module_version,
        .check_node = check_node,
        .environment = environment,
        .runtime = 13000,
        .architectures = compiled,
    };
}

mr_gpu_access gpu_without_driver(void) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.module = NULL;
    gpu_here.nodes = false;
    return (mr_gpu_access){.count_cards = access.count_cards,
                           .module_version = access.module_version,
                           .check_node = access.check_node,
                           .environment = access.environment,
                           .runtime = access.runtime,
                           .architectures = access.architectures};
}

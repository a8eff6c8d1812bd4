/* This machine's call table: the functions that the driver's libraries export, and those that inspect the system.
 * Nothing is linked: each library is opened if it is there. */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/device/probe/gpu.h"

#ifndef MR_CUDA_RUNTIME
#define MR_CUDA_RUNTIME 0
#define MR_CUDA_ARCHITECTURES
#endif

static const int architectures[] = {MR_CUDA_ARCHITECTURES 0};

const int *mr_gpu_architectures(void) {
    return architectures;
}

/* ---- the system ------------------------------------------------------------------------------------------------ */

static unsigned long read_hex(const char *folder, const char *name) {
    char text[32];
    mr_file_head(text, sizeof text, "/sys/bus/pci/devices/%s/%s", folder, name);
    return strtoul(text, NULL, 16);
}

/* PCI: vendor 10de is NVIDIA; class 03 is a display controller (0300 VGA, 0302 3D). */
static int count_cards(void) {
    int count = 0;
    DIR *folder = opendir("/sys/bus/pci/devices");
    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && read_hex(entry->d_name, "vendor") == 0x10de &&
            read_hex(entry->d_name, "class") >> 16 == 3)
            count++;
    closedir(folder);
    return count;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...": the first word that begins like a
 * version. */
static bool module_version(char *version, size_t bytes) {
    char line[256];
    if (!mr_file_head(line, sizeof line, "/proc/driver/nvidia/version") || !*line)
        return false;
    char *rest = line;
    for (char *word; (word = strsep(&rest, " \t\n"));)
        if (isdigit((unsigned char)*word) && strchr(word, '.')) {
            snprintf(version, bytes, "%s", word);
            return true;
        }
    snprintf(version, bytes, "of unknown version");
    return true;
}

static int check_node(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return errno;
    close(file);
    return 0;
}

static const char *environment(const char *name) {
    return getenv(name);
}

/* ---- the libraries --------------------------------------------------------------------------------------------- */

/* A slot and the names under which it is exported, the newest first that means the same. */
typedef struct slot {
    size_t offset;
    const char *names[3];
} slot;

#define SLOT(field, ...)                                                                                             \
    {                                                                                                                \
        offsetof(mr_gpu_access, field), {                                                                            \
            __VA_ARGS__                                                                                              \
        }                                                                                                            \
    }

static const slot driver_slots[] = {
    SLOT(cuInit, "cuInit"),
    SLOT(cuDriverGetVersion, "cuDriverGetVersion"),
    SLOT(cuDeviceGetCount, "cuDeviceGetCount"),
    SLOT(cuDeviceGet, "cuDeviceGet"),
    SLOT(cuDeviceGetName, "cuDeviceGetName"),
    SLOT(cuDeviceGetUuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid"),
    SLOT(cuDeviceTotalMem, "cuDeviceTotalMem_v2"),
    SLOT(cuDeviceGetAttribute, "cuDeviceGetAttribute"),
    SLOT(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer"),
    SLOT(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"),
    SLOT(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"),
    SLOT(cuCtxPushCurrent, "cuCtxPushCurrent_v2"),
    SLOT(cuCtxPopCurrent, "cuCtxPopCurrent_v2"),
    SLOT(cuGetErrorName, "cuGetErrorName"),
    {0},
};
static const slot decoder_slots[] = {SLOT(cuvidGetDecoderCaps, "cuvidGetDecoderCaps"), {0}};
static const slot management_slots[] = {
    SLOT(nvmlInit, "nvmlInit_v2", "nvmlInit"),
    SLOT(nvmlShutdown, "nvmlShutdown"),
    SLOT(nvmlSystemGetDriverVersion, "nvmlSystemGetDriverVersion"),
    SLOT(nvmlDeviceGetCount, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
    SLOT(nvmlDeviceGetHandleByIndex, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
    SLOT(nvmlDeviceGetHandleByUUID, "nvmlDeviceGetHandleByUUID"),
    SLOT(nvmlDeviceGetMemoryInfo, "nvmlDeviceGetMemoryInfo"),
    SLOT(nvmlDeviceGetUtilizationRates, "nvmlDeviceGetUtilizationRates"),
    SLOT(nvmlDeviceGetTemperature, "nvmlDeviceGetTemperature"),
    SLOT(nvmlDeviceGetClockInfo, "nvmlDeviceGetClockInfo"),
    SLOT(nvmlDeviceGetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons",
         "nvmlDeviceGetCurrentClocksThrottleReasons"),
    SLOT(nvmlDeviceGetPersistenceMode, "nvmlDeviceGetPersistenceMode"),
    SLOT(nvmlDeviceGetMigMode, "nvmlDeviceGetMigMode"),
    SLOT(nvmlDeviceGetTotalEccErrors, "nvmlDeviceGetTotalEccErrors"),
    {0},
};

static void *open_library(mr_gpu_access *access, const char *file, const slot *slots) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (const slot *one = slots; library && one->names[0]; one++) {
        void *found = NULL;
        for (int i = 0; i < 3 && one->names[i] && !found; i++)
            found = dlsym(library, one->names[i]);
        memcpy((char *)access + one->offset, &found, sizeof found);
    }
    return library;
}

void mr_gpu_access_open(mr_gpu_access *access) {
    *access = (mr_gpu_access){
        .count_cards = count_cards,
        .module_version = module_version,
        .check_node = check_node,
        .environment = environment,
        .runtime = MR_CUDA_RUNTIME,
        .architectures = architectures,
    };
    access->libraries[0] = open_library(access, "libcuda.so.1", driver_slots);
    access->libraries[1] = open_library(access, "libnvcuvid.so.1", decoder_slots);
    access->libraries[2] = open_library(access, "libnvidia-ml.so.1", management_slots);
    access->has_driver = access->libraries[0] && access->cuInit && access->cuDriverGetVersion &&
                         access->cuDeviceGetCount && access->cuDeviceGet && access->cuDeviceGetAttribute;
}

/* The driver's own library stays: the runtime uses it as well, and it has no way to be left. */
void mr_gpu_access_close(mr_gpu_access *access) {
    for (int i = 1; i < 3; i++)
        if (access->libraries[i])
            dlclose(access->libraries[i]);
    *access = (mr_gpu_access){0};
}

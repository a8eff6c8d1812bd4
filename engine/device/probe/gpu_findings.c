/* Problems that prevent GPU use, in words, each with its remedy. Finding codes, for scripts:
 *
 * about all   no-gpu, no-driver, no-driver-library, driver-mismatch, driver-old, no-permission, hidden, no-device,
 *             not-ready, mig, driver-error, no-cuda
 * about one   wrong-architecture, prohibited, exclusive, memory-errors, mig, persistence, slowed */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/device/probe/gpu.h"

/* CUresult */
enum {
    NO_DEVICE = 100,
    OPERATING_SYSTEM = 304,
    NOT_PERMITTED = 800,
    NOT_READY = 802,
    MISMATCH = 803,
    NO_COMPAT = 804
};
enum { COMPUTE_PROHIBITED = 2, COMPUTE_EXCLUSIVE = 3 };

static const char container[] =
    "in a container, start it with --gpus all (docker, podman; needs the NVIDIA Container Toolkit)";

/* Adds one, printf style; beyond MR_GPU_FINDINGS nothing is added. */
static mr_gpu_finding *add_finding(mr_gpu_finding *findings, int *count, const char *code, bool fatal, const char *what,
                                   ...) __attribute__((format(printf, 5, 6)));
static mr_gpu_finding *add_finding(mr_gpu_finding *findings, int *count, const char *code, bool fatal, const char *what,
                                   ...) {
    static mr_gpu_finding beyond;
    mr_gpu_finding *added = *count < MR_GPU_FINDINGS ? &findings[(*count)++] : &beyond;
    va_list arguments;
    *added = (mr_gpu_finding){.code = code, .fatal = fatal};
    va_start(arguments, what);
    vsnprintf(added->what, sizeof added->what, what, arguments);
    va_end(arguments);
    return added;
}

#define ALL(code, fatal, ...) add_finding(found->findings, &found->finding_count, code, fatal, __VA_ARGS__)
#define ONE(code, fatal, ...) add_finding(gpu->findings, &gpu->finding_count, code, fatal, __VA_ARGS__)
#define MEND(finding, ...)    snprintf((finding)->mend, sizeof(finding)->mend, __VA_ARGS__)

/* ---- versions -------------------------------------------------------------------------------------------------- */

/* A driver runs code made with its major CUDA version or an older one, whatever the minor versions (CUDA Compatibility,
 * "Minor Version Compatibility"). */
bool mr_gpu_driver_suffices(int driver_cuda, int runtime) {
    return driver_cuda / 1000 >= runtime / 1000;
}

/* The first driver of each major version, from the same document; later ones are not known here. */
static const char *first_driver(int runtime) {
    switch (runtime / 1000) {
    case 11:
        return "450.80.02";
    case 12:
        return "525.60.13";
    case 13:
        return "580.65.06";
    default:
        return NULL;
    }
}

static void diagnose_version(mr_gpus *found) {
    int driver = found->driver_cuda, runtime = found->runtime;
    if (!driver || mr_gpu_driver_suffices(driver, runtime))
        return;
    mr_gpu_finding *added = ALL(
        "driver-old", true, "the driver%s%s runs programs of CUDA up to %d.%d; this build is made with CUDA %d.%d",
        *found->driver ? " " : "", found->driver, driver / 1000, driver % 1000 / 10, runtime / 1000,
        runtime % 1000 / 10);
    const char *first = first_driver(runtime);
    if (first)
        MEND(added, "install driver %s or newer, or build millrace with a toolkit of CUDA %d", first, driver / 1000);
    else
        MEND(added, "install a driver for CUDA %d, or build millrace with a toolkit of CUDA %d", runtime / 1000,
             driver / 1000);
}

/* ---- no driver, no device -------------------------------------------------------------------------------------- */

/* The first device file that exists but cannot be used: 0 or its errno. */
static int refused_node(const mr_gpu_access *access, const char **path) {
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"};
    for (int i = 0; i < 3; i++) {
        int error = access->check_node(*path = nodes[i]);
        if (error && error != ENOENT && error != ENODEV && error != ENXIO)
            return error;
    }
    return 0;
}

static void diagnose_no_driver(const mr_gpu_access *access, mr_gpus *found) {
    char version[80];
    const char *first = first_driver(found->runtime);
    if (access->module_version(version, sizeof version)) {
        MEND(ALL("no-driver-library", true,
                 "the NVIDIA driver %s runs in the kernel, but its library libcuda.so.1 cannot be opened here",
                 version),
             "%s; elsewhere install the driver's libraries of version %s", container, version);
    } else if (found->cards > 0) {
        MEND(ALL("no-driver", true, "no NVIDIA driver: %d NVIDIA card%s on the PCI bus, and no driver is loaded",
                 found->cards, found->cards == 1 ? " is" : "s are"),
             "install NVIDIA's driver%s%s and load it (modprobe nvidia); %s", first ? " " : "", first ? first : "",
             container);
    } else {
        MEND(ALL("no-gpu", true, "no NVIDIA driver, and no NVIDIA card on the PCI bus"),
             "use cpu or sim:N; if there is a GPU, install its driver; %s", container);
    }
}

/* MIG is on and has no instance that could be used: the driver shows nothing, NVML shows the card. */
static int count_split(const mr_gpu_access *access) {
    unsigned count = 0, current, pending;
    int split = 0;
    void *handle;
    if (!access->nvmlDeviceGetCount || !access->nvmlDeviceGetHandleByIndex || !access->nvmlDeviceGetMigMode ||
        access->nvmlDeviceGetCount(&count))
        return 0;
    for (unsigned i = 0; i < count && i < MR_GPU_MOST; i++)
        if (!access->nvmlDeviceGetHandleByIndex(i, &handle) &&
            !access->nvmlDeviceGetMigMode(handle, &current, &pending) && current == 1)
            split++;
    return split;
}

static void diagnose_no_device(const mr_gpu_access *access, mr_gpus *found) {
    const char *visible = access->environment("CUDA_VISIBLE_DEVICES"), *path;
    int error = refused_node(access, &path);
    if (error)
        MEND(ALL("no-permission", true, "no permission on %s: %s", path, strerror(error)),
             "add the user to the group of that file (ls -l %s); %s", path, container);
    else if (visible)
        MEND(ALL("hidden", true, "CUDA_VISIBLE_DEVICES=\"%s\" hides every GPU from this process", visible),
             "unset CUDA_VISIBLE_DEVICES, or name GPUs that nvidia-smi -L lists");
    else if (access->check_node("/dev/nvidia0"))
        MEND(ALL("no-device", true, "the driver is loaded, but there is no /dev/nvidia0: this process has no access to "
                                    "a GPU"),
             "%s; "
             "elsewhere run nvidia-modprobe -c 0 -u as root",
             container);
    else if (count_split(access) > 0)
        MEND(ALL("mig", true, "MIG is on, but no MIG instance can be used for computing"),
             "make one (nvidia-smi mig -cgi 0 -C), or turn MIG off (nvidia-smi -mig 0)");
    else
        MEND(ALL("no-device", true, "the driver shows no GPU"), "run nvidia-smi, and dmesg | grep -i nvrm");
}

static void diagnose_error(const mr_gpu_access *access, mr_gpus *found, int error) {
    const char *name = NULL, *path;
    int refused = refused_node(access, &path);
    if (access->cuGetErrorName && access->cuGetErrorName(error, &name))
        name = NULL;
    if (error == NO_DEVICE) {
        diagnose_no_device(access, found);
    } else if (refused && (error == OPERATING_SYSTEM || error == NOT_PERMITTED || error > NO_COMPAT)) {
        diagnose_no_device(access, found);
    } else if (error == MISMATCH || error == NO_COMPAT) {
        char version[80] = "unknown";
        access->module_version(version, sizeof version);
        MEND(ALL("driver-mismatch", true,
                 "the driver in the kernel (%s) and its library libcuda.so.1 are of different versions", version),
             "restart the machine if the driver was updated; take cuda-compat out of LD_LIBRARY_PATH if it is there; "
             "%s",
             container);
    } else if (error == NOT_READY) {
        MEND(ALL("not-ready", true, "the GPUs are not ready: their fabric has not been set up"),
             "start nvidia-fabricmanager of the driver's version (systemctl start nvidia-fabricmanager)");
    } else {
        MEND(ALL("driver-error", true, "the driver cannot be started: %s (%d)", name ? name : "error", error),
             "run nvidia-smi, and dmesg | grep -i nvrm; restart the machine if the driver was updated");
    }
}

void mr_gpus_diagnose(const mr_gpu_access *access, mr_gpus *found, int error) {
    if (!access->has_driver)
        diagnose_no_driver(access, found);
    else if (error)
        diagnose_error(access, found, error);
    else if (found->count == 0)
        diagnose_no_device(access, found);
    if (found->runtime)
        diagnose_version(found);
    else if (access->has_driver || found->cards > 0)
        MEND(ALL("no-cuda", true, "this build of millrace has no CUDA"),
             "configure it with -DMILLRACE_CUDA=ON, or make packages with `tools/package --cuda`, on a machine with a "
             "CUDA toolkit");
}

/* ---- one GPU --------------------------------------------------------------------------------------------------- */

/* Code for an architecture runs on those of the same major version with the same or a higher minor version;
 * intermediate code, kept for the last one, runs on all later ones (CUDA C++ Programming Guide, "Application
 * Compatibility"). */
bool mr_gpu_has_code(const int *architectures, int capability) {
    for (const int *one = architectures; *one; one++)
        if ((*one / 10 == capability / 10 && *one <= capability) || (!one[1] && *one <= capability))
            return true;
    return false;
}

const char *mr_gpu_print_architectures(const int *architectures, char *text, size_t bytes) {
    size_t length = 0;
    text[0] = 0;
    for (const int *one = architectures; *one && length + 8 < bytes; one++)
        length += (size_t)snprintf(text + length, bytes - length, "%s%d.%d", length ? ", " : "", *one / 10, *one % 10);
    return text;
}

static void diagnose_architecture(const mr_gpu_access *access, mr_gpu *gpu) {
    char list[128];
    int capability = 10 * gpu->major + gpu->minor;
    if (!access->runtime || !capability || mr_gpu_has_code(access->architectures, capability))
        return;
    MEND(ONE("wrong-architecture", true,
             "its compute capability is %d.%d, and this build has kernels for %s (and, through the last one, later "
             "ones)",
             gpu->major, gpu->minor, mr_gpu_print_architectures(access->architectures, list, sizeof list)),
         "configure the build with -DMILLRACE_CUDA_ARCHITECTURES=%d, with a CUDA toolkit that still supports it",
         capability);
}

static void diagnose_mode(mr_gpu *gpu, int mode) {
    if (mode == COMPUTE_PROHIBITED)
        MEND(ONE("prohibited", true, "its compute mode is \"prohibited\": nothing may compute on it"),
             "nvidia-smi -i %s -c DEFAULT, as root", gpu->uuid);
    else if (mode == COMPUTE_EXCLUSIVE)
        MEND(ONE("exclusive", false,
                 "its compute mode is \"exclusive process\": it can be used only while no other process "
                 "does"),
             "nvidia-smi -i %s -c DEFAULT, as root, if several processes are to use it", gpu->uuid);
}

void mr_gpu_diagnose(const mr_gpu_access *access, mr_gpu *gpu, int mode, unsigned long long errors) {
    diagnose_architecture(access, gpu);
    diagnose_mode(gpu, mode);
    if (errors > 0)
        MEND(ONE("memory-errors", false,
                 "%llu uncorrected memory error%s since it was reset: results cannot be relied on", errors,
                 errors == 1 ? "" : "s"),
             "nvidia-smi -i %s -r, as root and with nothing running on it; replace the card if the errors recur",
             gpu->uuid);
    if (gpu->mig == 1)
        MEND(ONE("mig", false, "MIG is on: a process sees one instance of it, with that instance's share"),
             "name the instance in CUDA_VISIBLE_DEVICES (nvidia-smi -L), or turn MIG off: nvidia-smi -i %s -mig 0",
             gpu->uuid);
    if (gpu->persistence == 0)
        MEND(
            ONE("persistence", false, "persistence mode is off: each first use waits until the driver has set it up"),
            "nvidia-smi -i %s -pm 1, as root, or run nvidia-persistenced", gpu->uuid);
    if (mr_gpu_slowed_by(gpu->slowed, 0)) {
        char list[128] = "";
        for (int i = 0; mr_gpu_slowed_by(gpu->slowed, i); i++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                     mr_gpu_slowed_by(gpu->slowed, i));
        MEND(ONE("slowed", false, "its clocks are throttled: %s", list),
             "see nvidia-smi -i %s -q -d PERFORMANCE,TEMPERATURE,POWER", gpu->uuid);
    }
}

/* nvmlClocksEventReasons, except those that need no action: idle, and clocks that a user has set. */
const char *mr_gpu_slowed_by(uint64_t slowed, int i) {
    static const struct {
        uint64_t bit;
        const char *words;
    } reasons[] = {
        {0x04, "power limit"},     {0x08, "hardware slowdown"},    {0x20, "heat (software)"},
        {0x40, "heat (hardware)"}, {0x80, "external power brake"},
    };
    for (size_t r = 0; r < sizeof reasons / sizeof reasons[0]; r++)
        if (slowed & reasons[r].bit && i-- == 0)
            return reasons[r].words;
    return NULL;
}

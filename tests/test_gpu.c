/* Probing of GPUs against drivers that are not there: each situation is a table of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "millrace/status.h"

/* ---- a machine of our own -------------------------------------------------------------------------------------- */

static struct machine {
    int init_error, cuda, count, capability, mode, cards, mig, persistence;
    unsigned long long errors, slowed;
    const char *module, *visible, *refused;
    int refusal;
    bool nodes;
} here;

static int cu_init(unsigned flags) {
    (void)flags;
    return here.init_error;
}
static int cu_version(int *version) {
    *version = here.cuda;
    return 0;
}
static int cu_count(int *count) {
    *count = here.count;
    return 0;
}
/* Handles that are not the ordinals, so that one is not taken for the other. */
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
    (void)device;
    *bytes = UINT64_C(80) << 30;
    return 0;
}
static int cu_attribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 16:
        *value = 132;
        return 0;
    case 20:
        *value = here.mode;
        return 0;
    case 40:
        *value = 3;
        return 0;
    case 75:
        *value = here.capability / 10;
        return 0;
    case 76:
        *value = here.capability % 10;
        return 0;
    default:
        return 1;
    }
}
/* 0 reaches 1, and nothing else reaches anything. */
static int cu_peer(int *can, int device, int peer) {
    *can = device == 10 && peer == 11;
    return 0;
}
static int contexts;
static int cu_retain(void **context, int device) {
    (void)device;
    *context = &contexts;
    contexts++;
    return 0;
}
static int cu_release(int device) {
    (void)device;
    contexts--;
    return 0;
}
static int cu_push(void *context) {
    return context != &contexts;
}
static int cu_pop(void **context) {
    *context = &contexts;
    return 0;
}
static int cu_error_name(int error, const char **name) {
    *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return 0;
}
/* H.264 at 8 bits, HEVC at 8 and 10. */
static int decoder_caps(mr_nvdec_caps *caps) {
    caps->supported = caps->codec == 8 || (caps->codec == 4 && caps->depth_minus_8 == 0);
    caps->max_width = 8192;
    caps->max_height = 4320;
    return caps->chroma == 1 ? 0 : 1;
}
static int sessions;
static int nvml_init(void) {
    sessions++;
    return 0;
}
static int nvml_shutdown(void) {
    sessions--;
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
    (void)index;
    *handle = &here;
    return 0;
}
static int nvml_by_uuid(const char *uuid, void **handle) {
    *handle = &here;
    return strncmp(uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae0", 39) != 0;
}
static int nvml_memory(void *handle, mr_nvml_memory *memory) {
    memory->free = UINT64_C(79) << 30;
    return handle != &here;
}
static int nvml_utilization(void *handle, mr_nvml_utilization *utilization) {
    *utilization = (mr_nvml_utilization){37, 12};
    return handle != &here;
}
static int nvml_temperature(void *handle, int sensor, unsigned *celsius) {
    *celsius = 54;
    return handle != &here || sensor != 0;
}
static int nvml_reasons(void *handle, unsigned long long *reasons) {
    *reasons = here.slowed;
    return handle != &here;
}
static int nvml_persistence(void *handle, int *mode) {
    *mode = here.persistence;
    return handle != &here;
}
static int nvml_mig(void *handle, unsigned *current, unsigned *pending) {
    *current = *pending = (unsigned)here.mig;
    return handle != &here;
}
static int nvml_errors(void *handle, int type, int counter, unsigned long long *count) {
    *count = here.errors;
    return handle != &here || type != 1 || counter != 0;
}
static int count_cards(void) {
    return here.cards;
}
static bool module_version(char *version, size_t bytes) {
    if (here.module)
        snprintf(version, bytes, "%s", here.module);
    return here.module != NULL;
}
static int check_node(const char *path) {
    if (here.refused && strcmp(path, here.refused) == 0)
        return here.refusal;
    return here.nodes ? 0 : ENOENT;
}
static const char *environment(const char *name) {
    return strcmp(name, "CUDA_VISIBLE_DEVICES") == 0 ? here.visible : NULL;
}

static const int compiled[] = {75, 80, 86, 90, 0};

static mr_gpu_access healthy(void) {
    here = (struct machine){.cuda = 13000,
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

/* A machine whose driver cannot be opened. */
static mr_gpu_access without_driver(void) {
    mr_gpu_access access = healthy();
    here.module = NULL;
    here.nodes = false;
    return (mr_gpu_access){.count_cards = access.count_cards,
                           .module_version = access.module_version,
                           .check_node = access.check_node,
                           .environment = access.environment,
                           .runtime = access.runtime,
                           .architectures = access.architectures};
}

static const mr_gpu_finding *find(const mr_gpu_finding *findings, int count, const char *code) {
    for (int i = 0; i < count; i++)
        if (strcmp(findings[i].code, code) == 0)
            return &findings[i];
    return NULL;
}

/* The machine's only finding is this one, which is fatal and says both. */
static void expect(const mr_gpu_access *access, const char *code, const char *what, const char *mend) {
    mr_gpus found;
    assert_int_equal(mr_gpus_probe(access, &found), MR_OK);
    assert_int_equal(found.finding_count, 1);
    assert_string_equal(found.findings[0].code, code);
    assert_true(found.findings[0].fatal);
    if (!strstr(found.findings[0].what, what) || !strstr(found.findings[0].mend, mend))
        fail_msg("\"%s\"\n\"%s\"", found.findings[0].what, found.findings[0].mend);
    for (int i = 0; i < found.count; i++)
        assert_false(mr_gpu_usable(&found, &found.gpu[i]));
    assert_int_equal(sessions, 0);
    assert_int_equal(contexts, 0);
    mr_gpus_fini(&found);
}

/* The first GPU's finding of that code; the GPU can be used where it is not fatal. */
static void expect_of_gpu(const mr_gpu_access *access, const char *code, bool fatal, const char *what,
                          const char *mend) {
    mr_gpus found;
    assert_int_equal(mr_gpus_probe(access, &found), MR_OK);
    assert_int_equal(found.finding_count, 0);
    const mr_gpu *gpu = &found.gpu[0];
    const mr_gpu_finding *finding = find(gpu->findings, gpu->finding_count, code);
    assert_non_null(finding);
    assert_int_equal(gpu->finding_count, 1);
    if (!strstr(finding->what, what) || !strstr(finding->mend, mend))
        fail_msg("\"%s\"\n\"%s\"", finding->what, finding->mend);
    assert_int_equal(finding->fatal, fatal);
    assert_int_equal(mr_gpu_usable(&found, gpu), !fatal);
    /* Where it may not be used, no context is made on it to ask its decoder. */
    assert_int_equal(gpu->codec_count, fatal ? 0 : 2);
    mr_gpus_fini(&found);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static void test_all_is_read(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    mr_gpus found;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.finding_count, 0);
    assert_string_equal(found.driver, "580.65.06");
    assert_int_equal(found.driver_cuda, 13000);
    assert_int_equal(found.count, 2);
    const mr_gpu *gpu = &found.gpu[1];
    assert_true(mr_gpu_usable(&found, gpu));
    assert_string_equal(gpu->name, "Test GPU 1");
    assert_string_equal(gpu->uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01");
    assert_true(mr_gpu_is_uuid(gpu->uuid));
    assert_true(gpu->memory_bytes == UINT64_C(80) << 30 && gpu->free_bytes == UINT64_C(79) << 30);
    assert_int_equal(10 * gpu->major + gpu->minor, 90);
    assert_int_equal(gpu->multiprocessors, 132);
    assert_int_equal(gpu->copy_engines, 3);
    assert_true(found.gpu[0].peers == 2 && gpu->peers == 0);
    assert_int_equal(gpu->utilisation, 37);
    assert_int_equal(gpu->memory_utilisation, 12);
    assert_int_equal(gpu->celsius, 54);
    assert_int_equal(gpu->codec_count, 2);
    assert_string_equal(gpu->codecs[0].name, "h264");
    assert_false(gpu->codecs[0].ten_bits);
    assert_string_equal(gpu->codecs[1].name, "hevc");
    assert_true(gpu->codecs[1].ten_bits);
    assert_int_equal(gpu->codecs[1].max_width, 8192);
    assert_int_equal(sessions, 0);
    assert_int_equal(contexts, 0);
    mr_gpus_fini(&found);
}

/* What the driver's libraries do not tell stays unknown, and nothing else is missing. */
static void test_without_management(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    access.nvmlInit = NULL;
    access.cuvidGetDecoderCaps = NULL;
    access.cuDeviceGetUuid = NULL;
    mr_gpus found;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.finding_count, 0);
    assert_string_equal(found.driver, "580.65.06"); /* of the module */
    const mr_gpu *gpu = &found.gpu[0];
    assert_true(mr_gpu_usable(&found, gpu));
    assert_int_equal(gpu->finding_count, 0);
    assert_true(gpu->free_bytes == 0 && gpu->utilisation == -1 && gpu->celsius == -1 && gpu->persistence == -1);
    assert_int_equal(gpu->codec_count, 0);
    assert_string_equal(gpu->uuid, "");
    mr_gpus_fini(&found);
}

static void test_no_driver(void **state) {
    (void)state;
    mr_gpu_access access = without_driver();
    here.cards = 0;
    expect(&access, "no-gpu", "no NVIDIA driver, and no NVIDIA card on the PCI bus", "use cpu or sim:N");
    here.cards = 1;
    expect(&access, "no-driver", "1 NVIDIA card is on the PCI bus, and no driver is loaded", "driver 580.65.06");
    here.cards = 2;
    expect(&access, "no-driver", "2 NVIDIA cards are", "--gpus all");
    here.module = "535.104.05";
    expect(&access, "no-driver-library", "driver 535.104.05 runs in the kernel, but its library libcuda.so.1",
           "--gpus all");
}

static void test_driver_older_than_the_runtime(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    access.nvmlInit = NULL;
    here.module = "535.104.05";
    here.cuda = 12020;
    expect(&access, "driver-old",
           "the driver 535.104.05 runs programs of CUDA up to 12.2; this build is made with CUDA 13.0",
           "install driver 580.65.06 or newer, or build millrace with a toolkit of CUDA 12");
    access.runtime = 99010;
    expect(&access, "driver-old", "CUDA 99.1", "install a driver for CUDA 99,");
    /* A newer minor version of the same major one is no hindrance. */
    assert_true(mr_gpu_driver_suffices(13000, 13020));
    assert_true(mr_gpu_driver_suffices(13000, 12080));
    assert_false(mr_gpu_driver_suffices(12090, 13000));
}

static void test_no_permission(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    here.init_error = 100;
    here.refused = "/dev/nvidiactl";
    here.refusal = EACCES;
    expect(&access, "no-permission", "no permission on /dev/nvidiactl: Permission denied", "--gpus all");
    here.init_error = 999;
    here.refused = "/dev/nvidia-uvm";
    here.refusal = EPERM;
    expect(&access, "no-permission", "/dev/nvidia-uvm: Operation not permitted", "ls -l /dev/nvidia-uvm");
}

static void test_no_device(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    here.init_error = 100;
    here.nodes = false;
    expect(&access, "no-device", "no /dev/nvidia0", "--gpus all");
    here.nodes = true;
    here.visible = "7";
    expect(&access, "hidden", "CUDA_VISIBLE_DEVICES=\"7\" hides every GPU", "unset CUDA_VISIBLE_DEVICES");
    here.visible = NULL;
    expect(&access, "no-device", "the driver shows no GPU", "nvidia-smi");
    here.init_error = 0;
    here.count = 0;
    here.mig = 1;
    expect(&access, "mig", "MIG is on", "nvidia-smi mig -cgi");
}

static void test_driver_that_does_not_start(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    here.init_error = 803;
    expect(&access, "driver-mismatch", "in the kernel (580.65.06) and its library", "restart");
    here.init_error = 802;
    expect(&access, "not-ready", "fabric", "nvidia-fabricmanager");
    here.init_error = 999;
    expect(&access, "driver-error", "CUDA_ERROR_UNKNOWN (999)", "nvidia-smi");
}

static void test_architecture(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    here.capability = 70;
    expect_of_gpu(&access, "wrong-architecture", true,
                  "compute capability is 7.0, and this build has kernels for 7.5, 8.0, 8.6, "
                  "9.0",
                  "-DMILLRACE_CUDA_ARCHITECTURES=70");
    /* Same major and higher minor (8.9 by 8.6), and all after the last by its intermediate code; 8.0's code is 8.6's
     * too. */
    static const int runs[] = {75, 80, 86, 89, 90, 100, 120};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        here.capability = runs[i];
        mr_gpus found;
        assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
        assert_int_equal(found.gpu[0].finding_count, 0);
        mr_gpus_fini(&found);
    }
}

static void test_modes_and_errors(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    here.mode = 2;
    expect_of_gpu(&access, "prohibited", true, "prohibited", "-c DEFAULT");
    here.mode = 3;
    expect_of_gpu(&access, "exclusive", false, "exclusive process", "-c DEFAULT");
    here.mode = 0;
    here.errors = 3;
    expect_of_gpu(&access, "memory-errors", false, "3 uncorrected memory errors", "nvidia-smi -i GPU-a0a1a2a3");
    here.errors = 0;
    here.mig = 1;
    expect_of_gpu(&access, "mig", false, "MIG is on", "-mig 0");
    here.mig = 0;
    here.persistence = 0;
    expect_of_gpu(&access, "persistence", false, "persistence mode is off", "-pm 1");
    here.persistence = 1;
    here.slowed = 0x1 | 0x4 | 0x40;
    expect_of_gpu(&access, "slowed", false, "power limit, heat (hardware)", "nvidia-smi");
    here.slowed = 0x1; /* idle */
    mr_gpus found;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.gpu[0].finding_count, 0);
    mr_gpus_fini(&found);
}

static void test_build_without_cuda(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    access.runtime = 0;
    expect(&access, "no-cuda", "this build of millrace has no CUDA", "-DMILLRACE_CUDA=ON");
    access = without_driver();
    access.runtime = 0;
    here.cards = 0;
    expect(&access, "no-gpu", "no NVIDIA driver", "sim:N");
}

static void test_uuids(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    int index = -1;
    assert_int_equal(mr_gpu_index_of(&access, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-AAABACADAE01", &index), MR_OK);
    assert_int_equal(index, 1);
    assert_int_equal(mr_gpu_index_of(&access, "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00", &index), MR_OK);
    assert_int_equal(index, 0);
    assert_int_equal(mr_gpu_index_of(&access, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae02", &index),
                     MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "none of the 2 GPUs"));
    access.has_driver = false;
    assert_int_equal(mr_gpu_index_of(&access, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01", &index),
                     MR_ERROR_UNAVAILABLE);
    static const char *const wrong[] = {"",
                                        "GPU-",
                                        "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae0",
                                        "gpu-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01",
                                        "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01x",
                                        "GPU-a0a1a2a3a4a5-a6a7-a8a9-aaabacadae01",
                                        "GPU-a0a1a2g3-a4a5-a6a7-a8a9-aaabacadae01"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(mr_gpu_is_uuid(wrong[i]));
    assert_int_equal(mr_device_check_name("cuda:GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01"), MR_OK);
    assert_int_equal(mr_device_check_name("cuda:GPU-a0a1a2a3"), MR_ERROR_CONFIG);
    assert_int_equal(mr_device_check_name("sim:GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01"), MR_ERROR_CONFIG);
}

static int nvml_by_instance(const char *uuid, void **handle) {
    *handle = &here;
    return strncmp(uuid, "MIG-", 4) != 0;
}

/* An instance has a UUID of its own kind, by which NVML knows it. */
static void test_instances(void **state) {
    (void)state;
    mr_gpu_access access = healthy();
    mr_gpus found;
    access.nvmlDeviceGetHandleByUUID = nvml_by_instance;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.gpu[1].uuid, "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01");
    assert_true(mr_gpu_is_uuid(found.gpu[1].uuid));
    assert_int_equal(found.gpu[1].free_bytes, UINT64_C(79) << 30);
    assert_int_equal(mr_device_check_name("cuda:MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01"), MR_OK);
    mr_gpus_fini(&found);
}

/* Whatever this machine is: the real libraries, where there are any. */
static void test_this_machine(void **state) {
    (void)state;
    mr_gpu_access access;
    mr_gpus found;
    mr_gpu_access_open(&access);
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    if (found.count == 0) {
        assert_true(found.finding_count > 0 && found.findings[0].fatal);
        assert_true(*found.findings[0].what && *found.findings[0].mend);
        print_message("%s\n", found.findings[0].what);
    }
    for (int i = 0; i < found.count; i++) {
        int index = -1;
        assert_int_equal(mr_gpu_index_of(&access, found.gpu[i].uuid, &index), MR_OK);
        assert_int_equal(index, i);
    }
    mr_gpus_fini(&found);
    mr_gpu_access_close(&access);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_read),
        cmocka_unit_test(test_without_management),
        cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_driver_older_than_the_runtime),
        cmocka_unit_test(test_no_permission),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_driver_that_does_not_start),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_modes_and_errors),
        cmocka_unit_test(test_build_without_cuda),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_instances),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

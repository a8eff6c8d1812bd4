/* Probing GPUs with imitated drivers: each situation is a table of answers. */
#include <errno.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/machine.h"
#include "engine/device/open/open.h"
#include "engine/device/probe/gpu.h"
#include "millrace/status.h"
#include "tests/support/gpu_machine.h"
#include "tests/support/suite.h"

static const mr_gpu_finding *find(const mr_gpu_finding *findings, int count, const char *code) {
    for (int i = 0; i < count; i++)
        if (strcmp(findings[i].code, code) == 0)
            return &findings[i];
    return NULL;
}

/* The machine's only finding is this one. It is fatal and has both texts. */
static void expect(const mr_gpu_access *access, const char *code, const char *what, const char *mend) {
    ENDED_BY(mr_gpus_fini) mr_gpus found;
    assert_int_equal(mr_gpus_probe(access, &found), MR_OK);
    assert_int_equal(found.finding_count, 1);
    assert_string_equal(found.findings[0].code, code);
    assert_true(found.findings[0].fatal);
    if (!strstr(found.findings[0].what, what) || !strstr(found.findings[0].mend, mend))
        fail_msg("\"%s\"\n\"%s\"", found.findings[0].what, found.findings[0].mend);
    for (int i = 0; i < found.count; i++)
        assert_false(mr_gpu_usable(&found, &found.gpu[i]));
    assert_int_equal(gpu_sessions, 0);
    assert_int_equal(gpu_contexts, 0);
}

/* The first GPU's finding with this code. The GPU can be used unless it is fatal. */
static void expect_of_gpu(const mr_gpu_access *access, const char *code, bool fatal, const char *what,
                          const char *mend) {
    ENDED_BY(mr_gpus_fini) mr_gpus found;
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
    /* A GPU that must not be used gets no context for asking the decoder. */
    assert_int_equal(gpu->codec_count, fatal ? 0 : 2);
}

TEST(test_all_is_read) {
    mr_gpu_access access = gpu_healthy();
    ENDED_BY(mr_gpus_fini) mr_gpus found;
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
    assert_int_equal(gpu->core_mhz, 1980);
    assert_int_equal(gpu->memory_mhz, 2619);
    assert_int_equal(gpu->codec_count, 2);
    assert_string_equal(gpu->codecs[0].name, "h264");
    assert_false(gpu->codecs[0].ten_bits);
    assert_string_equal(gpu->codecs[1].name, "hevc");
    assert_true(gpu->codecs[1].ten_bits);
    assert_int_equal(gpu->codecs[1].max_width, 8192);
    assert_int_equal(gpu_sessions, 0);
    assert_int_equal(gpu_contexts, 0);
}

/* What the driver's libraries do not report stays unknown; everything else is there. */
TEST(test_without_management) {
    mr_gpu_access access = gpu_healthy();
    access.nvmlInit = NULL;
    access.cuvidGetDecoderCaps = NULL;
    access.cuDeviceGetUuid = NULL;
    ENDED_BY(mr_gpus_fini) mr_gpus found;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.finding_count, 0);
    assert_string_equal(found.driver, "580.65.06"); /* of the module */
    const mr_gpu *gpu = &found.gpu[0];
    assert_true(mr_gpu_usable(&found, gpu));
    assert_int_equal(gpu->finding_count, 0);
    assert_true(gpu->free_bytes == 0 && gpu->utilisation == -1 && gpu->celsius == -1 && gpu->persistence == -1);
    assert_true(gpu->core_mhz == 0 && gpu->memory_mhz == 0);
    assert_int_equal(gpu->codec_count, 0);
    assert_string_equal(gpu->uuid, "");
}

TEST(test_no_driver) {
    mr_gpu_access access = gpu_without_driver();
    gpu_here.cards = 0;
    expect(&access, "no-gpu", "no NVIDIA driver, and no NVIDIA card on the PCI bus", "use cpu or sim:N");
    gpu_here.cards = 1;
    expect(&access, "no-driver", "1 NVIDIA card is on the PCI bus, and no driver is loaded", "driver 580.65.06");
    gpu_here.cards = 2;
    expect(&access, "no-driver", "2 NVIDIA cards are", "--gpus all");
    gpu_here.module = "535.104.05";
    expect(&access, "no-driver-library", "driver 535.104.05 runs in the kernel, but its library libcuda.so.1",
           "--gpus all");
}

TEST(test_driver_older_than_the_runtime) {
    mr_gpu_access access = gpu_healthy();
    access.nvmlInit = NULL;
    gpu_here.module = "535.104.05";
    gpu_here.cuda = 12020;
    expect(&access, "driver-old",
           "the driver 535.104.05 runs programs of CUDA up to 12.2; this build is made with CUDA 13.0",
           "install driver 580.65.06 or newer, or build millrace with a toolkit of CUDA 12");
    access.runtime = 99010;
    expect(&access, "driver-old", "CUDA 99.1", "install a driver for CUDA 99,");
    /* A newer minor version with the same major version is accepted. */
    assert_true(mr_gpu_driver_suffices(13000, 13020));
    assert_true(mr_gpu_driver_suffices(13000, 12080));
    assert_false(mr_gpu_driver_suffices(12090, 13000));
}

TEST(test_no_permission) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.init_error = 100;
    gpu_here.refused = "/dev/nvidiactl";
    gpu_here.refusal = EACCES;
    expect(&access, "no-permission", "no permission on /dev/nvidiactl: Permission denied", "--gpus all");
    gpu_here.init_error = 999;
    gpu_here.refused = "/dev/nvidia-uvm";
    gpu_here.refusal = EPERM;
    expect(&access, "no-permission", "/dev/nvidia-uvm: Operation not permitted", "ls -l /dev/nvidia-uvm");
}

TEST(test_no_device) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.init_error = 100;
    gpu_here.nodes = false;
    expect(&access, "no-device", "no /dev/nvidia0", "--gpus all");
    gpu_here.nodes = true;
    gpu_here.visible = "7";
    expect(&access, "hidden", "CUDA_VISIBLE_DEVICES=\"7\" hides every GPU", "unset CUDA_VISIBLE_DEVICES");
    gpu_here.visible = NULL;
    expect(&access, "no-device", "the driver shows no GPU", "nvidia-smi");
    gpu_here.init_error = 0;
    gpu_here.count = 0;
    gpu_here.mig = 1;
    expect(&access, "mig", "MIG is on", "nvidia-smi mig -cgi");
}

TEST(test_driver_that_does_not_start) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.init_error = 803;
    expect(&access, "driver-mismatch", "in the kernel (580.65.06) and its library", "restart");
    gpu_here.init_error = 802;
    expect(&access, "not-ready", "fabric", "nvidia-fabricmanager");
    gpu_here.init_error = 999;
    expect(&access, "driver-error", "CUDA_ERROR_UNKNOWN (999)", "nvidia-smi");
}

TEST(test_architecture) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.capability = 70;
    expect_of_gpu(&access, "wrong-architecture", true,
                  "compute capability is 7.0, and this build has kernels for 7.5, 8.0, 8.6, "
                  "9.0",
                  "-DMILLRACE_CUDA_ARCHITECTURES=70");
    /* 8.6 code runs on the same major and higher minor (8.9), the last one's intermediate code on everything later; 8.0
     * code also runs on 8.6. */
    static const int runs[] = {75, 80, 86, 89, 90, 100, 120};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        gpu_here.capability = runs[i];
        ENDED_BY(mr_gpus_fini) mr_gpus found;
        assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
        assert_int_equal(found.gpu[0].finding_count, 0);
    }
}

TEST(test_modes_and_errors) {
    mr_gpu_access access = gpu_healthy();
    gpu_here.mode = 2;
    expect_of_gpu(&access, "prohibited", true, "prohibited", "-c DEFAULT");
    gpu_here.mode = 3;
    expect_of_gpu(&access, "exclusive", false, "exclusive process", "-c DEFAULT");
    gpu_here.mode = 0;
    gpu_here.errors = 3;
    expect_of_gpu(&access, "memory-errors", false, "3 uncorrected memory errors", "nvidia-smi -i GPU-a0a1a2a3");
    gpu_here.errors = 0;
    gpu_here.mig = 1;
    expect_of_gpu(&access, "mig", false, "MIG is on", "-mig 0");
    gpu_here.mig = 0;
    gpu_here.persistence = 0;
    expect_of_gpu(&access, "persistence", false, "persistence mode is off", "-pm 1");
    gpu_here.persistence = 1;
    gpu_here.slowed = 0x1 | 0x4 | 0x40;
    expect_of_gpu(&access, "slowed", false, "power limit, heat (hardware)", "nvidia-smi");
    gpu_here.slowed = 0x1; /* idle */
    ENDED_BY(mr_gpus_fini) mr_gpus found;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.gpu[0].finding_count, 0);
}

TEST(test_build_without_cuda) {
    mr_gpu_access access = gpu_healthy();
    access.runtime = 0;
    expect(&access, "no-cuda", "this build of millrace has no CUDA", "-DMILLRACE_CUDA=ON");
    access = gpu_without_driver();
    access.runtime = 0;
    gpu_here.cards = 0;
    expect(&access, "no-gpu", "no NVIDIA driver", "sim:N");
}

TEST(test_uuids) {
    mr_gpu_access access = gpu_healthy();
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
    *handle = &gpu_here;
    return strncmp(uuid, "MIG-", 4) != 0;
}

/* An instance has another kind of UUID, by which NVML knows it. */
TEST(test_instances) {
    mr_gpu_access access = gpu_healthy();
    ENDED_BY(mr_gpus_fini) mr_gpus found;
    access.nvmlDeviceGetHandleByUUID = nvml_by_instance;
    assert_int_equal(mr_gpus_probe(&access, &found), MR_OK);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.gpu[1].uuid, "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01");
    assert_true(mr_gpu_is_uuid(found.gpu[1].uuid));
    assert_int_equal(found.gpu[1].free_bytes, UINT64_C(79) << 30);
    assert_int_equal(mr_device_check_name("cuda:MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01"), MR_OK);
}

/* Whatever this machine is: the real libraries, where there are any. */
TEST(test_this_machine) {
    ENDED_BY(mr_gpu_access_close) mr_gpu_access access;
    ENDED_BY(mr_gpus_fini) mr_gpus found;
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
}

/* ---- what programs see ------------------------------------------------------------------------------------------- */

TEST(test_a_view_of_healthy_gpus) {
    mr_gpu_access access = gpu_healthy();
    const mr_machine *machine;
    assert_int_equal(mr_machine_open_with(&machine, &access), MR_OK);
    assert_true(machine->cores >= machine->usable_cores && machine->usable_cores > 0 && machine->numa_nodes > 0);
    assert_true(machine->memory_bytes >= machine->available_bytes);
    assert_string_equal(machine->driver, "580.65.06");
    assert_int_equal(machine->driver_cuda, 13000);
    assert_int_equal(machine->finding_count, 0);
    assert_int_equal(machine->gpu_count, 2);
    const mr_machine_gpu *gpu = &machine->gpus[1];
    assert_true(gpu->usable);
    assert_string_equal(gpu->name, "cuda:1");
    assert_string_equal(gpu->model, "Test GPU 1");
    assert_string_equal(gpu->uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01");
    assert_true(gpu->memory_bytes == UINT64_C(80) << 30 && gpu->free_bytes == UINT64_C(79) << 30);
    assert_int_equal(10 * gpu->major + gpu->minor, 90);
    assert_int_equal(gpu->codec_count, 2);
    assert_string_equal(gpu->codecs[1].name, "hevc");
    assert_true(gpu->codecs[1].ten_bits && gpu->codecs[1].max_width == 8192);
    assert_int_equal(machine->gpus[0].peer_count, 1);
    assert_int_equal(machine->gpus[0].peers[0], 1);
    assert_int_equal(gpu->peer_count, 0);
    assert_int_equal(gpu->slowed_count, 0);
    mr_machine_close(&machine);
    assert_null(machine);
    mr_machine_close(&machine);
}

TEST(test_a_view_of_findings) {
    mr_gpu_access access = gpu_healthy();
    const mr_machine *machine;
    gpu_here.slowed = 0x04 | 0x40;
    assert_int_equal(mr_machine_open_with(&machine, &access), MR_OK);
    const mr_machine_gpu *gpu = &machine->gpus[0];
    assert_true(gpu->usable);
    assert_int_equal(gpu->slowed_count, 2);
    assert_string_equal(gpu->slowed_by[0], "power limit");
    assert_string_equal(gpu->slowed_by[1], "heat (hardware)");
    assert_int_equal(gpu->finding_count, 1);
    assert_string_equal(gpu->findings[0].code, "slowed");
    assert_false(gpu->findings[0].fatal);
    mr_machine_close(&machine);
    access.cuDeviceGetUuid = NULL; /* without it NVML is not asked */
    assert_int_equal(mr_machine_open_with(&machine, &access), MR_OK);
    assert_null(machine->gpus[0].uuid);
    assert_int_equal(machine->gpus[0].slowed_count, 0);
    mr_machine_close(&machine);
    access = gpu_without_driver();
    assert_int_equal(mr_machine_open_with(&machine, &access), MR_OK);
    assert_int_equal(machine->gpu_count, 0);
    assert_null(machine->driver);
    assert_int_equal(machine->finding_count, 1);
    assert_true(machine->findings[0].fatal && *machine->findings[0].what && *machine->findings[0].mend);
    mr_machine_close(&machine);
}

RUN_TESTS(NULL, NULL)

/* The operations that `millrace bench ops` measures. Each declares bytes and arithmetic, which must match figures
 * written out from the shapes, and the memory that it touches. Each must run on every device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/operations.h"
#include "millrace/status.h"
#include "tests/support/fake_library.h"
#include "tests/support/on_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

/* ---- declared figures ------------------------------------------------------------------------------------------- */

#define I420_BYTES (1920 * 1080 * 3 / 2)
#define TENSOR_BYTES (3 * 224 * 224 * 4)
#define MIB64 67108864.0

/* `whole`: the work reads or writes every byte, except padding. */
static const struct {
    const char *name;
    double bytes, flops;
    bool whole;
} wanted[] = {
    {"read", MIB64 + 4, 0, true},
    {"triad", 3 * MIB64, 0, true},
    {"copy", 2 * MIB64, 0, true},
    {"gemm", 3 * 1024 * 1024 * 4, 2.0 * 1024 * 1024 * 1024, true},
    {"upload", MIB64, 0, true},
    {"download", MIB64, 0, true},
    {"launch", 0, 0, false},
    {"preprocess-i420", I420_BYTES + TENSOR_BYTES, 0, true},
    {"preprocess-nv12", I420_BYTES + TENSOR_BYTES, 0, true},
    {"preprocess-p010", 2 * I420_BYTES + TENSOR_BYTES, 0, true},
    {"preprocess-rgb24", 1920 * 1080 * 3 + TENSOR_BYTES, 0, true},
    {"preprocess-boxed", I420_BYTES + 3 * 640 * 640 * 2, 0, true},
    {"preprocess-bicubic", I420_BYTES + TENSOR_BYTES, 0, true},
    {"preprocess-area", I420_BYTES + TENSOR_BYTES / 4, 0, true},
    {"preprocess-nearest", 224 * 224 * 3 + TENSOR_BYTES, 0, false},
    {"preprocess-gray", 1920 * 1080 + 224 * 224, 0, false},
    {"paint", 3 * 20 * (2 * 3 * (200 + 240 - 6) + 2 * 160 * 30), 0, false},
    {"blur", 3 * 10 * 120 * 120, 0, false},
    {"histogram-rgb", 24 * (3 * 224 * 224 + 96 * 4), 0, true},
    {"histogram-hsv", 24 * (3 * 224 * 224 + 96 * 4), 0, true},
    {"histogram-joint", 24 * (3 * 224 * 224 + 512 * 4), 0, true},
    {"hog", 24 * (64 * 128 + 3780 * 4), 0, true},
    {"phash", 24 * (32 * 32 + 8), 0, true},
    {"sharpness", 1920 * 1080 + 4, 0, true},
    {"change", 2 * 640 * 360 + 4, 0, true},
    {"detect", 4 * 84 * 8400 + 12 + 100 * 32, 0, true},
    {"linear-1", 4 * (1280 * 1000 + 1000 + 1280 + 1000), 2.0 * 1280 * 1000, true},
    {"linear-8", 4 * (1280 * 1000 + 1000 + 8 * 2280), 2.0 * 1280 * 1000 * 8, true},
    {"linear-64", 4 * (1280 * 1000 + 1000 + 64 * 2280), 2.0 * 1280 * 1000 * 64, true},
    {"top-k", 32 * 4 * (1000 + 5 + 5 + 1), 0, true},
    {"rectify", 32 * 4 * 2 * 128, 0, true},
    {"nearest", 8 * 4 * (10000 + 5 + 1000), 0, false},
    {"normalize", 32 * 4 * 2 * 1280, 0, true},
    {"pool", 8 * 4 * 1280 * (49 + 1), 0, true},
    {"pool-nhwc", 8 * 4 * 1280 * (49 + 1), 0, true},
    {"copy-picture", 2 * I420_BYTES, 0, true},
    {"upload-picture", I420_BYTES, 0, true},
    {"download-picture", I420_BYTES, 0, true},
    {"upload-tensor", TENSOR_BYTES, 0, true},
    {"download-results", 32 * 1000 * 4, 0, true},
};
/* Checks every STEP-th operation. */
enum { WANTED = sizeof wanted / sizeof wanted[0], STEP = UNDER_TSAN(11, 1) };

/* The linker redirects all calls here (tests/CMakeLists.txt). Each operation on a processor gets twice the last cache's
 * size in memory: on a server that would be half a gigabyte for each of them. */
long __real_sysconf(int name);
long __wrap_sysconf(int name);

long __wrap_sysconf(int name) {
    return name == _SC_LEVEL3_CACHE_SIZE ? 8 << 20 : __real_sysconf(name);
}

static mr_operations *open_on(const char *device) {
    mr_operations *ops = NULL;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = device}), MR_OK);
    return ops;
}

static size_t find(const mr_operations *ops, const char *name) {
    const mr_operations_view *view = mr_operations_look(ops);
    size_t i = 0;
    while (i < view->count && strcmp(view->list[i].name, name) != 0)
        i++;
    assert_true(i < view->count);
    return i;
}

/* A vertical pass begins and ends at a multiple of 64 samples. All other figures are exact. */
static void check_declared(const mr_operation *operation, size_t i) {
    const bool resized = strncmp(wanted[i].name, "preprocess", 10) == 0;
    if (fabs(operation->bytes - wanted[i].bytes) > (resized ? 0.002 * wanted[i].bytes : 0))
        fail_msg("%s: bytes are %.0f, and %.0f by its shape", wanted[i].name, operation->bytes, wanted[i].bytes);
    assert_true(operation->flops == wanted[i].flops);
}

/* A simulated device derives times from the memory that work touches. No operation may declare more. One that uses all
 * memory must not declare less. Small pieces are rounded to whole nanoseconds each. */
static void check_touched(mr_operations *ops, const mr_operation *operation, bool whole) {
    static const double rates[MR_PATHS] = {10, 5, 4}; /* bytes per nanosecond */
    int64_t ns = -1;
    assert_int_equal(mr_operations_run(ops, 1, &ns), MR_OK);
    double touched = (double)ns * rates[operation->path], rest = 32 * rates[operation->path];
    if (operation->bytes > touched + rest || (whole && operation->bytes < 0.98 * touched - rest))
        fail_msg("%s declares %.0f bytes and touches %.0f", operation->name, operation->bytes, touched);
}

PLAIN_TEST(bytes_and_arithmetic) {
    ENDED_BY(mr_operations_close) mr_operations *ops = open_on("sim:0?compute=10GB/s&upload=5GB/s&download=4GB/s");
    assert_true(mr_operations_look(ops)->simulated);
    assert_int_equal(mr_operations_look(ops)->count, WANTED);
    for (size_t i = 0; i < WANTED; i += STEP) {
        size_t at = find(ops, wanted[i].name);
        const mr_operation *operation = &mr_operations_look(ops)->list[at];
        assert_int_equal(mr_operations_prepare(ops, at), MR_OK);
        check_declared(operation, i);
        check_touched(ops, operation, wanted[i].whole);
    }
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* Clocks for processor time can stand still for a tick. Only a codec may be missing. */
static void run_one(mr_operations *ops, size_t index, int calls) {
    int64_t ns = -1;
    const mr_operation *operation = &mr_operations_look(ops)->list[index];
    int status = mr_operations_prepare(ops, index);
    if (status == MR_ERROR_UNAVAILABLE && operation->group == MR_OPERATION_CODEC) {
        print_message("left out: %s: %s\n", operation->name, mr_message());
        return;
    }
    if (status || mr_operations_run(ops, calls, &ns))
        fail_msg("%s: %s", operation->name, mr_message());
    assert_true(ns >= 0);
    assert_true(operation->bytes > 0 || strcmp(operation->name, "launch") == 0);
    assert_true(operation->works_on[0]);
}

PLAIN_TEST(all_on_the_processors) {
    mr_operations *ops = open_on("cpu");
    const mr_operations_view *view = mr_operations_look(ops);
    assert_string_equal(view->device, "cpu");
    assert_false(view->simulated);
    for (size_t i = 0; i < view->count; i += STEP) {
        assert_int_equal(view->list[i].path, MR_PATH_MEMORY);
        run_one(ops, i, 2);
        for (size_t before = 0; before < i; before++)
            assert_string_not_equal(view->list[i].name, view->list[before].name);
    }
    const mr_operations_clocks *clocks = mr_operations_read_clocks(ops);
    assert_true(clocks->core_mhz > 10 && clocks->core_mhz < 10000 && clocks->memory_mhz == 0);
    mr_operations_close(&ops);
    assert_null(ops);
}

/* `launch` needs more calls than fit between two events. The largest operations are left to real cards. A card may have
 * no unit for a codec. */
TEST(some_on_cuda) {
    static const char *const names[] = {"launch", "preprocess-nearest", "hog", "change", "top-k", "upload-tensor",
                                        "download-results", "copy-picture", "decode-h264", "decode-mjpeg",
                                        "encode-h264", "encode-av1"};
    ENDED_BY(mr_operations_close) mr_operations *ops = NULL;
    int status = mr_operations_open(&ops, &(mr_operations_params){.device = "cuda:0"});
    if (status == MR_ERROR_UNAVAILABLE) {
        print_message("skipped: %s\n", mr_message());
        skip();
    }
    assert_int_equal(status, MR_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        run_one(ops, find(ops, names[i]), strcmp(names[i], "launch") == 0 ? 200 : 2);
}

#ifdef MILLRACE_CUDA_HOST
/* The fakes count pictures and open objects. */
static void run_codec(mr_operations *ops, const char *name) {
    int64_t ns;
    if (mr_operations_prepare(ops, find(ops, name)) || mr_operations_run(ops, 2, &ns))
        fail_msg("%s: %s", name, mr_message());
}

/* Eight pictures are encoded before the calls, and eight in each. Without the header, NVENC has no fake. */
TEST(codecs_of_a_card) {
    setenv("FAKE_ALL", "1", 1);
    open_fake(FAKE_CUDA, RTLD_GLOBAL);
    open_fake(FAKE_NVCUVID, RTLD_LOCAL);
    mr_operations *ops = open_on("cuda:0");
    run_codec(ops, "decode-hevc");
    assert_int_equal(ask_fake("libnvcuvid.so.1", "fake_nvdec_open"), 1);
    assert_int_equal(ask_fake("libnvcuvid.so.1", "fake_nvdec_mapped"), 0);
#ifdef FAKE_NVENCODE
    open_fake(FAKE_NVENCODE, RTLD_LOCAL);
    run_codec(ops, "encode-h264");
    assert_int_equal(ask_fake("libnvidia-encode.so.1", "fake_nvenc_open"), 1);
    assert_int_equal(ask_fake("libnvidia-encode.so.1", "fake_nvenc_encoded"), 3 * 8);
#endif
    mr_operations_close(&ops);
    assert_int_equal(ask_fake("libnvcuvid.so.1", "fake_nvdec_open"), 0);
#ifdef FAKE_NVENCODE
    assert_int_equal(ask_fake("libnvidia-encode.so.1", "fake_nvenc_open"), 0);
    assert_int_equal(ask_fake("libnvidia-encode.so.1", "fake_nvenc_kept"), 0);
#endif
}
#endif

PLAIN_TEST(work_that_fails) {
    int64_t ns;
    ENDED_BY(mr_operations_close) mr_operations *ops = open_on("sim:0?fail_after=3");
    size_t at = find(ops, "phash");
    int status = mr_operations_prepare(ops, at);
    if (!status)
        status = mr_operations_run(ops, 5, &ns);
    assert_int_equal(status, MR_ERROR_DEVICE);
}

PLAIN_TEST(wrong_calls) {
    mr_operations *ops = (void *)1;
    int64_t ns;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){0}), MR_ERROR_USAGE);
    assert_null(ops);
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "gpu"}), MR_ERROR_CONFIG);
    const struct {
        mr_operations_params params;
        void *more;
    } later = {{.device = "cpu"}, &ns};
    assert_int_equal(mr_operations_open_sized(&ops, &later.params, sizeof later), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_open_sized(&ops, &later.params, 4), MR_ERROR_USAGE);
    ops = open_on("cpu");
    assert_int_equal(mr_operations_run(ops, 1, &ns), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_prepare(ops, 1000), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_prepare(ops, find(ops, "launch")), MR_OK);
    assert_int_equal(mr_operations_run(ops, 0, &ns), MR_ERROR_USAGE);
    mr_operations_close(&ops);
    mr_operations_close(&ops);
}

/* A network needs a valid file. Simulated devices measure no networks. */
PLAIN_TEST(networks) {
    static const char *const models[] = {"/nonexistent/some.net.onnx", NULL};
    mr_operations *ops = NULL;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "cpu", .models = models}), MR_OK);
    const mr_operations_view *view = mr_operations_look(ops);
    const mr_operation *last = &view->list[view->count - 1];
    assert_string_equal(last->name, "network-some.net");
    assert_int_equal(last->group, MR_OPERATION_NETWORK);
    int status = mr_operations_prepare(ops, view->count - 1);
    assert_true(status == MR_ERROR_NO_INPUT || status == MR_ERROR_UNAVAILABLE);
    mr_operations_close(&ops);
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "sim", .models = models}), MR_OK);
    assert_int_equal(mr_operations_prepare(ops, mr_operations_look(ops)->count - 1), MR_ERROR_UNAVAILABLE);
    mr_operations_close(&ops);
}

RUN_TESTS(NULL, NULL)

/* Providers: models that compute on a device themselves. For sessions on devices, the test has its own runtime, and the
 * simulated devices check its work. If a provider cannot be loaded, the error must name the missing library; an
 * imitation of ONNX Runtime tests that. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/find/nvidia.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/sim/sim.h"
#include "engine/pipeline/pipeline.h"
#include "kernels/vector/cublas.h"
#include "millrace/log.h"
#include "stages/list.h"
#include "stages/model/runtime.h"
#include "tests/support/clips.h"
#include "tests/support/fakes.h"
#include "tests/support/models.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

/* ---- a runtime that doubles ------------------------------------------------------------------------------------ */

enum { LENGTH = 4 };
static atomic_int sessions[2], closed, runs[2], batch_seen;
static char run_by[64]; /* the thread that runs: a name, or "several" */
static pthread_t runner;
static bool strays; /* open sessions on the wrong device, the neighbour */
static mr_device *astray;

static const mr_model_runtime doubling;

static int double_open(mr_model **model, const mr_model_params *params) {
    mr_model *made = mr_calloc(1, sizeof *made);
    assert_non_null(made);
    made->runtime = &doubling;
    made->file = params->path;
    made->input_count = made->output_count = 1;
    made->inputs[0] = (mr_model_tensor){.name = "x", .dtype = MR_DTYPE_F32, .type = "f32", .symbol = "n",
                                        .shape = {.rank = 2, .dims = {-1, LENGTH}}};
    made->outputs[0] = made->inputs[0];
    made->outputs[0].name = "y";
    *model = made;
    if (params->brief)
        return MR_OK;
    sessions[params->device->index]++;
    return mr_model_take_device(made, strays ? astray : params->device);
}

static void double_close(mr_model *model) {
    closed += model->stream != NULL;
    mr_free(model);
}

typedef struct doubling_work {
    const float *from;
    float *to;
    int64_t count;
} doubling_work;

static int double_all(void *arguments) {
    const doubling_work *work = arguments;
    for (int64_t i = 0; i < work->count; i++)
        work->to[i] = 2 * work->from[i];
    return MR_OK;
}

/* Models on several devices can run at once. */
static void note_runner(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!run_by[0]) {
        pthread_getname_np(pthread_self(), run_by, sizeof run_by);
        runner = pthread_self();
    } else if (!pthread_equal(runner, pthread_self())) {
        snprintf(run_by, sizeof run_by, "several");
    }
    pthread_mutex_unlock(&lock);
}

static int double_enqueue(const mr_binding *binding, void *const *inputs, void *const *outputs) {
    mr_stream *stream = binding->model->stream;
    note_runner();
    const doubling_work work = {inputs[0], outputs[0], binding->input_shape[0].dims[0] * LENGTH};
    runs[stream->device->index]++;
    batch_seen = (int)binding->input_shape[0].dims[0];
    return mr_stream_submit(stream, double_all, &work, sizeof work);
}

static const mr_model_runtime doubling = {
    .name = "doubling", .open = double_open, .close = double_close, .enqueue = double_enqueue};

static float numbers[MODELS_FRAMES * LENGTH];

static int run_doubled(const char *options, arrived *seen) {
    char stages[512];
    snprintf(stages, sizeof stages,
             "  features: {input: in, model: %s, %s}\n  sink: {type: callback, input: features}\n", __FILE__, options);
    *seen = (arrived){.look = look_at_payload, .gaps = true};
    sessions[0] = sessions[1] = closed = runs[0] = runs[1] = 0;
    run_by[0] = 0;
    mr_model_use_runtime(&doubling);
    int status = models_run("f32 4", numbers, stages, seen);
    mr_model_use_runtime(NULL);
    return status;
}

static void expect_doubled(const char *options, int on_first, int on_second) {
    static arrived seen;
    uint64_t misuses = mr_sim_misuses();
    assert_int_equal(run_doubled(options, &seen), MR_OK);
    assert_int_equal(seen.frames, MODELS_FRAMES);
    for (size_t i = 0; i < seen.count; i++)
        assert_true(seen.values[i] == 2 * numbers[i]);
    assert_int_equal(mr_sim_misuses(), misuses);
    assert_int_equal(sessions[0], on_first);
    assert_int_equal(sessions[1], on_second);
    assert_int_equal(closed, on_first + on_second);
}

TEST(a_session_works_on_the_stages_device) {
    expect_doubled("device: 'sim:0'", 1, 0);
    assert_int_equal(runs[0], MODELS_FRAMES);
    assert_int_equal(batch_seen, 1);
    expect_doubled("device: 'sim:1'", 0, 1);
    assert_int_equal(runs[1], MODELS_FRAMES);
}

TEST(short_batches_run_with_the_planned_shape) {
    expect_doubled("device: 'sim:0', batch: {size: 4, timeout: 50ms}", 1, 0);
    assert_int_equal(batch_seen, 4);
}

TEST(each_device_of_a_list_has_a_session) {
    expect_doubled("device: ['sim:0', 'sim:1']", 1, 1);
    assert_true(runs[0] > 0 && runs[1] > 0);
    assert_int_equal(runs[0] + runs[1], MODELS_FRAMES);
    expect_doubled("device: ['sim:0', 'sim:1'], batch: {size: 2, timeout: 1ms}, normalize: none, pool: none", 1, 1);
}

/* ONNX Runtime keeps a CUDA graph, and the handles it was recorded with, for the thread that recorded it. */
TEST(a_graph_is_run_by_one_thread) {
    expect_doubled("cuda_graph: true, device: 'sim:0'", 1, 0);
    assert_string_equal(run_by, "features");
    expect_doubled("cuda_graph: true, device: 'sim:0', batch: {size: 2, timeout: 1ms}, in_flight: 8", 1, 0);
    assert_string_equal(run_by, "features");
}

TEST(a_graph_has_one_entry_in_the_plan) {
    for (int graph = 0; graph < 2; graph++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "version: 1\npipeline: p\nsources:\n  in: {type: push, format: f32 4}\nstages:\n"
                 "  network: {type: infer, input: in, model: %s, device: 'sim:0'%s}\n"
                 "  sink: {type: callback, input: network}\n",
                 __FILE__, graph ? ", cuda_graph: true" : "");
        const mr_pipeline_params params = {
            .types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = 16};
        mr_model_use_runtime(&doubling);
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(&params);
        mr_model_use_runtime(NULL);
        const mr_plan_vertex *network = vertex(pipeline->plan, "network");
        assert_int_equal(network->calls.entries, graph ? 1 : 16);
        assert_int_equal(network->calls.blocking, graph);
    }
}

/* models_run checks the ledger. */
TEST(a_device_that_fails_drops_its_frames) {
    static arrived seen;
    run_doubled("device: 'sim:0?fail_every=5'", &seen);
    assert_true(seen.count < MODELS_FRAMES * LENGTH);
    assert_int_equal(closed, 1);
}

/* The tests above find no misuse. That only counts if misuse can be detected. */
TEST(a_session_on_another_device_is_caught) {
    static arrived seen;
    uint64_t misuses = mr_sim_misuses();
    assert_int_equal(mr_device_open(&astray, "sim:1", 1, false), MR_OK);
    strays = true;
    run_doubled("device: 'sim:0'", &seen);
    strays = false;
    assert_true(mr_sim_misuses() > misuses);
    assert_int_equal(seen.count, 0);
    mr_device_destroy(&astray);
}

/* ---- missing libraries ----------------------------------------------------------------------------------------- */

static const char *const home = BINARY_DIR "/test-provider";

/* Runs a function in another process, with `environment`: "NAME=value" entries, ended by NULL. Output written to `out`
 * goes to `text`. Returns the exit code. */
static int run_in_child(int (*work)(const void *with, int out), const void *with, const char *const *environment,
                        char *text, size_t bytes) {
    int ends[2], outcome = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (; *environment; environment++)
            putenv((char *)(uintptr_t)*environment);
        _exit(work(with, ends[1]));
    }
    close(ends[1]);
    ssize_t length, all = 0;
    while ((length = read(ends[0], text + all, bytes - 1 - (size_t)all)) > 0)
        all += length;
    text[all] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome));
    return WEXITSTATUS(outcome);
}

/* A process keeps one runtime. The fake one is in a folder laid out as by pip. */
static int check_model(const void *provider, int out) {
    char library[512];
    snprintf(library, sizeof library, "%s/onnxruntime/capi/libonnxruntime.so", home);
    const mr_model_params params = {
        .path = "none.onnx", .runtime = library, .provider = *(const mr_provider *)provider};
    int status = mr_model_check(&params, "cuda:0");
    const char *told = status ? mr_message() : "";
    return write(out, told, strlen(told)) < 0 ? 1 : -status;
}

static void expect_missing(mr_provider provider, const char *const *environment, const char *const *parts) {
    char words[4096];
    int status = -run_in_child(check_model, &provider, environment, words, sizeof words);
    if (status != MR_ERROR_UNAVAILABLE)
        fail_msg("status %d: %s", status, words);
    for (; *parts; parts++)
        expect_words(words, *parts);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define BUILT "FAKE_PROVIDERS=CPUExecutionProvider CUDAExecutionProvider TensorrtExecutionProvider"

static void put(const char *path, const char *from) {
    clip_shell("mkdir -p \"$(dirname '%s/%s')\" && cat '%s' > '%s/%s'", home, path,
               from ? from : "/dev/null", home, path);
}

static int make_home(void **state) {
    clip_shell("rm -rf '%s'", home);
    put("onnxruntime/capi/libonnxruntime.so", FAKE_ONNXRUNTIME);
    for (size_t i = 0; i < MODELS_FRAMES * LENGTH; i++)
        numbers[i] = (float)i - 5.5f;
    return 0;
}

TEST(an_old_runtime_is_recognised) {
    expect_missing(MR_PROVIDER_CUDA, LIST("FAKE_OLD=1"), LIST("is ONNX Runtime 1.2.3; millrace needs 1.16 or later"));
}

TEST(a_build_without_the_provider_is_named) {
    expect_missing(MR_PROVIDER_AUTO, LIST("FAKE_PROVIDERS=CPUExecutionProvider"),
                   LIST("without the provider cuda", "pip install onnxruntime-gpu", home));
    expect_missing(MR_PROVIDER_TENSORRT, LIST("FAKE_PROVIDERS=CPUExecutionProvider CUDAExecutionProvider"),
                   LIST("without the provider tensorrt"));
}

TEST(missing_libraries_are_named_with_their_remedy) {
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_NEEDS=libc.so.6 libcublas.so.77"),
                   LIST("needs libcublas.so.77", "nvidia/*/lib", "onnxruntime-gpu[cuda,cudnn]", home));
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_NEEDS=libcuda.so.77"), LIST("install the NVIDIA driver"));
    expect_missing(MR_PROVIDER_TENSORRT, LIST(BUILT, "FAKE_NEEDS=libnvinfer.so.77"), LIST("pip install tensorrt"));
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_WORDS=an odd reason"),
                   LIST("cannot be loaded", "an odd reason"));
}

TEST(another_version_is_named) {
    put("nvidia/cublas/lib/libcublas.so.76", NULL);
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_NEEDS=libcublas.so.77"),
                   LIST("needs libcublas.so.77", "nvidia/cublas/lib/libcublas.so.76 is of another version"));
    put("nvidia/curand/lib/libcurand.so.77", NULL);
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_NEEDS=libcurand.so.77"),
                   LIST("libcurand.so.77 cannot be loaded"));
}

/* The library that exists is loaded, so the next one is missing. */
TEST(libraries_that_pip_installed_are_found) {
    put("nvidia/cufft/lib/libmillrace-test.so.1", FAKE_COMPANION);
    expect_missing(MR_PROVIDER_CUDA, LIST(BUILT, "FAKE_NEEDS=libmillrace-test.so.1 libcublas.so.78"),
                   LIST("needs libcublas.so.78"));
}

/* ---- libraries installed by pip ---------------------------------------------------------------------------------- */

/* Prints the library's path; "" if there is none. */
static int find_library(const void *library, int out) {
    char found[PATH_MAX];
    bool there = mr_nvidia_find(NULL, library, found);
    return there != (found[0] != 0) || write(out, found, strlen(found)) < 0;
}

static void expect_found(const char *variable, const char *library, const char *expected) {
    static const char *const all[] = {"MILLRACE_ONNXRUNTIME", "VIRTUAL_ENV", "HOME"};
    const char *environment[5] = {variable};
    char path[PATH_MAX];
    size_t count = 1;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(variable, all[i], strlen(all[i])) != 0)
            environment[count++] = strcmp(all[i], "HOME") == 0 ? "HOME=/nonexistent" : all[i];
    assert_int_equal(run_in_child(find_library, library, environment, path, sizeof path), 0);
    assert_string_equal(path, expected);
}

TEST(packages_are_found_in_python_environments) {
    static const struct {
        const char *variable, *value, *companion; /* below the home folder */
    } cases[] = {{"VIRTUAL_ENV", "env", "env/lib/python3.99/site-packages/nvidia/cu13/lib/libmillrace-none.so.1"},
                 {"HOME", "user", "user/.local/lib/python3.99/site-packages/nvidia/cublas/lib/libmillrace-none.so.1"},
                 {"MILLRACE_ONNXRUNTIME", "site/onnxruntime/capi/libonnxruntime.so.1",
                  "site/tensorrt_libs/libmillrace-none.so.1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char variable[512], expected[512];
        snprintf(variable, sizeof variable, "%s=%s/%s", cases[i].variable, home, cases[i].value);
        snprintf(expected, sizeof expected, "%s/%s", home, cases[i].companion);
        expect_found(variable, "libmillrace-none.so.1", "");
        put(cases[i].companion, FAKE_COMPANION);
        expect_found(variable, "libmillrace-none.so.*", expected);
    }
}

static char heard[1024];

static void hear(void *context, mr_log_level level, const char *line) {
    snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s\n", line);
}

static int find_cublas(const void *folder, int out) {
    mr_log_set_level(MR_LOG_INFO);
    mr_log_to(hear, NULL);
    bool found = mr_cublas_found();
    bool own = !strstr(heard, folder) && dlopen("libcublas.so.13", RTLD_LAZY);
    return !found || !strstr(heard, "cuBLAS from ") || !(own || strstr(heard, folder));
}

/* If the loader finds the library, that one is used. Runs in another process, since NVIDIA's library leaks memory. */
TEST(cublas_is_found_where_pip_puts_it) {
    char unused[8];
    put("blas/lib/python3.99/site-packages/nvidia/cu13/lib/libcublas.so.13", FAKE_CUBLAS);
    assert_int_equal(run_in_child(find_cublas, BINARY_DIR "/test-provider/blas",
                                  LIST("VIRTUAL_ENV=" BINARY_DIR "/test-provider/blas"), unused, sizeof unused), 0);
}

TEST(the_provider_must_suit_the_device) {
    static const struct {
        const char *options, *words;
    } cases[] = {
        {"provider: cuda", "the provider cuda computes on CUDA devices, and cpu is not one; write device: cuda:0"},
        {"provider: tensorrt, device: 'sim:0'", "the provider tensorrt computes on CUDA devices, and sim:0 is not one"},
        {"cuda_graph: true", "cuda_graph is for CUDA devices, and cpu is not one; remove it"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char options[512];
        snprintf(options, sizeof options, "type: infer, model: %s, %s", __FILE__, cases[i].options);
        REFUSED(MR_OK, "f32 4", options, cases[i].words);
    }
    const mr_model_params params = {.path = "none.onnx", .provider = MR_PROVIDER_CPU};
    assert_int_equal(mr_model_check(&params, "cuda:0"), MR_ERROR_CONFIG);
    expect_words(mr_message(), "write device: cpu");
    assert_int_equal(mr_model_check(&params, "sim:0"), MR_OK);
}

RUN_TESTS(make_home, NULL)

/* ONNX Runtime's CUDA providers, with the real libraries. Outputs must match the CPU provider's: with and without CUDA
 * graphs, with 1 and 16 workers, in batches, on two devices, and from cached engines. Prints run times. Each test also
 * runs on the processors, which checks all but the provider without a GPU.
 *
 * MILLRACE_ONNXRUNTIME names the library from onnxruntime-gpu. tests/reference/models.py makes networks and references
 * (tests/support/models.h). MILLRACE_TIMED_MODEL names another network to time. It must have one input, whose size is
 * known except for the batch. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "millrace/status.h"
#include "stages/model/runtime.h"
#include "tests/support/clips.h"
#include "tests/support/models.h"
#include "tests/support/on_device.h"
#include "tests/support/suite.h"

enum { IMAGE = 3 * 8 * 6, OUT = 4 * 4 * 3, TIMED_RUNS = 200 };

static bool have_models;
static float images[MODELS_FRAMES * IMAGE];
static char cache[64] = "test-ort-card.XXXXXX";

/* A device and a provider to test. */
typedef struct place {
    const char *device, *provider;
    double tolerance; /* for sums of 27 products of normal numbers: the order differs, and so do TensorRT's kernels */
} place;

static const place on_cpu = {"cpu", "cpu", 2e-6}, on_cuda = {"cuda:0", "cuda", 1e-5},
                   on_tensorrt = {"cuda:0", "tensorrt", 1e-3};

static bool has_device(const char *name) {
    uint64_t bytes;
    return mr_device_probe(name, &bytes) == MR_OK;
}

static bool have(const place *at) {
    const mr_model_params params = {
        .path = "none.onnx", .provider = strcmp(at->provider, "cpu") == 0      ? MR_PROVIDER_CPU
                                         : strcmp(at->provider, "cuda") == 0 ? MR_PROVIDER_CUDA
                                                                               : MR_PROVIDER_TENSORRT};
    bool there = have_models && has_device(at->device) && mr_model_check(&params, at->device) == MR_OK;
    if (!there)
        print_message("skipped: %s\n", have_models ? mr_message() : "there are no networks to run");
    return there;
}

/* ---- parity ------------------------------------------------------------------------------------------------------ */

static void compare(const place *at, const char *stages) {
    static arrived got;
    static float wanted[MODELS_FRAMES * OUT];
    got = (arrived){.look = look_at_payload};
    models_read("out", wanted, MODELS_FRAMES * OUT);
    models_expect_run("f32 3x8x6", images, stages, &got);
    assert_int_equal(got.count, MODELS_FRAMES * OUT);
    for (size_t i = 0; i < got.count; i++)
        if (!(fabsf(got.values[i] - wanted[i]) <= at->tolerance * (1 + fabs((double)wanted[i]))))
            fail_msg("%s: value %zu is %.9g, not %.9g", stages, i, (double)got.values[i], (double)wanted[i]);
}

static void expect(const place *at, const char *options) {
    char stages[1024];
    snprintf(stages, sizeof stages,
             "  features: {input: in, model: @/any-batch.onnx, device: '%s', provider: %s%s}\n"
             "  sink: {type: callback, input: features}\n",
             at->device, at->provider, options);
    compare(at, stages);
}

static void with_workers(const place *at, const char *options) {
    static const int counts[] = {1, 4, 16};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        models_workers = counts[i];
        expect(at, options);
    }
    models_workers = 0;
}

static void provider_gives_the_results_of_the_cpu(void **state) {
    const place *at = *state;
    char options[256];
    if (!have(at))
        skip();
    snprintf(options, sizeof options, "%s%s", strcmp(at->provider, "tensorrt") ? "" : ", engine_cache: ",
             strcmp(at->provider, "tensorrt") ? "" : cache);
    with_workers(at, options);
    snprintf(options + strlen(options), sizeof options - strlen(options), ", batch: {size: 4, timeout: 5ms}");
    with_workers(at, options);
}

static void graphs_give_the_same(void **state) {
    const place *at = *state;
    char options[256];
    if (!have(at))
        skip();
    bool caches = strcmp(at->provider, "tensorrt") == 0;
    snprintf(options, sizeof options, ", cuda_graph: true%s%s", caches ? ", engine_cache: " : "", caches ? cache : "");
    with_workers(at, options);
    snprintf(options + strlen(options), sizeof options - strlen(options), ", batch: {size: 2, timeout: 5ms}");
    with_workers(at, options);
}

/* With only one GPU, both stages run on it. */
static void two_devices_give_the_same(void **state) {
    const place *at = *state;
    char stages[1024];
    if (!have(at))
        skip();
    const char *other = strcmp(at->device, "cpu") && has_device("cuda:1") ? "cuda:1" : at->device;
    print_message("on %s and %s\n", at->device, other);
    for (int turn = 0; turn < 2; turn++) {
        snprintf(stages, sizeof stages,
                 "  first: {type: features, input: in, model: @/any-batch.onnx, device: '%s', provider: %s}\n"
                 "  other: {type: features, input: in, model: @/any-batch.onnx, device: '%s', provider: %s}\n"
                 "  gone: {type: 'null', input: %s}\n"
                 "  sink: {type: callback, input: %s}\n",
                 at->device, at->provider, other, at->provider, turn ? "first" : "other", turn ? "other" : "first");
        compare(at, stages);
    }
}

/* ---- cached engines ---------------------------------------------------------------------------------------------- */

static int count_engines(void) {
    int count = -1;
    FILE *answer = clip_ask("find '%s' -name '*.engine' | wc -l", cache);
    assert_int_equal(fscanf(answer, "%d", &count), 1);
    pclose(answer);
    return count;
}

static int finish(void **state) {
    clip_shell("rm -rf '%s'", cache);
    return 0;
}

static double seconds_of(void (*work)(const place *, const char *), const place *at, const char *options) {
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    work(at, options);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
}

static void engines_are_kept_and_damaged_ones_built_anew(void **state) {
    const place *at = *state;
    char options[128];
    if (!have(at))
        skip();
    snprintf(options, sizeof options, ", engine_cache: %s", cache);
    assert_int_equal(finish(NULL), 0);
    double built = seconds_of(expect, at, options);
    int engines = count_engines();
    assert_true(engines > 0);
    double kept = seconds_of(expect, at, options);
    assert_int_equal(count_engines(), engines);
    clip_shell("find '%s' -name '*.engine' -exec truncate -s 100 {} +", cache);
    double again = seconds_of(expect, at, options);
    assert_int_equal(count_engines(), engines);
    print_message("{\"engines\": {\"built_s\": %.2f, \"kept_s\": %.2f, \"damaged_s\": %.2f}}\n", built, kept, again);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static double time_runs(on_device *d, mr_model *model) {
    mr_binding binding;
    mr_shape shape = model->inputs[0].shape;
    shape.dims[0] = shape.dims[0] > 0 ? shape.dims[0] : 1;
    const size_t first = 0;
    struct timespec begun, ended;
    assert_int_equal(mr_model_bind(model, &binding, &shape, shape.dims[0], &first, 1), MR_OK);
    size_t in = mr_shape_count(&shape) * sizeof(float), out = mr_shape_count(&binding.output_shape[0]) * sizeof(float);
    float *zeros = calloc(1, in > out ? in : out);
    void *inputs[] = {on_device_put(d, zeros, in)}, *outputs[] = {on_device_put(d, zeros, out)};
    for (int i = -20; i < TIMED_RUNS; i++) {
        if (i == 0)
            clock_gettime(CLOCK_MONOTONIC, &begun);
        if (mr_model_enqueue(&binding, d->stream, inputs, outputs))
            fail_msg("%s", mr_message());
        on_device_finish(d);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    on_device_free(d, inputs[0]);
    on_device_free(d, outputs[0]);
    free(zeros);
    return 1e6 * ((double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec)) / TIMED_RUNS;
}

static void runs_are_timed(void **state) {
    const place *at = *state;
    const char *named = getenv("MILLRACE_TIMED_MODEL");
    char path[512];
    if (!have(at))
        skip();
    models_path("any-batch.onnx", path, sizeof path);
    for (int graph = 0; graph < (strcmp(at->device, "cpu") ? 2 : 1); graph++) {
        ENDED_BY(on_device_close) on_device d = {0};
        ENDED_BY(mr_model_close) mr_model *model = NULL;
        need_device(&d, at->device);
        const mr_model_params params = {.path = named ? named : path,
                                        .device = d.device,
                                        .provider = strcmp(at->provider, "tensorrt") ? MR_PROVIDER_AUTO
                                                                                     : MR_PROVIDER_TENSORRT,
                                        .engine_cache = cache,
                                        .cuda_graph = graph};
        if (mr_model_open(&model, &params))
            fail_msg("%s", mr_message());
        double us = time_runs(&d, model);
        print_message("{\"provider\": \"%s\", \"model\": \"%s\", \"cuda_graph\": %s, \"run_us\": %.1f}\n", at->provider,
                      model->file, graph ? "true" : "false", us);
        assert_true(us > 0);
    }
}

static int prepare(void **state) {
    have_models = models_make("ort-card-files");
    if (have_models)
        models_read("images", images, MODELS_FRAMES * IMAGE);
    return mkdtemp(cache) ? 0 : -1;
}

#define ON(test, at) {#test " (" #at ")", test, NULL, NULL, (void *)(uintptr_t)&at}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON(provider_gives_the_results_of_the_cpu, on_cpu),
        ON(two_devices_give_the_same, on_cpu),
        ON(runs_are_timed, on_cpu),
        ON(provider_gives_the_results_of_the_cpu, on_cuda),
        ON(graphs_give_the_same, on_cuda),
        ON(two_devices_give_the_same, on_cuda),
        ON(runs_are_timed, on_cuda),
        ON(provider_gives_the_results_of_the_cpu, on_tensorrt),
        ON(graphs_give_the_same, on_tensorrt),
        ON(engines_are_kept_and_damaged_ones_built_anew, on_tensorrt),
        ON(runs_are_timed, on_tensorrt),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}

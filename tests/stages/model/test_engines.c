/* TensorRT engines through ONNX Runtime's provider. They must be built once, read at the next start, and rebuilt if
 * damaged or refused. Runs on a device that the host plays, with a fake runtime (fakes/onnxruntime.c). test_ort_card
 * uses the real ones. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/device/device.h"
#include "millrace/status.h"
#include "stages/model/runtime.h"
#include "tests/support/models.h"
#include "tests/support/on_device.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST

enum { IN = 3 * 8 * 6, OUT = 4 * 4 * 3 };
static char home[] = "test-engines-home.XXXXXX";

static void shell(const char *format, const char *one, const char *other) {
    char command[2048];
    snprintf(command, sizeof command, format, home, one, other);
    assert_int_equal(system(command), 0);
}

static int ask(const char *what) {
    char path[512];
    int (*function)(void) = NULL;
    snprintf(path, sizeof path, "%s/onnxruntime/capi/libonnxruntime.so", home);
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&function = library ? dlsym(library, what) : NULL;
    int answer = function ? function() : 0;
    if (library)
        dlclose(library);
    return answer;
}

static int run_once(mr_model *model, on_device *d) {
    mr_binding binding;
    const mr_shape shape = {.rank = 4, .dims = {1, 3, 8, 6}};
    float zeros[IN] = {0};
    const size_t first = 0;
    assert_int_equal(mr_model_bind(model, &binding, &shape, 1, &first, 1), MR_OK);
    void *inputs[] = {on_device_put(d, zeros, sizeof zeros)};
    void *outputs[] = {on_device_put(d, zeros, OUT * sizeof(float))};
    int status = mr_model_enqueue(&binding, d->stream, inputs, outputs);
    on_device_finish(d);
    on_device_free(d, inputs[0]);
    on_device_free(d, outputs[0]);
    return status;
}

/* Starts a program and returns the first run's status. Adds the library's counts to the totals. */
static int start(const char *shapes, int *built, int *read, int *refused) {
    on_device d = {0};
    mr_model *model = NULL;
    char path[512], cache[512];
    models_path("any-batch.onnx", path, sizeof path);
    snprintf(cache, sizeof cache, "%s/engines", home);
    *built = ask("fake_engines_built");
    *read = ask("fake_engines_read");
    *refused = ask("fake_engines_refused");
    assert_true(on_device_open(&d, "cuda:0"));
    const mr_model_params params = {.path = path, .device = d.device, .provider = MR_PROVIDER_TENSORRT,
                                    .engine_cache = cache, .shapes = shapes};
    if (mr_model_open(&model, &params))
        fail_msg("%s", mr_message());
    int status = run_once(model, &d);
    mr_model_close(&model);
    on_device_close(&d);
    *built = ask("fake_engines_built") - *built;
    *read = ask("fake_engines_read") - *read;
    *refused = ask("fake_engines_refused") - *refused;
    return status;
}

static void expect(const char *shapes, int built, int read, int refused) {
    int did[3];
    assert_int_equal(start(shapes, &did[0], &did[1], &did[2]), MR_OK);
    assert_int_equal(did[0], built);
    assert_int_equal(did[1], read);
    assert_int_equal(did[2], refused);
}

static void begin(void) {
    shell("rm -rf %s/engines%s%s", "", "");
}

/* When the session is made, or in the first run. */
MODEL_TEST(they_are_built_once) {
    for (int late = 0; late < 2; late++) {
        begin();
        if (late)
            setenv("FAKE_LATE", "1", 1);
        expect("batch 1", 1, 0, 0);
        expect("batch 1", 0, 1, 0);
        expect("batch 2", 1, 0, 0);
        expect("batch 1", 0, 1, 0);
        unsetenv("FAKE_LATE");
    }
}

/* Checksums detect the damage before the runtime sees the file. */
MODEL_TEST(damaged_ones_are_built_anew) {
    begin();
    expect("batch 1", 1, 0, 0);
    shell("truncate -s 3 %s/engines/*/fake.engine%s%s", "", "");
    expect("batch 1", 1, 0, 0);
    expect("batch 1", 0, 1, 0);
}

/* A runtime may refuse complete engines, as it does after a driver update. */
MODEL_TEST(refused_ones_are_built_anew) {
    int did[3];
    begin();
    expect("batch 1", 1, 0, 0);
    setenv("FAKE_STALE", "1", 1);
    expect("batch 1", 1, 0, 1);
    setenv("FAKE_LATE", "1", 1);
    assert_int_equal(start("batch 1", &did[0], &did[1], &did[2]), MR_ERROR_DEVICE);
    expect_words(mr_message(), "rebuilt at the next start");
    expect("batch 1", 1, 0, 0);
    unsetenv("FAKE_STALE");
    unsetenv("FAKE_LATE");
    expect("batch 1", 0, 1, 0);
}

static int prepare(void **state) {
    char library[512];
    if (!mkdtemp(home))
        return -1;
    shell("mkdir -p %s/onnxruntime/capi %s/nvidia/cudnn/lib", home, "");
    shell("cp '%2$s' '%1$s/onnxruntime/capi/libonnxruntime.so'%3$s", FAKE_ONNXRUNTIME, "");
    shell("cp '%2$s' '%1$s/nvidia/cudnn/lib/libcudnn.so.9'%3$s", FAKE_COMPANION, "");
    models_make("engines-files");
    snprintf(library, sizeof library, "%s/onnxruntime/capi/libonnxruntime.so", home);
    setenv("MILLRACE_ONNXRUNTIME", library, 1);
    setenv("FAKE_PROVIDERS", "CPUExecutionProvider CUDAExecutionProvider TensorrtExecutionProvider", 1);
    return be_quiet(state);
}

static int finish(void **state) {
    shell("rm -rf %s%s%s", "", "");
    return 0;
}
#endif

int main(void) {
#ifdef MILLRACE_CUDA_HOST
    return run_suite(prepare, finish);
#else
    printf("skipped: it is run as test_engines_cuda_host\n");
    return 0;
#endif
}

/* A GPU is one device, whether a name has the number or the UUID. The driver is the tests' imitation. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

#define FIRST "cuda:GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"
#define SECOND "cuda:GPU-A1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"
#define NONE "cuda:GPU-00000000-0000-0000-0000-000000000000"

static int open_driver(void **state) {
    *state = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return *state ? 0 : -1;
}

static int close_driver(void **state) {
    return dlclose(*state);
}

TEST(a_uuid_has_a_number) {
    char text[MR_DEVICE_NAME];
    assert_string_equal(mr_device_number(FIRST, text), "cuda:0");
    assert_string_equal(mr_device_number(SECOND, text), "cuda:1");
    assert_string_equal(mr_device_number(NONE, text), NONE);
    assert_string_equal(mr_device_number("cuda:1", text), "cuda:1");
    assert_string_equal(mr_device_number("sim:0?call=1us", text), "sim:0?call=1us");
}

/* All messages about a pipeline, which this build may also refuse for other reasons. The caller must free them. */
static char *said_of(const char *devices, const char *device, bool offline) {
    char text[1024];
    mr_diagnostics diagnostics = {0};
    mr_plan *plan = NULL;
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\n%ssources: {a: {uri: a.mp4}}\n"
             "stages:\n  open: {input: a}\n  shrink: {input: open, size: 4, device: %s}\n"
             "  out: {type: trash, input: shrink}\n",
             devices, device);
    const mr_spec_params spec = {.types = fake_types, .default_source_type = "camera", .path = "p.yaml", .text = text};
    mr_plan_load(&plan, &spec, &(mr_plan_params){.inserted = &mr_pipeline_types, .workers = 1, .offline = offline},
                 &diagnostics);
    char *said = printed(&diagnostics);
    mr_plan_destroy(&plan);
    mr_diagnostics_fini(&diagnostics);
    return said;
}

static void assert_said(const char *devices, const char *device, bool offline, const char *words, bool expected) {
    FREED char *said = said_of(devices, device, offline);
    if ((strstr(said, words) != NULL) != expected)
        fail_msg("%s\n%s%s", said, devices, device);
}

TEST(one_gpu_is_not_two_devices) {
    assert_said("", "[\"cuda:0\", \"" FIRST "\"]", false, "cuda:0 is named twice", true);
    assert_said("", "[\"" FIRST "\", \"cuda:0\"]", false, "cuda:0 is named twice", true);
    assert_said("", "[\"cuda:0\", \"" SECOND "\"]", false, "is named twice", false);
    /* The driver is not asked. The names differ only in case. */
    assert_said("", "[\"cuda:0\", \"" FIRST "\"]", true, "is named twice", false);
    assert_said("", "[\"cuda:GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1\", \"" SECOND "\"]", true, "is named twice",
                true);
}

TEST(one_gpu_has_one_limit) {
    assert_said("devices:\n  fast: {device: \"cuda:1\"}\n  slow: {device: \"" SECOND "\"}\n", "fast", false,
                "devices.slow: cuda:GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 is cuda:1, which already has the name "
                "\"fast\" (p.yaml:4:3)",
                true);
    assert_said("devices:\n  fast: {device: \"cuda:1\"}\n  slow: {device: \"" FIRST "\"}\n", "[fast, slow]", false,
                "already", false);
    assert_said("devices:\n  fast: {device: \"cuda:1\"}\n", "[fast, \"" SECOND "\"]", false, "cuda:1 is named twice",
                true);
}

RUN_TESTS(open_driver, close_driver)

/* Devices, copies and memory: what is planned. What runs on devices then do is in test_spread.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/plan/assumption.h"
#include "engine/planner/planner.h"
#include "millrace/plan.h"
#include "tests/support/fakes.h"
#include "tests/support/flow_stages.h"
#include "tests/support/suite.h"

#define HEAD "version: 1\npipeline: p\n"

typedef struct planning {
    const mr_stage_type *const *types;
    const char *assume[3];
    size_t assume_count;
    bool online;
    mr_measured_cost costs[4];
    size_t cost_count;
} planning;

static int plan_text(mr_plan **plan, const char *text, const planning *how, mr_diagnostics *diagnostics) {
    const mr_spec_params spec = {.types = how->types, .path = "p.yaml", .text = text, .default_source_type = "push"};
    const mr_plan_params params = {.inserted = &mr_pipeline_types,
                                   .workers = 2,
                                   .offline = !how->online,
                                   .assume_count = how->assume_count,
                                   .assume = how->assume,
                                   .cost_count = how->cost_count,
                                   .costs = how->costs};
    return mr_plan_load(plan, &spec, &params, diagnostics);
}

/* A plan whose only message is `said`. */
static mr_plan *load(const char *text, planning how, const char *said) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    how.types = how.types ? how.types : mr_stage_types();
    int status = plan_text(&plan, text, &how, &diagnostics);
    expect_printed(&diagnostics, said);
    assert_int_equal(status, MR_OK);
    return plan;
}

static void expect_refusal(const char *text, planning how, const char *said) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    how.types = how.types ? how.types : mr_stage_types();
    assert_int_not_equal(plan_text(&plan, text, &how, &diagnostics), MR_OK);
    expect_printed(&diagnostics, said);
}

#define SOURCE "sources: {in: {format: RGB24 640x480}}\n"
#define DEVICES "devices: {off: {device: sim:9, enabled: false}, fast: {device: sim:0}, slow: {device: sim:1}}\n"

TEST(auto_takes_the_first_device_that_can) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD DEVICES SOURCE "stages:\n"
            "  a: {type: preprocess, input: in, size: 8, device: auto}\n"
            "  out: {type: 'null', input: a, device: auto}\n", (planning){0}, "");
    assert_string_equal(vertex(plan, "a")->devices.first, "sim:0");
    assert_string_equal(vertex(plan, "a")->devices.reason, "the first device that can take it (sim:9 is disabled)");
    assert_string_equal(vertex(plan, "out")->devices.first, "cpu");
    assert_string_equal(vertex(plan, "out")->devices.reason, "null runs on processors only");
}

TEST(auto_stays_with_its_neighbours) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD DEVICES "sources: {in: {format: f32 10}}\n"
                                                        "stages:\n"
                                                        "  a: {type: classify, input: in, device: slow}\n"
                                                        "  b: {type: classify, input: a, device: auto}\n"
                                                        "  out: {type: 'null', input: b}\n", (planning){0}, "");
    assert_string_equal(vertex(plan, "b")->devices.first, "sim:1");
    assert_string_equal(vertex(plan, "b")->devices.reason, "the same as a, so that nothing is copied between them");
    assert_int_equal(plan->vertex_count, 6);
}

TEST(auto_without_devices_takes_the_processors) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD SOURCE "stages:\n"
                                                        "  a: {type: preprocess, input: in, size: 8, device: auto}\n"
                                                        "  out: {type: 'null', input: a}\n", (planning){0}, "");
    assert_string_equal(vertex(plan, "a")->devices.first, "cpu");
    assert_string_equal(vertex(plan, "a")->devices.reason, "no other device is named under devices");
    assert_int_equal(plan->vertex_count, 3);
}

/* 640 x 480 pictures take 900 KiB each: six wait, and four are in use. */
TEST(auto_minds_memory) {
    mr_plan *plan = load(HEAD "devices: {small: {device: sim:0, memory: 6MiB}, large: {device: sim:1}}\n" SOURCE
                              "stages:\n"
                              "  a: {type: preprocess, input: in, size: 8, device: auto}\n"
                              "  out: {type: 'null', input: a}\n", (planning){0}, "");
    assert_string_equal(vertex(plan, "a")->devices.first, "sim:1");
    assert_string_equal(vertex(plan, "a")->devices.reason,
                        "the first device that can take it (sim:0 has too little memory)");
    mr_plan_destroy(&plan);
}

#define THREE "devices: {a1: {device: sim:1}, a2: {device: sim:2}, a3: {device: sim:3}}\n"
#define TWO_GROUPS                                                                                                    \
    HEAD THREE "sources: {on: {format: RGB24 640x480}}\n"                                                           \
         "stages:\n"                                                                                                \
         "  a: {type: preprocess, input: on, size: 8, device: auto}\n"                                              \
         "  b: {type: sharpness, input: on, device: auto}\n"                                                        \
         "  c: {type: hog, input: b, size: 64x64, device: auto}\n"                                                  \
         "  out: {type: 'null', input: [a, c]}\n"

/* Three devices, 12 ms: even shares are 4 ms. */
TEST(auto_balances_what_was_measured) {
    const planning how = {.costs = {{"a", 3e6}, {"b", 1e6}, {"c", 8e6}}, .cost_count = 3};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(TWO_GROUPS, how, "");
    assert_string_equal(vertex(plan, "b")->devices.names, "sim:1, sim:2");
    assert_string_equal(
        vertex(plan, "b")->devices.reason,
        "spread over 2 devices, since this stage takes 9 ms of the 12 ms that a frame takes on devices");
    assert_string_equal(vertex(plan, "c")->devices.names, "sim:1, sim:2");
    assert_string_equal(vertex(plan, "c")->devices.reason, "the same as b, so that nothing is copied between them");
    assert_string_equal(vertex(plan, "a")->devices.names, "sim:3");
    assert_string_equal(vertex(plan, "a")->devices.reason,
                        "the least loaded device: 0 ms a frame before, 3 ms more with this stage");
    assert_int_equal(vertex(plan, "b")->calls.in_flight, vertex(plan, "a")->calls.in_flight);
}

TEST(auto_minds_what_is_placed_already) {
    const planning how = {.costs = {{"a", 4e6}, {"b", 3e6}, {"c", 1e6}}, .cost_count = 3};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD THREE SOURCE "stages:\n"
                                                        "  a: {type: preprocess, input: in, size: 8, device: a1}\n"
                                                        "  b: {type: preprocess, input: in, size: 16, device: auto}\n"
                                                        "  c: {type: sharpness, input: in, device: auto}\n"
                                                        "  d: {type: motion, input: in, device: auto}\n"
                                                        "  out: {type: 'null', input: [a, b, c, d]}\n", how, "");
    assert_string_equal(vertex(plan, "b")->devices.names, "sim:2");
    assert_string_equal(vertex(plan, "c")->devices.names, "sim:3");
    /* What was not measured is placed last, without a claim. */
    assert_string_equal(vertex(plan, "d")->devices.names, "sim:3");
    assert_string_equal(vertex(plan, "d")->devices.reason,
                        "the least loaded device; the stage's cost was not measured");
}

/* A stage that remembers earlier frames is not spread, whatever the cost; nor is one that keeps up with the source
 * anyway. */
TEST(auto_spreads_no_more_than_it_may_and_must) {
    const planning how = {.costs = {{"a", 9e6}, {"b", 1e6}}, .cost_count = 2, .online = true};
    mr_plan *plan = load(HEAD THREE SOURCE "stages:\n"
                              "  a: {type: preprocess, input: in, size: 64x64, device: auto}\n"
                              "  b: {type: motion, input: in, device: auto}\n"
                              "  out: {type: 'null', input: [a, b]}\n",
                         (planning){.costs = {{"a", 1e6}, {"b", 9e6}}, .cost_count = 2}, "");
    assert_string_equal(vertex(plan, "b")->devices.names, "sim:1");
    assert_string_equal(vertex(plan, "a")->devices.names, "sim:2");
    mr_plan_destroy(&plan);
    static const char paced[] = HEAD THREE
        "sources: {in: {type: 'null', rate: %dfps, format: RGB24 640x480}}\n"
        "stages:\n"
        "  a: {type: preprocess, input: in, size: 64x64, device: auto}\n"
        "  out: {type: 'null', input: a}\n";
    static const struct {
        int rate;
        const char *devices;
    } cases[] = {{30, "sim:1"}, {100, "sim:1, sim:2"}, {1000, "sim:1, sim:2, sim:3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, paced, cases[i].rate);
        plan = load(text, how, "");
        assert_string_equal(vertex(plan, "a")->devices.names, cases[i].devices);
        mr_plan_destroy(&plan);
    }
}

TEST(a_list_leaves_out_what_is_disabled) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD DEVICES SOURCE "stages:\n"
            "  a: {type: preprocess, input: in, size: 8, device: [fast, off, slow]}\n"
            "  out: {type: 'null', input: a}\n", (planning){0}, "");
    const mr_plan_vertex *a = vertex(plan, "a");
    assert_int_equal(a->devices.count, 2);
    assert_string_equal(plan->devices[a->devices.at[0]].name, "sim:0");
    assert_string_equal(plan->devices[a->devices.at[1]].name, "sim:1");
    assert_string_equal(a->devices.reason, "sim:9 is disabled and left out");
    assert_int_equal(a->memory.staging.count, a->calls.in_flight);
    assert_int_equal(a->memory.staging.bytes, 640 * 480 * 3);
    assert_int_equal(vertex(plan, "a->host")->devices.count, 2);
}

TEST(copies_are_shared_and_named) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD DEVICES SOURCE "stages:\n"
            "  a: {type: preprocess, input: in, size: 64x1, order: gray, device: fast}\n"
            "  b: {type: preprocess, input: in, size: 16, device: fast}\n"
            "  c: {type: preprocess, input: in, size: 16, device: slow}\n"
            "  d: {type: classify, input: a, device: slow}\n"
            "  out: {type: 'null', input: [a, b, c]}\n"
            "  last: {type: 'null', input: [d, a]}\n", (planning){0}, "");
    const mr_plan_vertex *up = vertex(plan, "in->sim:0"), *down = vertex(plan, "a->host");
    assert_int_equal(up->copy, MR_COPY_UPLOAD);
    assert_string_equal(up->devices.first, "sim:0");
    assert_int_equal(up->pools[0].memory, MR_MEMORY_DEVICE);
    assert_int_equal(up->pools[0].bytes, 640 * 480 * 3);
    assert_int_equal(vertex(plan, "in->sim:1")->copy, MR_COPY_UPLOAD);
    assert_int_equal(down->copy, MR_COPY_DOWNLOAD);
    assert_string_equal(down->devices.first, "sim:0");
    assert_int_equal(down->pools[0].memory, MR_MEMORY_PINNED);
    assert_int_equal(down->pools[0].bytes, 64 * 4);
    assert_int_equal(vertex(plan, "a->sim:1")->copy, MR_COPY_PEER);
    assert_string_equal(vertex(plan, "a->sim:1")->devices.first, "sim:1");
    /* in, two uploads, a, b, c, the peer copy, d, four downloads, out, last */
    assert_int_equal(plan->vertex_count, 1 + 2 + 3 + 1 + 1 + 4 + 2);
    for (size_t e = 0; e < plan->edge_count; e++)
        assert_true(plan->edges[e].from < plan->edges[e].to);
}

TEST(what_is_assumed_is_planned_with) {
    const char *text = HEAD SOURCE "stages:\n"
                            "  a: {type: preprocess, input: in, size: 8, device: auto}\n"
                            "  b: {type: preprocess, input: in, size: 8, device: \"cuda:7\"}\n"
                            "  out: {type: 'null', input: [a, b]}\n";
    mr_plan *plan = load(text, (planning){.assume = {"cuda:8x80GiB"}, .assume_count = 1, .online = true}, "");
    assert_true(plan->assumed);
    assert_int_equal(plan->device_count, 9);
    assert_int_equal(plan->devices[8].memory_bytes, UINT64_C(80) << 30);
    assert_string_equal(vertex(plan, "a")->devices.first, "cuda:0");
    assert_string_equal(vertex(plan, "b")->devices.first, "cuda:7");
    mr_plan_destroy(&plan);
    assert_int_equal(mr_plan_check_assumption("sim:2"), MR_OK);
    const char *const wrong[] = {"cuda", "cuda:", "cuda:0", "cpu:1", "cuda:8x", "cuda:8y1GiB", "sim:999", "cuda:-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_plan_check_assumption(wrong[i]), MR_ERROR_USAGE);
}

/* 2^62 bytes a frame: sums must not wrap at 2^64 and seem to fit. */
TEST(no_sum_is_too_large_to_be_refused) {
    static const int queues[] = {3, 4, 5, 6};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        char text[512];
        mr_plan *plan;
        mr_diagnostics diagnostics = {0};
        const planning how = {.types = mr_stage_types()};
        snprintf(text, sizeof text,
                 HEAD "devices: {small: {device: sim:0, memory: 1GiB}}\n"
                      "sources: {in: {format: f32 1152921504606846976}}\n"
                      "stages:\n"
                      "  a: {type: classify, input: in, device: small, queue: %d}\n"
                      "  out: {type: 'null', input: a}\n", queues[i]);
        assert_int_equal(plan_text(&plan, text, &how, &diagnostics), MR_ERROR_CONFIG);
        expect_in_print(&diagnostics, "sim:0: buffers may take 16777216.0 TiB of its memory, and it is limited to");
    }
}

TEST(assumed_memory_is_a_limit) {
    expect_refusal(
        HEAD SOURCE "stages:\n"
                    "  a: {type: preprocess, input: in, size: 8, device: \"sim:1\", queue: 40}\n"
                    "  out: {type: 'null', input: a}\n",
        (planning){.assume = {"sim:2x8MiB"}, .assume_count = 1},
        "p.yaml:5:3: error: sim:1: buffers may take 40.4 MiB of its memory, and it has 8.0 MiB: 32.4 MiB are "
        "missing\n"
        "    hint: lower queue of a, which is 40: that saves up to 34.3 MiB\n");
}

static int no_work(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

/* A stage type that works through streams, but has kernels for no GPU. */
TEST(stages_without_cuda_kernels_are_refused) {
    static const mr_port port[] = {{.name = "any"}, {0}};
    static const mr_stage_type unable = {
        .name = "unable", .summary = "for tests", .inputs = port, .outputs = port, .streams = true, .process = no_work};
    const mr_stage_type *const types[] = {&unable, flow_stage_types()[0], NULL};
    expect_refusal(HEAD "sources: {in: {type: count}}\n"
                        "stages: {unable: {input: in, device: [cuda:0, cuda:1]}}\n", (planning){.types = types},
                   "p.yaml:4:10: warning: nothing reads the output \"any\" of \"unable\"\n"
                   "    hint: add a stage with `input: unable`, or remove this one\n"
                   "p.yaml:4:39: error: stages.unable.device: unable has no CUDA kernel in this version\n"
                   "    hint: write cpu; sim:0 does the same work asynchronously, as a GPU would\n");
}

/* A stage type that has CUDA kernels, for hardware that is not available. */
TEST(devices_that_are_not_there_are_refused) {
    static const mr_port port[] = {{.name = "any"}, {0}};
    static const mr_stage_type able = {
        .name = "able", .summary = "for tests", .inputs = port, .outputs = port, .cuda = true, .streams = true,
        .process = no_work};
    const mr_stage_type *const types[] = {&able, flow_stage_types()[0], NULL};
    const char *text = HEAD "sources: {in: {type: count}}\n"
                            "stages: {able: {input: in, device: \"cuda:900\"}}\n";
    mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan;
    const planning online = {.types = types, .online = true};
    assert_int_equal(plan_text(&plan, text, &online, &diagnostics), MR_ERROR_CONFIG);
    assert_int_equal(diagnostics.errors, 1);
    expect_in_print(&diagnostics, ": error: stages.able.device: cuda:900: ");
    plan = load(text, (planning){.types = types},
                "p.yaml:4:10: warning: nothing reads the output \"any\" of \"able\"\n"
                "    hint: add a stage with `input: able`, or remove this one\n");
}

/* sim:1 takes nothing from either source; sim:2 does something else with the frames. */
static int check_any_device(const void *options, const char *device) {
    return MR_OK;
}

static int check_picky_input(const void *options, const mr_format_set *input, const char *device, bool *otherwise) {
    char text[MR_FORMAT_SET_TEXT];
    *otherwise = strcmp(device, "sim:2") == 0;
    return strcmp(device, "sim:0") == 0 ? MR_OK
                                        : mr_fail(MR_ERROR_UNAVAILABLE, "%s has nothing for %s", device,
                                                  mr_format_set_print(input, text, sizeof text));
}

TEST(what_a_device_does_not_take_is_asked_and_told) {
    static const mr_port port[] = {{.name = "any"}, {0}};
    static const mr_stage_type picky = {
        .name = "picky", .summary = "for tests", .inputs = port, .outputs = port, .streams = true, .process = no_work,
        .entry = MR_ENTRY_PER_SOURCE, .check_device = check_any_device, .check_input = check_picky_input};
    const mr_stage_type *types[64] = {&picky};
    for (size_t i = 0; mr_stage_types()[i] && i < 62; i++)
        types[i + 1] = mr_stage_types()[i];
    const planning how = {.types = types, .online = true};
#define TWO(device, more)                                                                                              \
    HEAD more "sources: {a: {format: RGB24 64x48}, b: {format: GRAY8 32x24}}\n"                                       \
              "stages:\n  picky: {input: [a, b], device: " device "}\n  out: {type: 'null', input: picky}\n"
    mr_plan *plan = load(TWO("'sim:0'", ""), how, "");
    assert_null(vertex(plan, "picky")->remarks.here);
    mr_plan_destroy(&plan);
    plan = load(TWO("'sim:2'", ""), how, "");
    assert_string_equal(vertex(plan, "picky")->remarks.here,
                        "of a: sim:2 has nothing for picture RGB24 64x48; of b: sim:2 has "
                        "nothing for picture GRAY8 32x24");
    mr_plan_destroy(&plan);
    expect_refusal(TWO("'sim:1'", ""), how,
                   "p.yaml:5:34: error: stages.picky: a: sim:1 has nothing for picture RGB24 64x48\n");
    plan = load(TWO("auto", "devices: {first: {device: sim:1}, other: {device: sim:2}}\n"), how, "");
    assert_string_equal(vertex(plan, "picky")->devices.first, "sim:2");
    assert_string_equal(
        vertex(plan, "picky")->devices.reason,
        "the first device that can take it (sim:1 cannot run it: a: sim:1 has nothing for picture RGB24 64x48)");
    assert_non_null(strstr(vertex(plan, "picky")->remarks.here, "of b: sim:2 has nothing"));
    mr_plan_destroy(&plan);
#undef TWO
}

RUN_TESTS(NULL, NULL)

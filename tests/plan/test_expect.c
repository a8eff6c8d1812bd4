/* What plans expect from cards that are not present. All figures are calculated by hand for a card with round numbers:
 * memory 1 TB/s, 10 GB/s up, 5 GB/s down, 1 us a launch, 10^12 f32 and 4 x 10^12 f16 operations a second, two decoders
 * with 500 H.264 frames a second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/assumption.h"
#include "engine/planner/planner.h"
#include "millrace/plan.h"
#include "tests/support/fakes.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

#define HEAD FLOW "sources: {in: {format: RGB24 640x480}}\n"
#define FIGURES "\"launch_ns\": 1000, \"f32_s\": 1e12, \"f16_s\": 4e12, \"memory_bytes_s\": 1e12"
#define LINK "\"upload_bytes_s\": 1e10, \"download_bytes_s\": 5e9"
#define MORE "\"copy_engines\": 2, \"kernels\": 128, \"decoders\": 2, \"decode_fps\": {\"h264\": 500}"
#define ROUND "{" FIGURES ", " LINK ", " MORE "}"

/* ---- a stage whose work each test says --------------------------------------------------------------------------- */

enum { PICTURE = 640 * 480 * 3, VECTOR = 1024 * 4 };
static mr_planned_work labour_work;

static int negotiate_labour(mr_negotiation *n) {
    const mr_format vector = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){VECTOR / 4});
    n->outputs[0].set = mr_format_set_of(&vector);
    n->outputs[0].buffer_bytes = (size_t)n->batch * VECTOR;
    n->work = labour_work;
    return MR_OK;
}

static int never(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {0}};
static const mr_port any_port[] = {{.name = "any"}, {0}};
static const mr_port tensor_port[] = {{.name = "out", .accepts = tensors}, {0}};
static const mr_stage_type labour = {.name = "labour",
                                     .summary = "has work",
                                     .inputs = any_port,
                                     .outputs = tensor_port,
                                     .entry = MR_ENTRY_STATELESS,
                                     .batches = true,
                                     .streams = true,
                                     .cuda = true,
                                     .negotiate = negotiate_labour,
                                     .process = never};

static const mr_stage_type *const *types(void) {
    static const mr_stage_type *list[8];
    size_t count = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        if (strcmp((*type)->name, "push") == 0 || strcmp((*type)->name, "null") == 0)
            list[count++] = *type;
    assert_true(count + 2 <= sizeof list / sizeof list[0]);
    list[count++] = &labour;
    list[count] = NULL;
    return list;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static const mr_measured_cost *costs;
static size_t cost_count;

static mr_plan *load(const char *text, const char *assume) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {.types = types(), .path = "p.yaml", .text = text, .default_source_type = "push"};
    const mr_plan_params params = {.inserted = &mr_pipeline_types,
                                   .workers = 2,
                                   .offline = true,
                                   .assume_count = assume != NULL,
                                   .assume = &assume,
                                   .costs = costs,
                                   .cost_count = cost_count};
    mr_plan_load(&plan, &spec, &params, &diagnostics);
    expect_printed(&diagnostics, "");
    return plan;
}

/* With a card that has these figures. */
static mr_plan *load_like(const char *stages, const char *figures, int count) {
    char text[2048], assume[512];
    write_temporary(figures);
    snprintf(text, sizeof text, HEAD "stages:\n%s  out: {type: 'null', input: work}\n", stages);
    snprintf(assume, sizeof assume, "cuda:%dx%s", count, temporary_path);
    return load(text, assume);
}

static const mr_view_expected_stage *stage_of(const mr_plan *plan, const char *id) {
    return &plan->expected->stages[vertex(plan, id) - plan->vertices];
}

static void close_to(double is, double should_be) {
    if (!(is > should_be * 0.9999 && is < should_be * 1.0001))
        fail_msg("%g is not %g", is, should_be);
}

static void limited(const mr_plan *plan, double rate, const char *limit, const char *stage) {
    close_to(plan->expected->rate, rate);
    assert_string_equal(plan->expected->limit, limit);
    if (!stage)
        assert_int_equal(plan->expected->stage, -1);
    else
        assert_string_equal(plan->vertices[plan->expected->stage].id, stage);
}

/* ---- one card ---------------------------------------------------------------------------------------------------- */

#define ONE "  work: {type: labour, input: in, device: \"cuda:0\"}\n"

TEST_WITH(copies_take_their_bytes_at_the_rate_of_the_link, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.launches = 2, .f32_operations = 5e6};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, ROUND, 1);
    close_to(stage_of(plan, "in->cuda:0")->part.upload_ns, PICTURE / 10.0);
    close_to(stage_of(plan, "work->host")->part.download_ns, VECTOR / 5.0);
    const mr_view_work *part = &stage_of(plan, "work")->part;
    close_to(part->launch_ns, 2000);
    close_to(part->memory_ns, (PICTURE + VECTOR) / 1000.0);
    close_to(part->operation_ns, 5000);
    assert_true(part->decode_ns == 0);
    limited(plan, 1e9 / (PICTURE / 10.0), "uploads", "in->cuda:0");
    assert_string_equal(plan->devices[plan->expected->device].name, "cuda:0");
    close_to(plan->expected->devices[plan->expected->device].compute_ns, 5000);
    assert_string_equal(stage_of(plan, "out")->missing, "it runs on the host's processors");
    assert_null(stage_of(plan, "work")->missing);
}

/* Each frame reads 5 MB and needs 2 x 10^6 f32 and 24 x 10^6 f16 operations: 2 + 6 us. */
TEST_WITH(the_longer_of_two_keeps_the_processors_busy, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.launches = 1, .read_bytes = 5e6, .f32_operations = 2e6, .f16_operations = 24e6};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, ROUND, 1);
    close_to(stage_of(plan, "work")->part.memory_ns, 5000 + VECTOR / 1000.0);
    close_to(stage_of(plan, "work")->part.operation_ns, 8000);
    assert_string_equal(stage_of(plan, "work")->limit, "operations");
    close_to(stage_of(plan, "work")->rate, 1e9 / 8000);
    mr_plan_destroy(&plan);
    labour_work.read_bytes = 500e6;
    plan = load_like(ONE, ROUND, 1);
    limited(plan, 1e9 / (500e3 + VECTOR / 1000.0), "the card's processors", "work");
}

/* A call with 8 frames: 4 launches, 16 MB for weights, 8 pictures. */
TEST_WITH(a_batch_shares_what_a_call_takes, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.launches = 4, .call_bytes = 16e6, .more_bytes = 1e6};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like("  work: {type: labour, input: in, device: \"cuda:0\",\n"
                                                        "         batch: {size: 8, timeout: 50ms}}\n", ROUND, 1);
    close_to(stage_of(plan, "work")->part.launch_ns, 4 * 1000 / 8.0);
    close_to(stage_of(plan, "work")->part.memory_ns, (16e6 / 8 + 1e6 + PICTURE + VECTOR) / 1000);
}

/* Launches take 400 us and work takes 100 us. One call at a time gives 2,000 a second, two calls 4,000. With more, the
 * work is the limit, except on a card that runs one kernel at a time. The link could do 10,850. */
TEST_WITH(calls_in_flight_hide_launches, make_temporary, remove_temporary) {
    static const struct {
        const char *in_flight, *kernels, *limit;
        double rate;
    } cases[] = {{"1", "128", "calls in flight", 2000},
                 {"2", "128", "calls in flight", 4000},
                 {"8", "128", "the card's processors", 10000},
                 {"8", "1", "the card's processors", 2000}};
    labour_work = (mr_planned_work){.launches = 400, .f32_operations = 1e8};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char stages[256], figures[512];
        snprintf(stages, sizeof stages, "  work: {type: labour, input: in, device: \"cuda:0\", in_flight: %s}\n",
                 cases[i].in_flight);
        snprintf(figures, sizeof figures, "{" FIGURES ", " LINK ", \"kernels\": %s}", cases[i].kernels);
        ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(stages, figures, 1);
        limited(plan, cases[i].rate, cases[i].limit, "work");
    }
}

TEST_WITH(one_copy_engine_does_both_ways, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.launches = 1};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, "{" FIGURES ", " LINK ", \"copy_engines\": 1}", 1);
    limited(plan, 1e9 / (PICTURE / 10.0 + VECTOR / 5.0), "copies", "in->cuda:0");
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

/* 720p has 1/2.25 as many pixels: one decoder gives 1,125 frames a second. A stream uses one decoder; two streams use
 * both. */
TEST_WITH(decoders_take_what_their_table_says, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.codec = "h264", .decoded_pixels = 1280 * 720};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, ROUND, 1);
    close_to(stage_of(plan, "work")->part.decode_ns, 1e9 / 1125);
    limited(plan, 1125, "decoding", "work");
    close_to(plan->expected->devices[1].decode_ns, 1e9 / 2250);
    mr_plan_destroy(&plan);
    labour_work.codec = "av1";
    plan = load_like(ONE, ROUND, 1);
    assert_string_equal(stage_of(plan, "work")->missing, "the card's decoding rate for av1 is not known");
    assert_true(stage_of(plan, "work")->rate == 0);
    mr_plan_destroy(&plan);
    labour_work = (mr_planned_work){.codec = "h264"};
    plan = load_like(ONE, ROUND, 1);
    assert_string_equal(stage_of(plan, "work")->missing, "the size of pictures of h264 is not known");
}

/* ---- several devices, the host, sources -------------------------------------------------------------------------- */

TEST_WITH(two_cards_do_half_each, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){.launches = 1, .f32_operations = 4e9};
    mr_plan *plan = load_like("  work: {type: labour, input: in, device: [\"cuda:0\", \"cuda:1\"]}\n", ROUND, 2);
    limited(plan, 500, "the card's processors", "work");
    close_to(plan->expected->devices[1].compute_ns, 2e6);
    close_to(plan->expected->devices[2].compute_ns, 2e6);
    close_to(plan->expected->devices[2].upload_ns, PICTURE / 10.0 / 2);
    mr_plan_destroy(&plan);
}

/* Two workers; by a profile, `out` needs one worker for 1.5 ms. */
TEST_WITH(the_host_takes_what_was_measured, make_temporary, remove_temporary) {
    static const mr_measured_cost measured[] = {{"out", 1.5e6}};
    labour_work = (mr_planned_work){.launches = 1};
    costs = measured;
    cost_count = 1;
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, ROUND, 1);
    costs = NULL;
    cost_count = 0;
    limited(plan, 2 / 1.5e-3, "processors", "out");
    assert_int_equal(plan->expected->device, -1);
}

TEST_WITH(what_is_not_known_is_said, make_temporary, remove_temporary) {
    labour_work = (mr_planned_work){0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_like(ONE, ROUND, 1);
    assert_string_equal(stage_of(plan, "work")->missing, "its kernels are not counted");
    close_to(stage_of(plan, "work")->part.memory_ns, (PICTURE + VECTOR) / 1000.0);
    mr_plan_destroy(&plan);
    labour_work = (mr_planned_work){.launches = 1, .f32_operations = 1, .unknown = "the rest"};
    plan = load_like(ONE, "{\"launch_ns\": 5}", 1);
    assert_string_equal(stage_of(plan, "work")->missing, "the rest; the card's f32 rate is not known; the card's "
                                                         "memory bandwidth is not known");
    assert_string_equal(stage_of(plan, "in->cuda:0")->missing, "the bandwidth of the card's link is not known");
    mr_plan_destroy(&plan);
    plan = load(HEAD "stages: {work: {type: labour, input: in, device: sim:0}, out: {type: 'null', input: work}}\n",
                NULL);
    assert_null(plan->expected);
}

/* Plans also expect figures from a simulated device that is like a card, with the figures written after it. */
TEST(a_simulated_device_is_a_card_too) {
    labour_work = (mr_planned_work){.launches = 1};
    mr_plan *plan = load(HEAD "stages: {work: {type: labour, input: in, device: \"sim:0?like=h100&upload=1GB/s\"},\n"
                              "  out: {type: 'null', input: work}}\n", NULL);
    limited(plan, 1e9 / PICTURE, "uploads", "in->sim:0?like=h100&upload=1GB/s");
    assert_false(plan->assumed);
    mr_plan_destroy(&plan);
}

/* ---- more of anything is never less ------------------------------------------------------------------------------ */

static double rate_with(const char *key, double figure) {
    char figures[512];
    snprintf(figures, sizeof figures, "{\"like\": \"l4\", \"%s\": %g}", key, figure);
    mr_plan *plan = load_like(ONE, figures, 1);
    double rate = plan->expected->rate;
    mr_plan_destroy(&plan);
    assert_true(rate > 0);
    return rate;
}

TEST_WITH(twice_of_a_figure_never_expects_fewer, make_temporary, remove_temporary) {
    static const struct {
        const char *key;
        double least;
    } figures[] = {{"memory_bytes_s", 1e8}, {"upload_bytes_s", 1e6}, {"download_bytes_s", 1e5}, {"f32_s", 1e9},
                   {"f16_s", 1e9},          {"kernels", 1},          {"copy_engines", 1}};
    static const mr_planned_work works[] = {{.launches = 1},
                                            {.launches = 50, .f32_operations = 1e7},
                                            {.launches = 3, .f32_operations = 4e9, .f16_operations = 1e9},
                                            {.launches = 3, .more_bytes = 1e9}};
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++)
        for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
            labour_work = works[w];
            double before = 0, at = figures[f].least;
            for (int step = 0; step < 10; step++, at *= 2) {
                double rate = rate_with(figures[f].key, at);
                assert_true(rate >= before);
                before = rate;
            }
        }
}

/* ---- a run beside what is expected of it ------------------------------------------------------------------------- */

/* A run's source frames per second in simulated time on this device, and what the plan expected. */
static double run_rate(const char *device, const char *more, double *expected) {
    enum { FRAMES = UNDER_TSAN(40, 200) };
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources: {in: {type: 'null', format: RGB24 640x480, frames: %d}}\n"
             "stages:\n  work: {type: preprocess, input: in, size: 224x224, device: \"%s\"%s}\n"
             "  out: {type: 'null', input: work}\n", FRAMES, device, more);
    const mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "p.yaml", .text = text, .seed = 7, .workers = 1};
    mr_pipeline *pipeline = opened(&params);
    *expected = pipeline->plan->expected->rate;
    int64_t begin = mr_executor_now_ns(pipeline->graph->run.executor);
    mr_summary *summary = flow_run(pipeline);
    double seconds = (double)(mr_executor_now_ns(pipeline->graph->run.executor) - begin) / 1e9;
    assert_int_equal(summary->delivered, FRAMES);
    flow_close(&pipeline, &summary);
    return FRAMES / seconds;
}

/* Each has another limit: uploads, the card's memory, launches with one call at a time, batches, both copies. */
TEST(a_simulated_run_comes_near_what_is_expected) {
    static const char *const runs[][2] = {
        {"sim:0?like=h100&upload=1GB/s", ""},
        {"sim:0?like=h100&compute=1GB/s", ""},
        {"sim:0?like=h100&call=2ms", ", in_flight: 1"},
        {"sim:0?like=h100&call=8ms", ", in_flight: 1, batch: {size: 8, timeout: 10ms}"},
        {"sim:0?like=h100&download=100MB/s", ""},
        {"sim:0?like=l4&copies=1&copy=500MB/s", ""},
        {"sim:0?like=h100&memory=1GiB", ""},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        double expected, reached = run_rate(runs[i][0], runs[i][1], &expected);
        print_message("%s%s: expected %g, reached %g\n", runs[i][0], runs[i][1], expected, reached);
        assert_true(reached > expected / 1.5 && reached < expected * 1.1);
    }
}

/* ---- what can be assumed ----------------------------------------------------------------------------------------- */

TEST(cards_are_assumed_by_name) {
    labour_work = (mr_planned_work){.launches = 1};
    static const struct {
        const char *assume, *card;
        uint64_t gibibytes;
    } cases[] = {{"cuda:1xH100", "h100", 80},
                 {"cuda:1xh100x40GiB", "h100", 40},
                 {"cuda:1xRTX-4090", "rtx4090", 24},
                 {"cuda:3xrtx4090x8GiB", "rtx4090", 8},
                 {"cuda:2xa100-40gb", "a100-40gb", 40}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mr_plan *plan = load(HEAD "stages: {work: {type: labour, input: in, device: \"cuda:0\"},\n"
                                  "  out: {type: 'null', input: work}}\n", cases[i].assume);
        assert_string_equal(plan->devices[1].card->name, cases[i].card);
        assert_int_equal(plan->devices[1].memory_bytes, cases[i].gibibytes << 30);
        assert_int_equal(plan->devices[1].card->memory_bytes, cases[i].gibibytes << 30);
        assert_true(plan->assumed);
        mr_plan_destroy(&plan);
    }
}

TEST(wrong_cards_are_refused) {
    static const char *const wrong[][2] = {{"cuda:1xh10o", "did you mean \"h100\"?"},
                                           {"cuda:1xrtx409", "did you mean \"rtx4090\"?"},
                                           {"cuda:1xh100x", "there is no model of a card \"h100x\""},
                                           {"cuda:1xnowhere.json", "cannot read the figures of a card nowhere.json"},
                                           {"cuda:1x", "not \"cuda:1x\""},
                                           {"cuda:1xx8GiB", "not \"cuda:1xx8GiB\""},
                                           {"cuda:1xh100x0GiB", "not \"cuda:1xh100x0GiB\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(mr_plan_check_assumption(wrong[i][0]), MR_ERROR_USAGE);
        if (!strstr(mr_message(), wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], mr_message());
    }
}

RUN_TESTS(NULL, NULL)

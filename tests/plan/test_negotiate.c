/* How the planner handles stages that choose, narrow, pass on and promise. The fakes only answer, and count how often
 * they are asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "stages/list.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

/* ---- fakes ----------------------------------------------------------------------------------------------------- */

static int most_asked, asked_in_all;
static bool settled_at_last;

/* A stage's options count how often it was asked. */
static void count(const mr_negotiation *n, const int *asked) {
    int *counter = (int *)(uintptr_t)asked;
    most_asked = ++*counter > most_asked ? *counter : most_asked;
    asked_in_all++;
    settled_at_last = n->input_count == 0 || n->inputs[0].settled;
}

typedef struct span_options {
    mr_size least, most;
} span_options;

/* span, a source: pictures with a size between both. */
static int negotiate_span(mr_negotiation *n) {
    const span_options *o = n->options;
    n->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_PICTURE,
                                        .pixels = MR_IN_SET(MR_PIXEL_RGB24) | MR_IN_SET(MR_PIXEL_GRAY8),
                                        .width = {o->least.width, o->most.width},
                                        .height = {o->least.height, o->most.height}};
    return MR_OK;
}

typedef struct shape_options {
    mr_size size;
    int asked;
} shape_options;

/* shape: pictures -> a tensor, 3 x height x width, with the type and size that later stages take. */
static int negotiate_shape(mr_negotiation *n) {
    const shape_options *o = n->options;
    count(n, &o->asked);
    n->outputs[0].chosen = true;
    n->outputs[0].unfixed = "write size";
    n->outputs[0].set = (mr_format_set){
        .payload = MR_PAYLOAD_TENSOR,
        .dtypes = MR_IN_SET(MR_DTYPE_U8) | MR_IN_SET(MR_DTYPE_F16) | MR_IN_SET(MR_DTYPE_F32),
        .layouts = MR_IN_SET(MR_LAYOUT_NCHW) | MR_IN_SET(MR_LAYOUT_NHWC),
        .rank = 3,
        .dims = {{3, 3}, {o->size.height, o->size.height}, {o->size.width, o->size.width}}};
    return MR_OK;
}

static bool suggest_size(const void *options, const mr_format_set *wanted, char *text, size_t bytes) {
    snprintf(text, bytes, "size: %dx%d", (int)wanted->dims[2].max, (int)wanted->dims[1].max);
    return wanted->rank == 3 && wanted->dims[0].max == 3;
}

typedef struct net_options {
    mr_format takes;
    int asked;
} net_options;

/* net: passes tensors on, accepts only `takes`, and adds a result "y" with the same format. */
static int negotiate_net(mr_negotiation *n) {
    const net_options *o = n->options;
    const mr_format_set set = mr_format_set_of(&o->takes);
    count(n, &o->asked);
    mr_take(n, 0, &set, "the input \"x\" of %s", n->id);
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return mr_promise_result(n, 0, mr_kind_tensor(), "y", &set);
}

/* flat: any f32 tensor -> one row with all numbers, once the count is known. */
static int negotiate_flat(mr_negotiation *n) {
    const mr_format_set takes = {.payload = MR_PAYLOAD_TENSOR, .dtypes = MR_IN_SET(MR_DTYPE_F32)};
    const net_options *o = n->options;
    count(n, &o->asked);
    const int64_t length = (int64_t)mr_tensor_count(&n->inputs[0].format);
    const mr_format row = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &length);
    n->outputs[0].set = mr_format_set_of(&row);
    mr_take(n, 0, &takes, "what it can flatten");
    return MR_OK;
}

/* small: a sink for pictures up to 100 x 100. */
static int negotiate_small(mr_negotiation *n) {
    const mr_format_set takes = {.payload = MR_PAYLOAD_PICTURE, .width = {1, 100}, .height = {1, 100}};
    mr_take(n, 0, &takes, "there is no room for more");
    return MR_OK;
}

/* blind: a sink that must open a file to know what it takes. */
static int negotiate_blind(mr_negotiation *n) {
    n->unread = n->offline;
    return MR_OK;
}

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {0}};
static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {0}};
static const mr_port pictures_port[] = {{.name = "pictures", .accepts = pictures}, {0}};
static const mr_port tensors_port[] = {{.name = "tensors", .accepts = tensors}, {0}};
static const mr_port maybe_port[] = {{.name = "tensors", .accepts = tensors, .optional = true}, {0}};

static const mr_option span_table[] = {
    {.name = "least", .kind = MR_OPTION_SIZE, .offset = offsetof(span_options, least), .required = true,
     .help = "size"},
    {.name = "most", .kind = MR_OPTION_SIZE, .offset = offsetof(span_options, most), .required = true,
     .help = "size"},
    MR_OPTIONS_END};
static const mr_option shape_table[] = {
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = offsetof(shape_options, size), .help = "size"},
    MR_OPTIONS_END};
static const mr_option net_table[] = {
    {.name = "takes", .kind = MR_OPTION_FORMAT, .offset = offsetof(net_options, takes), .fallback = "f32",
     .help = "what it takes"},
    MR_OPTIONS_END};

static const mr_stage_type span = {.name = "span", .summary = "pictures", .outputs = pictures_port,
                                   .options = span_table,
                                   .options_bytes = sizeof(span_options), .entry = MR_ENTRY_PER_SOURCE,
                                   .negotiate = negotiate_span};
static const mr_stage_type shape = {.name = "shape", .summary = "tensors", .inputs = pictures_port,
                                    .outputs = tensors_port, .options = shape_table,
                                    .options_bytes = sizeof(shape_options), .negotiate = negotiate_shape,
                                    .suggest = suggest_size};
static const mr_stage_type net = {.name = "net", .summary = "network", .inputs = tensors_port, .outputs = maybe_port,
                                  .options = net_table, .options_bytes = sizeof(net_options),
                                  .negotiate = negotiate_net};
static const mr_stage_type flat = {.name = "flat", .summary = "row", .inputs = tensors_port, .outputs = maybe_port,
                                   .options = net_table, .options_bytes = sizeof(net_options),
                                   .negotiate = negotiate_flat};
static const mr_stage_type small = {.name = "small", .summary = "sink", .inputs = pictures_port,
                                    .negotiate = negotiate_small};
static const mr_stage_type blind = {.name = "blind", .summary = "sink", .inputs = tensors_port,
                                    .negotiate = negotiate_blind};

/* ---- loading --------------------------------------------------------------------------------------------------- */

static int load_as(mr_plan **plan, const char *text, bool offline, mr_diagnostics *diagnostics) {
    const mr_stage_type *types[32] = {&span, &shape, &net, &flat, &small, &blind, &mr_join_stage};
    for (size_t i = 0; fake_types[i]; i++)
        types[7 + i] = fake_types[i];
    const mr_spec_params spec = {.types = types, .default_source_type = "span", .path = "p.yaml", .text = text};
    most_asked = asked_in_all = 0;
    return mr_plan_load(
        plan, &spec, &(mr_plan_params){.inserted = &mr_pipeline_types, .workers = 2, .offline = offline}, diagnostics);
}

static mr_plan *load(const char *text) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    int status = load_as(&plan, text, false, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    assert_int_equal(status, MR_OK);
    mr_diagnostics_fini(&diagnostics);
    return plan;
}

static void refused(const char *text, const char *expected) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    assert_int_equal(load_as(&plan, text, false, &diagnostics), MR_ERROR_CONFIG);
    expect_printed(&diagnostics, expected);
}

static void gives(const mr_plan *plan, const char *id, const char *expected) {
    char text[MR_FORMAT_SET_TEXT];
    assert_string_equal(mr_format_set_print(&vertex(plan, id)->outputs[0].set, text, sizeof text), expected);
}

#define HEAD "version: 1\npipeline: p\nsources: {in: {least: 4x4, most: 640x480}}\nstages:\n"

/* ---- choices --------------------------------------------------------------------------------------------------- */

TEST(one_consumer_narrows) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "  shape: {input: in}\n"
                                                        "  net: {input: shape, takes: f16 3x8x6}\n");
    gives(plan, "shape", "tensor f16 3x8x6");
    assert_int_equal(vertex(plan, "shape")->formats[0].layout, MR_LAYOUT_NCHW);
    assert_int_equal(vertex(plan, "net")->inputs[0].format.dims[2], 6);
    /* The network's answer already matched: only the stage that chooses was asked again. */
    assert_int_equal(asked_in_all, 3);
}

TEST(two_consumers_narrow_together) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "  shape: {input: in}\n"
                                                        "  any: {type: net, input: shape, takes: u8}\n"
                                                        "  net: {input: shape, takes: u8 3x8x6}\n"
                                                        "  out: {type: trash, input: shape}\n");
    gives(plan, "shape", "tensor u8 3x8x6");
    gives(plan, "any", "tensor u8 3x8x6");
}

TEST(what_nobody_asks_for_is_a_default) {
    mr_plan *plan = load(HEAD "  shape: {input: in, size: 6x8}\n  out: {type: trash, input: shape}\n");
    gives(plan, "shape", "tensor f32 3x8x6");
    mr_plan_destroy(&plan);
    refused(HEAD "  shape: {input: in}\n  out: {type: trash, input: shape}\n",
            "p.yaml:5:3: error: shape can give any tensor f32 3x?x? NCHW, and no stage after it determines which\n"
            "    hint: write size\n");
}

/* If two agree in part and a third fits neither, the message names the third and the one that it contradicts. */
TEST(conflicting_consumers_are_both_named) {
    refused(
        HEAD "  shape: {input: in}\n"
             "  one: {type: net, input: shape, takes: f32 3x8x6}\n"
             "  two: {type: net, input: shape, takes: f32 3x9x9}\n",
        "p.yaml:7:27: error: one takes tensor f32 3x8x6 (the input \"x\" of one) and two takes tensor f32 3x9x9 (the "
        "input \"x\" of two), but both read the output of shape\n"
        "    hint: give each of them its own stage of type shape\n");
    refused(
        HEAD "  shape: {input: in}\n"
             "  same: {input: shape}\n"
             "  again: {type: same, input: same}\n"
             "  one: {type: net, input: again, takes: u8}\n"
             "  two: {type: net, input: same, takes: f32 3x9x9}\n",
        "p.yaml:9:27: error: one takes tensor u8 (the input \"x\" of one) and two takes tensor f32 3x9x9 (the input "
        "\"x\" of two), but both read the output of shape\n"
        "    hint: give each of them its own stage of type shape\n");
}

TEST(needs_go_through_what_passes_on) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "  shape: {input: in}\n"
                                                        "  same: {input: shape}\n"
                                                        "  other: {type: shape, input: in, size: 2x2}\n"
                                                        "  both: {type: join, join: {a: same, b: other}}\n"
                                                        "  net: {input: both, takes: u8 3x5x7}\n");
    gives(plan, "shape", "tensor u8 3x5x7");
    gives(plan, "same", "tensor u8 3x5x7");
    gives(plan, "both", "tensor u8 3x5x7");
    gives(plan, "other", "tensor f32 3x2x2");
}

/* ---- what does not fit ----------------------------------------------------------------------------------------- */

TEST(options_are_suggested_before_stages) {
    refused(
        HEAD "  shape: {input: in, size: 4x4}\n"
             "  same: {input: shape}\n"
             "  net: {input: same, takes: f32 3x8x6}\n",
        "p.yaml:7:16: error: net takes tensor f32 3x8x6 (the input \"x\" of net), but same gives tensor u8|f16|f32 "
        "3x4x4\n    hint: write size: 6x8 in shape\n");
    /* One channel cannot be had from it, whatever is written there, and no stage in between would help. */
    refused(
        HEAD "  shape: {input: in, size: 4x4}\n"
             "  net: {input: shape, takes: f32 1x4x4}\n",
        "p.yaml:6:16: error: net takes tensor f32 1x4x4 (the input \"x\" of net), but shape gives tensor u8|f16|f32 "
        "3x4x4\n");
}

TEST(bounded_sets_stay_bounded) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load("version: 1\npipeline: p\n"
            "sources: {a: {least: 4x4, most: 640x480}, b: {least: 9x9, most: 30x500}}\n"
            "stages:\n  same: {input: [a, b]}\n  out: {type: trash, input: same}\n");
    gives(plan, "a", "picture GRAY8|RGB24 4..640x4..480");
    gives(plan, "same", "picture GRAY8|RGB24 4..640x4..500");
    assert_int_equal(vertex(plan, "same")->formats[0].width, 0);
}

TEST(what_may_exceed_is_refused) {
    refused(HEAD "  small: {input: in}\n",
            "p.yaml:5:18: error: small takes picture up to 100x100 (there is no room for more), but in gives picture "
            "GRAY8|RGB24 4..640x4..480\n");
    mr_plan *plan = load("version: 1\npipeline: p\nsources: {in: {least: 4x4, most: 100x99}}\nstages:\n"
                         "  same: {input: in}\n  small: {input: same}\n");
    mr_plan_destroy(&plan);
}

/* ---- asking again ---------------------------------------------------------------------------------------------- */

TEST(stages_behind_a_choice_are_asked_again) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "  shape: {input: in}\n"
                                                        "  flat: {input: shape}\n"
                                                        "  net: {input: shape, takes: f32 3x8x6}\n"
                                                        "  out: {type: trash, input: flat}\n");
    gives(plan, "flat", "tensor f32 144");
    assert_int_equal(asked_in_all, 5);
    assert_int_equal(most_asked, 2);
    assert_true(settled_at_last);
}

/* However many choices follow each other or are parallel, no stage is asked more than twice. */
TEST(planning_grows_with_the_links) {
    enum { STAGES = 200 };
    FREED char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fputs(HEAD "  shape: {input: in}\n  s0: {type: flat, input: shape}\n", out);
    for (int i = 1; i < STAGES; i++)
        fprintf(out, "  s%d: {type: %s, input: s%d}\n", i, i % 2 ? "same" : "flat", i - 1);
    fprintf(out, "  net: {input: shape, takes: f32 3x8x6}\n  out: {type: trash, input: s%d}\n", STAGES - 1);
    fclose(out);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text);
    gives(plan, "s199", "tensor f32 144");
    assert_int_equal(most_asked, 2);
    assert_true(asked_in_all <= 2 * (STAGES / 2 + 2));
}

/* Offline, a file that says what a stage takes stays closed. A format that is unknown only for this reason is no
 * error. */
TEST(what_was_not_read_is_left_open) {
    static const char text[] = HEAD "  shape: {input: in}\n  same: {input: shape}\n  blind: {input: same}\n";
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    assert_int_equal(load_as(&plan, text, true, &diagnostics), MR_OK);
    assert_int_equal(diagnostics.count, 0);
    gives(plan, "shape", "tensor f32 3x?x? NCHW");
    mr_plan_destroy(&plan);
    refused(text,
            "p.yaml:5:3: error: shape can give any tensor f32 3x?x? NCHW, and no stage after it determines which\n"
            "    hint: write size\n");
}

/* ---- results --------------------------------------------------------------------------------------------------- */

/* `expected`: each result's name and format, newest first. */
static size_t promised(const mr_plan_vertex *vertex, const char *const (*expected)[2]) {
    size_t count_of = 0;
    for (const mr_planned_result *one = vertex->inputs[0].results; one; one = one->next, count_of++) {
        char text[MR_FORMAT_SET_TEXT];
        assert_string_equal(one->name, expected[count_of][0]);
        assert_string_equal(mr_format_set_print(&one->set, text, sizeof text), expected[count_of][1]);
    }
    return count_of;
}

/* As stages/join.c joins them: later inputs' results are newer, and results from before the fork appear once. If a
 * later input is a vector, it comes before the results about it. */
TEST(joined_results_are_all_promised) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "  shape: {input: in, size: 6x8}\n"
                                                        "  old: {type: net, input: shape}\n"
                                                        "  one: {type: net, input: old, takes: f32 3x8x6}\n"
                                                        "  two: {type: flat, input: old}\n"
                                                        "  three: {type: net, input: two, takes: f32 144}\n"
                                                        "  both: {type: join, join: {a: one, b: three}}\n"
                                                        "  out: {type: trash, input: both}\n"
                                                        "  merged: {type: trash, input: [one, three]}\n");
    const char *const expected[][2] = {
        {"y", "tensor f32 144"}, {"b", "tensor f32 144"}, {"y", "tensor f32 3x8x6"}, {"y", "tensor f32"}};
    assert_int_equal(promised(vertex(plan, "out"), expected), 4);
    assert_false(vertex(plan, "out")->inputs[0].more_results);
    /* A merge's frame need not have both inputs' results. */
    assert_null(vertex(plan, "merged")->inputs[0].results);
    assert_true(vertex(plan, "merged")->inputs[0].more_results);
}

RUN_TESTS(NULL, NULL)

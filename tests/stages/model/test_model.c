/* features and infer on small networks, compared with ONNX Runtime's Python on the same inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/huge/huge_heap.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/model.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_report.h"
#include "stages/model/runtime.h"
#include "tests/base/huge/huge_mappings.h"
#include "tests/support/models.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { IMAGE = 3 * 8 * 6, OUT = 4 * 4 * 3, INNER = 4 * 8 * 6 };

static float images[MODELS_FRAMES * IMAGE], pairs[MODELS_FRAMES * 5];

/* If the order changes, sums over 30 products differ in the last bits. A larger difference is an error. */
static void same(const char *reference, const arrived *got, size_t count) {
    static float expected[4096];
    models_read(reference, expected, count);
    assert_int_equal(got->count, count);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got->values[i] - expected[i]) <= 2e-6f * (1 + fabsf(expected[i]))))
            fail_msg("%s: value %zu is %.9g, not %.9g", reference, i, (double)got->values[i], (double)expected[i]);
}

static void expect(const char *format, const float *frames, const char *stages, const char *reference, size_t count,
                   void (*look)(arrived *, const mr_frame *)) {
    static arrived got;
    got = (arrived){.look = look};
    models_expect_run(format, frames, stages, &got);
    same(reference, &got, count * MODELS_FRAMES);
}

static void features_of(const char *options, const char *reference, size_t count) {
    char stages[1024];
    snprintf(stages, sizeof stages,
             "  features: {input: in, model: @/%s}\n  sink: {type: callback, input: features}\n", options);
    expect("f32 3x8x6", images, stages, reference, count, look_at_payload);
}

MODEL_TEST(features_are_those_of_the_reference) {
    features_of("any-batch.onnx", "out", OUT);
    features_of("any-batch.onnx, tensor: out", "out", OUT);
    features_of("any-batch.onnx, pool: average", "pooled", 4);
    features_of("any-batch.onnx, pool: average, normalize: l2", "unit", 4);
    features_of("free-size.onnx", "out", OUT);
}

MODEL_TEST(an_inner_tensor_can_be_had) {
    features_of("any-batch.onnx, tensor: inner", "inner", INNER);
}

/* Seven frames in batches of four: one batch is not full. */
MODEL_TEST(batches_change_nothing) {
    features_of("any-batch.onnx, batch: {size: 4, timeout: 1ms}", "out", OUT);
    features_of("any-batch.onnx, batch: {size: 3, timeout: 50ms}, pool: average, normalize: l2", "unit", 4);
    features_of("batch-of-4.onnx, batch: {size: 4, timeout: 50ms}", "out", OUT);
    features_of("batch-of-4.onnx", "out", OUT);
}

MODEL_TEST(an_accelerator_changes_nothing) {
    features_of("any-batch.onnx, device: 'sim:0', batch: {size: 4, timeout: 1ms}", "out", OUT);
    features_of("any-batch.onnx, device: 'sim:0', pool: average, normalize: l2", "unit", 4);
    expect("f32 3x8x6", images,
           "  network: {type: infer, device: 'sim:0', input: in, model: @/any-batch.onnx}\n"
           "  sink: {type: callback, input: network}\n",
           "out", OUT, look_at_tensor);
}

MODEL_TEST(infer_adds_tensors_and_keeps_the_payload) {
    static const char stages[] = "  network: {type: infer, input: in, model: @/any-batch.onnx}\n"
                                 "  sink: {type: callback, input: network}\n";
    expect("f32 3x8x6", images, stages, "out", OUT, look_at_tensor);
    expect("f32 3x8x6", images, stages, "images", IMAGE, look_at_payload);
    expect("f32 3x8x6", images,
           "  network: {type: infer, input: in, model: @/any-batch.onnx, batch: {size: 4, timeout: 1ms}}\n"
           "  sink: {type: callback, input: network}\n",
           "out", OUT, look_at_tensor);
}

MODEL_TEST(inputs_are_joined_by_name) {
    char stages[1024];
    static const char form[] = "  one: {type: 'null', input: in}\n  two: {type: 'null', input: in}\n"
                               "  network: {type: infer, join: {b: one, a: two}, model: @/two-inputs.onnx%s}\n"
                               "  sink: {type: callback, input: network}\n";
    snprintf(stages, sizeof stages, form, "");
    expect("f32 5", pairs, stages, "sum", 5, look_at_tensor);
    snprintf(stages, sizeof stages, form, ", outputs: difference");
    expect("f32 5", pairs, stages, "difference", 5, look_at_tensor);
    snprintf(stages, sizeof stages, form, ", outputs: [difference, sum]");
    expect("f32 5", pairs, stages, "difference", 5, look_at_tensor);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

/* Planning finds this, without a device. */
MODEL_TEST(graphs_need_known_sizes) {
    REFUSED(MR_ERROR_CONFIG, "f32 3x8x6", "type: features, model: @/free-size.onnx, cuda_graph: true", "6:",
            "cuda_graph needs outputs of known size, but free-size.onnx has outputs of unknown size; remove "
            "cuda_graph");
}

MODEL_TEST(files_that_are_no_networks) {
    REFUSED(MR_ERROR_NO_INPUT, "f32 5", "type: features, model: @/none.onnx", "none.onnx", "6:");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: features, model: @/garbage.onnx", "garbage.onnx");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: features, model: @/cut.onnx", "cut.onnx", "truncated: it ends at byte",
            "inside");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @", "is a folder");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/empty.onnx", "empty");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/head.npy", "head.npy", "is a .npy array");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/pickled.onnx", "zip archive", "torch.onnx.export");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/outside.onnx", "outside.onnx",
            "another file, \"outside.data\"", "write external_data: ");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/hidden.onnx", "hidden.onnx", "another file");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/default.onnx", "default.onnx", "another file");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/compiled.onnx", "compiled.onnx", "EPContext");
}

/* models.py shows that ONNX Runtime would load the other file for the first. */
MODEL_TEST(fields_in_disguise) {
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/disguised.onnx", "disguised.onnx", "does not load");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: features, model: @/disguised.onnx", "disguised.onnx", "does not load");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/overlong.onnx", "overlong.onnx", "does not load");
}

MODEL_TEST(weights_that_are_no_numbers) {
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/nan-weight.onnx", "6:", "nan-weight.onnx", "\"fc.weight\"",
            "(of a Gemm)", "nan at row 3, column 1");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: features, model: @/nan-bias.onnx", "\"fc.bias\"", "infinite at index 1");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/nan-half.onnx", "\"w\"", "infinite at row 3, column 1");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/nan-constant.onnx", "(of a MatMul)", "row 3, column 1");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: infer, model: @/nan-listed.onnx", "nan at row 3, column 1");
    REFUSED(MR_ERROR_DATA, "f32 3x8x6", "type: infer, model: @/nan-conv.onnx", "\"kernel\"", "nan at index 2, 0, 1, 2");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: classify, weights: @/nan-head.npy", "6:", "nan-head.npy",
            "row 4, column 5 is nan");
    /* A limit and a mask may be infinite. */
    ENDED_BY(mr_model_close) mr_model *model = NULL;
    assert_int_equal(mr_model_open(&model, &(mr_model_params){.path = "model-test-files/masked.onnx"}), MR_OK);
}

MODEL_TEST(shapes_and_types_that_do_not_fit) {
    REFUSED(MR_ERROR_CONFIG, "f32 3x6x8", "type: features, model: @/any-batch.onnx", "any-batch.onnx", "\"images\"",
            "3x8x6", "3x6x8", "in");
    REFUSED(MR_ERROR_CONFIG, "f32 4x8x6", "type: features, model: @/free-size.onnx", "3x?x?", "4x8x6");
    REFUSED(MR_ERROR_CONFIG, "u8 3x8x6", "type: features, model: @/any-batch.onnx",
            "takes tensor f32 3x8x6 (the input \"images\" of any-batch.onnx), but in gives tensor u8 3x8x6");
    REFUSED(MR_ERROR_CONFIG, "f32 5", "type: infer, model: @/bytes.onnx", "takes tensor u8 5 (the input",
            "gives tensor f32 5");
    REFUSED(MR_ERROR_CONFIG, "f32 5", "type: infer, model: @/seen.onnx, device: sim:0", "\"places\"",
            "seen.onnx", "depends");
    REFUSED(MR_ERROR_CONFIG, "f32 3x8x6", "type: features, model: @/batch-of-4.onnx, batch: {size: 8}",
            "batches of 4", "8");
}

MODEL_TEST(names_that_are_not_there) {
    REFUSED(MR_ERROR_CONFIG, "f32 3x8x6", "type: features, model: @/any-batch.onnx, tensor: nose", "\"nose\"",
            "any-batch.onnx", "out");
    REFUSED(MR_ERROR_CONFIG, "f32 3x8x6", "type: infer, model: @/any-batch.onnx, outputs: [out, nose]", "\"nose\"");
    REFUSED(MR_ERROR_CONFIG, "f32 3x8x6", "type: infer, model: @/any-batch.onnx, outputs: [out, out]", "twice");
    REFUSED(MR_ERROR_CONFIG, "f32 5", "type: infer, model: @/two-inputs.onnx", "2 inputs (a, b)", "join");
    REFUSED(MR_ERROR_CONFIG, "f32 5", "type: features, model: @/two-inputs.onnx", "infer");
}

/* Loading a network needs a runtime. */
MODEL_TEST(another_runtime) {
    arrived got = {.look = look_at_payload};
    assert_int_equal(models_run("f32 3x8x6", images,
                                "  features: {input: in, model: @/any-batch.onnx}\n"
                                "  again: {type: infer, input: in, model: @/any-batch.onnx, runtime: /etc/passwd}\n"
                                "  sink: {type: callback, input: [features, again]}\n", &got),
                     MR_ERROR_CONFIG);
    expect_words(mr_message(), "again: another ONNX Runtime");
    expect_words(mr_message(), "a process can have only one");
    assert_int_equal(got.frames, 0);
}

/* ---- files without a runtime ----------------------------------------------------------------------------------- */

static void same_tensors(const char *file, const mr_model_tensor *told, const mr_model_tensor *real, size_t count) {
    char told_shape[MR_SHAPE_TEXT], real_shape[MR_SHAPE_TEXT];
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(told[i].name, real[i].name);
        assert_string_equal(told[i].type, real[i].type);
        assert_string_equal(told[i].symbol, real[i].symbol);
        assert_int_equal(told[i].dtype, real[i].dtype);
        mr_shape_print(&told[i].shape, told_shape, sizeof told_shape);
        mr_shape_print(&real[i].shape, real_shape, sizeof real_shape);
        if (strcmp(told_shape, real_shape) != 0)
            fail_msg("%s: \"%s\" is told to be %s and is %s", file, told[i].name, told_shape, real_shape);
    }
}

static bool tells(const char *path) {
    static uint8_t data[65536];
    static mr_onnx_report report;
    mr_onnx_read_report(data, read_bytes(path, data, sizeof data), &report);
    return mr_onnx_report_suffices(&report, MR_MODEL_MAX_TENSORS, MR_MODEL_MAX_RANK);
}

/* The reference is ONNX Runtime's description of the loaded network. */
MODEL_TEST(a_file_declares_the_same_as_the_runtime) {
    static const struct {
        const char *name;
        bool tells; /* its size is known without a runtime */
    } files[] = {{"any-batch", true}, {"batch-of-4", true}, {"two-inputs", true}, {"bytes", true},
                 {"doubles", true},   {"old", true},        {"whole", true},      {"free-size", false},
                 {"seen", false},     {"unknown", false},   {"shapeless", false}, {"listed", false}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "model-test-files/%s.onnx", files[i].name);
        mr_model *told = NULL, *real = NULL;
        assert_int_equal(mr_model_open(&told, &(mr_model_params){.path = path, .brief = true}), MR_OK);
        assert_int_equal(mr_model_open(&real, &(mr_model_params){.path = path}), MR_OK);
        assert_int_equal(told->input_count, real->input_count);
        assert_int_equal(told->output_count, real->output_count);
        same_tensors(files[i].name, told->inputs, real->inputs, real->input_count);
        same_tensors(files[i].name, told->outputs, real->outputs, real->output_count);
        mr_model_close(&told);
        mr_model_close(&real);
        if (tells(path) != files[i].tells)
            fail_msg("%s tells %s", files[i].name, files[i].tells ? "too little" : "too much");
    }
    assert_false(tells("model-test-files/many.onnx"));
}

/* The output size does not follow from the batch. So the model, read without a runtime, must be loaded and tried. */
MODEL_TEST(shapes_that_the_file_leaves_open_are_tried) {
    expect("f32 5", pairs,
           "  network: {type: infer, input: in, model: @/whole.onnx}\n  sink: {type: callback, input: network}\n",
           "negative", 5, look_at_tensor);
}

/* The checked bytes must be the loaded bytes. The path is opened only once, even if the file changes later. */
MODEL_TEST(the_bytes_that_were_checked_are_loaded) {
    static const char path[] = "model-test-files/replaced.onnx";
    mr_model *model = NULL;
    mr_binding binding;
    const size_t first = 0;
    const mr_shape shape = {.rank = 1, .dims = {7}};
    assert_int_equal(system("cp model-test-files/whole.onnx model-test-files/replaced.onnx"), 0);
    assert_int_equal(mr_model_open(&model, &(mr_model_params){.path = path, .brief = true}), MR_OK);
    assert_int_equal(system("cp model-test-files/outside.onnx model-test-files/replaced.onnx"), 0);
    assert_int_equal(mr_model_bind(model, &binding, &shape, 0, &first, 1), MR_OK);
    assert_int_equal(binding.output_shape[0].dims[0], 7);
    mr_model_close(&model);
    assert_int_equal(mr_model_open(&model, &(mr_model_params){.path = path, .brief = true}), MR_ERROR_DATA);
}

/* ---- formats that a model chooses ------------------------------------------------------------------------------ */

/* Checks the output that preprocess chooses, with `options`, for the models after it. With `hint`, the plan must
 * fail. */
static void chosen(const char *options, const char *behind, const char *expected, const char *hint) {
    char text[2048], got[MR_FORMAT_SET_TEXT] = "";
    ENDED_BY(mr_plan_destroy) mr_plan *plan = NULL;
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  in: {type: 'null', format: I420 64x48}\nstages:\n"
             "  small: {type: preprocess, input: in%s}\n%s",
             options, behind);
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "model-test-files/p.yaml", .text = text};
    mr_plan_load(&plan, &spec, &(mr_plan_params){.inserted = &mr_pipeline_types, .workers = 1}, &wrong);
    if (plan)
        mr_format_set_print(&plan->vertices[1].outputs[0].set, got, sizeof got);
    else
        snprintf(got, sizeof got, "%.180s", wrong.item[0].message);
    assert_string_equal(got, expected);
    if (hint)
        assert_string_equal(wrong.item[0].hint, hint);
}

#define ANY_BATCH                                                                                                    \
    "  net: {type: features, input: small, model: any-batch.onnx}\n  out: {type: callback, input: net}\n"
#define FREE_SIZE                                                                                                    \
    "  net: {type: features, input: small, model: free-size.onnx}\n  out: {type: callback, input: net}\n"

MODEL_TEST(models_receive_the_planned_formats) {
    static const char misfit[] =
        "net takes tensor f32 3x8x6 (the input \"images\" of any-batch.onnx), but small gives ";
    char expected[256];
    chosen("", ANY_BATCH, "tensor f32 3x8x6", NULL);
    chosen(", mean: 127, std: 128, size: 6x8", ANY_BATCH, "tensor f32 3x8x6", NULL);
    chosen(", size: 10x12", FREE_SIZE, "tensor f32 3x12x10", NULL);
    chosen("", FREE_SIZE, "small can give any tensor f32 3x?x? NCHW, and no stage after it determines which",
           "write its size, as in size: 224x224");
    snprintf(expected, sizeof expected, "%stensor f32 3x4x4", misfit);
    chosen(", size: 4x4", ANY_BATCH, expected, "write size: 6x8 in small");
    snprintf(expected, sizeof expected, "%stensor f16 8x6x3", misfit);
    chosen(", size: 6x8, dtype: f16, layout: nhwc", ANY_BATCH, expected, "write dtype: f32, layout: nchw in small");
    snprintf(expected, sizeof expected, "%stensor f32 1x8x6", misfit);
    chosen(", order: gray", ANY_BATCH, expected, "write order: rgb in small");
}

/* ---- the scan before a runtime sees the file ------------------------------------------------------------------- */

/* Puts a field header before the bytes from *at on. */
static void wrap(uint8_t *data, size_t end, size_t *at, uint8_t tag) {
    size_t length = end - *at;
    *at -= 3;
    data[*at] = tag;
    data[*at + 1] = (uint8_t)(length | 0x80);
    data[*at + 2] = (uint8_t)(length >> 7);
}

/* Without a runtime: inputs, outputs, and a convolution's work, 4 x 8 x 6 numbers from 3 x 3 x 3 each. */
MODEL_TEST(programs_see_what_a_model_takes_and_gives) {
    const mr_model_view *model;
    assert_int_equal(mr_model_view_open(&model, "model-test-files/free-size.onnx"), MR_OK);
    assert_int_equal(model->input_count, 1);
    const mr_model_value *images_in = &model->inputs[0];
    assert_string_equal(images_in->name, "images");
    assert_string_equal(images_in->kind, "tensor");
    assert_string_equal(images_in->type, "f32");
    assert_true(images_in->shaped && images_in->rank == 4 && !images_in->operation);
    assert_true(images_in->dims[0].size == -1 && images_in->dims[1].size == 3 && images_in->dims[3].size == -1);
    assert_string_equal(images_in->dims[0].name, "n");
    assert_string_equal(images_in->dims[1].name, "");
    assert_string_equal(images_in->dims[3].name, "width");
    assert_int_equal(model->output_count, 1);
    assert_string_equal(model->outputs[0].operation, "MaxPool");
    mr_model_view_close(&model);
    assert_null(model);
    assert_int_equal(mr_model_view_open(&model, "model-test-files/any-batch.onnx"), MR_OK);
    assert_int_equal(model->node_count, 3);
    assert_int_equal(model->operator_count, 3);
    assert_string_equal(model->sets[0].domain, "ai.onnx");
    assert_int_equal(model->weight_count, 2);
    assert_true(model->weight_numbers == 4 * 3 * 3 * 3 + 4);
    assert_true(model->counted && model->uncounted == 0 && model->multiply_adds == 4 * 8 * 6 * 3 * 3 * 3);
    mr_model_view_close(&model);
    assert_int_equal(mr_model_view_open(&model, "model-test-files/missing.onnx"), MR_ERROR_NO_INPUT);
    assert_null(model);
    assert_int_equal(mr_model_view_open(&model, "model-test-files/images.raw"), MR_ERROR_DATA);
    assert_null(model);
    expect_words(mr_message(), "images.raw");
    mr_model_view_close(&model);
}

/* A session's weights and buffers are in huge pages, and leave nothing behind. */
MODEL_TEST(networks_are_in_huge_pages) {
    char path[256];
    mr_model *model = NULL;
    skip_emulated("some of its own memory is in huge pages");
    if (!mr_huge_pages_given())
        skip();
    models_path("any-batch.onnx", path, sizeof path);
    assert_int_equal(huge_mappings(NULL), 0);
    assert_int_equal(mr_model_open(&model, &(mr_model_params){.path = path}), MR_OK);
    assert_true(huge_mappings(NULL) > 0);
    mr_model_close(&model);
    assert_int_equal(huge_mappings(NULL), 0);
}

/* If a model is truncated at any byte, the message must say so and give the position. */
MODEL_TEST(truncated_models_say_so) {
    static uint8_t data[65536];
    const size_t bytes = read_bytes("model-test-files/any-batch.onnx", data, sizeof data);
    size_t weights = 0;
    mr_onnx_facts facts;
    assert_int_equal(mr_onnx_scan(data, bytes, NULL, &facts), MR_OK);
    for (size_t end = 2; end < bytes; end++) {
        char place[64];
        snprintf(place, sizeof place, "ends at byte %zu", end);
        uint8_t *exact = malloc(end); /* so that a sanitizer sees any read past the end */
        assert_non_null(exact);
        memcpy(exact, data, end);
        assert_int_equal(mr_onnx_scan(exact, end, NULL, &facts), MR_ERROR_DATA);
        free(exact);
        if (!strstr(mr_message(), "it is truncated") || !strstr(mr_message(), place))
            fail_msg("%zu of %zu bytes: %s", end, bytes, mr_message());
        weights += strstr(mr_message(), "inside the weights \"weight\" of the graph") != NULL;
    }
    /* Most bytes belong to that 4x3x3x3 tensor. */
    assert_true(weights >= 4 * 3 * 3 * 3 * sizeof(float));
}

TEST(scanning_survives_random_bytes) {
    mr_onnx_facts facts;
    static uint8_t nested[4096];
    assert_int_equal(mr_onnx_scan(nested, 0, NULL, &facts), MR_ERROR_DATA);
    /* graph > node > attribute > graph > ... nested far deeper than any network */
    static const uint8_t attribute_graph = 6 << 3 | 2, node_attribute = 5 << 3 | 2, graph_node = 1 << 3 | 2,
                         model_graph = 7 << 3 | 2;
    size_t at = sizeof nested;
    while (at > 32) {
        wrap(nested, sizeof nested, &at, attribute_graph);
        wrap(nested, sizeof nested, &at, node_attribute);
        wrap(nested, sizeof nested, &at, graph_node);
    }
    wrap(nested, sizeof nested, &at, model_graph);
    assert_int_equal(mr_onnx_scan(nested + at, sizeof nested - at, NULL, &facts), MR_ERROR_DATA);
    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t bytes = (size_t)(rand() % 64);
        for (size_t i = 0; i < bytes; i++)
            nested[i] = (uint8_t)(rand() % 3 ? rand() % 16 * 8 + 2 : rand() % 70);
        int status = mr_onnx_scan(nested, bytes, "x", &facts);
        assert_true(status == MR_OK || status == MR_ERROR_DATA);
    }
}

/* Each cut of a real file, and many changed bytes: the ranges found must lie within the file. */
MODEL_TEST(signatures_survive_random_bytes) {
    static uint8_t data[8192];
    const size_t bytes = read_bytes("model-test-files/two-inputs.onnx", data, sizeof data);
    srand(2);
    for (size_t round = 0; round < 20000; round++) {
        static mr_onnx_report report;
        size_t length = round < bytes ? round : bytes, at = (size_t)rand() % bytes;
        uint8_t *copy = malloc(length + 1); /* a separate block, so that a sanitizer sees the end */
        memcpy(copy, data, length);
        if (round >= bytes)
            copy[at] = (uint8_t)rand();
        mr_onnx_read_report(copy, length, &report);
        if (mr_onnx_report_suffices(&report, MR_MODEL_MAX_TENSORS, MR_MODEL_MAX_RANK))
            for (size_t i = 0; i < report.output_count; i++) {
                assert_true(report.outputs[i].name.at > copy && report.outputs[i].name.end <= copy + length);
                assert_true(report.outputs[i].rank <= MR_MODEL_MAX_RANK);
            }
        free(copy);
    }
}

static int make(void **state) {
    if (models_make("model-test-files")) {
        models_read("images", images, MODELS_FRAMES * IMAGE);
        models_read("pairs", pairs, MODELS_FRAMES * 5);
    }
    return 0;
}

RUN_TESTS(make, NULL)

/* Output from jsonl, csv, callback and join for frames with results. A stage in the test supplies the results, so all
 * expected values are in this file. yajl's parser reads the JSON back. CSV is compared with RFC 4180 by hand. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "millrace/millrace.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

/* ---- a stage that adds classes and a tensor -------------------------------------------------------------------- */

typedef struct options {
    int64_t index;
    const char *label;
} options;

static int tell(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    const mr_frame *input = mr_io_input(io);
    mr_frame *frame = NULL;
    mr_result *classes, *tensor;
    int status = mr_io_derive(io, input, &frame);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_tensor(), 0, &tensor);
    if (!status) {
        static const float values[] = {0.5f, -2};
        tensor->name = "pair";
        tensor->format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, (const int64_t[]){1, 2});
        tensor->data = (void *)(uintptr_t)values;
        status = mr_io_add_result(io, frame, mr_kind_classes(), 2, &classes);
    }
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    classes->count = 2;
    classes->classes[0] = (mr_class){(int32_t)given->index, 0.75f, given->label};
    classes->classes[1] = (mr_class){0, 0.1f, NULL};
    return mr_io_emit(io, 0, frame);
}

static const mr_port inputs[] = {{.name = "in"}, {0}}, outputs[] = {{.name = "out"}, {0}};
static const mr_option table[] = {
    {.name = "index", .kind = MR_OPTION_INT, .offset = offsetof(options, index), .fallback = "7"},
    {.name = "label", .kind = MR_OPTION_STRING, .offset = offsetof(options, label), .fallback = "plain"},
    MR_OPTIONS_END,
};
static int negotiate_tell(mr_negotiation *negotiation) {
    const mr_format pair = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, (const int64_t[]){1, 2});
    const mr_format_set set = mr_format_set_of(&pair);
    negotiation->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_RESULTS};
    int status = mr_promise_result(negotiation, 0, mr_kind_tensor(), "pair", &set);
    return status ? status : mr_promise_result(negotiation, 0, mr_kind_classes(), NULL, NULL);
}
static const mr_stage_type oracle = {
    .name = "oracle",
    .summary = "gives results",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate_tell,
    .process = tell,
};

/* ---- a stage that adds another result kind --------------------------------------------------------------------- */

typedef struct dot {
    int64_t at;
} dot;
static const mr_field dot_fields[] = {
    {.name = "at", .type = MR_FIELD_I64, .offset = offsetof(dot, at), .unit = "px", .help = "where"}, {0}};
static const mr_result_kind dots = {
    .name = "dots", .help = "dots", .fields = dot_fields, .element_bytes = sizeof(dot)};
static const mr_result_kind *const dot_kinds[] = {&dots, NULL};

static int negotiate_dots(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_RESULTS};
    return mr_promise_result(negotiation, 0, &dots, "all", NULL);
}

static int dot_it(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    mr_result *result = NULL;
    int status = mr_io_derive(io, mr_io_input(io), &frame);
    if (!status)
        status = mr_io_add_result(io, frame, &dots, 1, &result);
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    ((dot *)result->data)->at = (int64_t)frame->identity.seq + 40;
    result->name = "all";
    result->count = 1;
    return mr_io_emit(io, 0, frame);
}

static const mr_stage_type dotter = {
    .name = "dotter",
    .summary = "gives dots",
    .inputs = inputs,
    .outputs = outputs,
    .kinds = dot_kinds,
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate_dots,
    .process = dot_it,
};

static const mr_stage_type *const *all_types(void) {
    static const mr_stage_type *types[64];
    size_t count = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        types[count++] = *type;
    types[count++] = &oracle;
    types[count] = &dotter;
    return types;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static mr_pipeline *open_text(const char *text) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    const mr_pipeline_params params = {.types = all_types(), .path = "test", .text = text, .workers = 2};
    if (mr_pipeline_open(&pipeline, &params, &wrong))
        mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    return pipeline;
}

/* Runs a pipeline whose text has one %s, the path. Returns the status. */
static int run(const char *format, mr_frame_function *function, void *context) {
    char text[2048];
    snprintf(text, sizeof text, format, temporary_path);
    mr_pipeline *pipeline = open_text(text);
    assert_non_null(pipeline);
    if (function)
        assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", function, context), MR_OK);
    int status = mr_pipeline_start(pipeline);
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    mr_pipeline_destroy(&pipeline);
    return status;
}

/* Runs stages on a null source `s` with these options. */
static void expect_run(const char *source, const char *stages, mr_frame_function *function, void *context) {
    char format[1024];
    snprintf(format, sizeof format, "version: 1\npipeline: test\nsources:\n  s: {type: 'null', %s}\nstages:\n%s",
             source, stages);
    assert_int_equal(run(format, function, context), MR_OK);
}

static const char *written(void) {
    static char *text;
    free(text);
    return text = whole_file(temporary_path);
}

static yajl_val at(yajl_val node, const char *a, const char *b) {
    const char *path[] = {a, b, NULL};
    return yajl_tree_get(node, path, yajl_t_any);
}

static void sum_dots(void *context, const char *source, const mr_frame *frame) {
    const mr_result *result = mr_frame_result(frame, &dots, "dots");
    assert_non_null(result);
    assert_string_equal(result->name, "all");
    *(int64_t *)context += ((const dot *)result->data)->at;
}

TEST_WITH(a_program_gets_results_of_any_kind, make_temporary, remove_temporary) {
    int64_t sum = 0;
    expect_run("frames: 3",
               "  dots: {type: dotter, input: s}\n  sink: {type: callback, input: dots}\n", sum_dots, &sum);
    assert_int_equal(sum, 40 + 41 + 42);
}

/* ---- jsonl ----------------------------------------------------------------------------------------------------- */

TEST_WITH(jsonl_writes_one_object_a_frame, make_temporary, remove_temporary) {
    expect_run("frames: 3, rate: 1000",
               "  oracle: {input: s, label: \"a \\\"b\\\", \\u00e9\\n\"}\n"
               "  sink: {type: jsonl, input: oracle, path: %s, tensors: true}\n", NULL, NULL);
    char *line = strtok((char *)(uintptr_t)written(), "\n");
    for (int n = 0; n < 3; n++, line = strtok(NULL, "\n")) {
        assert_non_null(line);
        char error[256];
        yajl_val root = yajl_tree_parse(line, error, sizeof error);
        assert_non_null(root);
        assert_string_equal(YAJL_GET_STRING(at(root, "source", NULL)), "s");
        assert_int_equal(YAJL_GET_INTEGER(at(root, "seq", NULL)), n);
        assert_true(YAJL_GET_DOUBLE(at(root, "pts", NULL)) == n / 1000.0);
        assert_null(at(root, "epoch", NULL));
        assert_null(at(root, "features", NULL));
        yajl_val classes = at(root, "classes", NULL);
        assert_int_equal(classes->u.array.len, 2);
        yajl_val first = classes->u.array.values[0], second = classes->u.array.values[1];
        assert_int_equal(YAJL_GET_INTEGER(at(first, "index", NULL)), 7);
        assert_string_equal(YAJL_GET_STRING(at(first, "label", NULL)), "a \"b\", \xc3\xa9\n");
        assert_true(YAJL_GET_DOUBLE(at(first, "score", NULL)) == 0.75);
        assert_true(YAJL_IS_NULL(at(second, "label", NULL)));
        assert_string_equal(YAJL_GET_NUMBER(at(second, "score", NULL)), "0.1");
        yajl_val tensor = at(root, "tensors", NULL)->u.array.values[0];
        assert_string_equal(YAJL_GET_STRING(at(tensor, "stage", NULL)), "oracle");
        assert_string_equal(YAJL_GET_STRING(at(tensor, "name", NULL)), "pair");
        assert_string_equal(YAJL_GET_STRING(at(tensor, "dtype", NULL)), "f32");
        assert_int_equal(at(tensor, "shape", NULL)->u.array.len, 2);
        assert_true(YAJL_GET_DOUBLE(at(tensor, "data", NULL)->u.array.values[1]) == -2);
        yajl_tree_free(root);
    }
    assert_null(line);
}

TEST_WITH(jsonl_prints_features_on_request, make_temporary, remove_temporary) {
    expect_run("frames: 1, format: u8 2x3",
               "  sink: {type: jsonl, input: s, path: %s, features: true}\n", NULL, NULL);
    assert_string_equal(written(),
                        "{\"source\":\"s\",\"seq\":0,\"pts\":null,\"classes\":[],\"features\":[0,0,0,0,0,0]}\n");
}

TEST_WITH(several_classifiers_are_distinguished, make_temporary, remove_temporary) {
    expect_run("frames: 1",
               "  a: {type: oracle, input: s, index: 1}\n  b: {type: oracle, input: s, index: 2}\n"
               "  both: {type: join, join: {left: a, right: b}}\n"
               "  sink: {type: jsonl, input: both, path: %s}\n", NULL, NULL);
    char error[256];
    yajl_val root = yajl_tree_parse(written(), error, sizeof error);
    assert_non_null(root);
    yajl_val newest = at(root, "classes", NULL)->u.array.values[0];
    yajl_val a = at(root, "classes_by_stage", "a"), b = at(root, "classes_by_stage", "b");
    assert_int_equal(YAJL_GET_INTEGER(at(newest, "index", NULL)), 2);
    assert_int_equal(YAJL_GET_INTEGER(at(a->u.array.values[0], "index", NULL)), 1);
    assert_int_equal(YAJL_GET_INTEGER(at(b->u.array.values[0], "index", NULL)), 2);
    yajl_tree_free(root);
}

/* ---- csv ------------------------------------------------------------------------------------------------------- */

TEST_WITH(csv_quotes_fields_that_need_it, make_temporary, remove_temporary) {
    expect_run("frames: 1, rate: 10",
               "  oracle: {input: s, label: \"hen, \\\"big\\\"\"}\n"
               "  sink: {type: csv, input: oracle, path: %s}\n", NULL, NULL);
    assert_string_equal(written(), "source,epoch,seq,sub,pts,file,label,rank,index,class,score\r\n"
                                         "s,0,0,0,0,,,1,7,\"hen, \"\"big\"\"\",0.75\r\n"
                                         "s,0,0,0,0,,,2,0,,0.1\r\n");
}

TEST_WITH(csv_escapes_formulas_on_request, make_temporary, remove_temporary) {
    static const struct {
        const char *label, *field;
    } cases[] = {{"=1+1", "'=1+1"}, {"@a,b", "\"'@a,b\""}, {"-1", "'-1"}, {"a=1", "a=1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], expected[256];
        snprintf(text, sizeof text,
                 "version: 1\npipeline: test\nsources:\n  s: {type: 'null', frames: 1, rate: 10}\nstages:\n"
                 "  oracle: {input: s, label: \"%s\"}\n"
                 "  sink: {type: csv, input: oracle, escape_formulas: true, path: %%s}\n", cases[i].label);
        snprintf(expected, sizeof expected, "s,0,0,0,0,,,1,7,%s,0.75\r\n", cases[i].field);
        assert_int_equal(run(text, NULL, NULL), MR_OK);
        assert_non_null(strstr(written(), expected));
    }
}

TEST_WITH(csv_has_a_row_for_a_frame_without_classes, make_temporary, remove_temporary) {
    expect_run("frames: 1",
               "  sink: {type: csv, input: s, path: %s}\n", NULL, NULL);
    assert_string_equal(written(), "source,epoch,seq,sub,pts,file,label,rank,index,class,score\r\n"
                                         "s,0,0,0,,,,,,,\r\n");
}

/* ---- callback and join ----------------------------------------------------------------------------------------- */

typedef struct received {
    uint64_t next;
    int results;
    mr_format format;
} received;

static void receive(void *context, const char *source, const mr_frame *frame) {
    received *got = context;
    assert_string_equal(source, "s");
    assert_int_equal(frame->identity.seq, got->next);
    got->next++;
    got->format = frame->format;
    for (const mr_result *one = frame->results; one; one = one->next)
        got->results++;
}

TEST_WITH(callback_gets_every_frame_in_order, make_temporary, remove_temporary) {
    received got = {0};
    expect_run("frames: 500",
               "  oracle: {input: s}\n  sink: {type: callback, input: oracle}\n", receive, &got);
    assert_int_equal(got.next, 500);
    assert_int_equal(got.results, 1000);
}

/* Results from before the fork are listed once, not once for each branch. */
TEST_WITH(join_has_the_first_payload_and_all_results, make_temporary, remove_temporary) {
    received got = {0};
    expect_run("frames: 50, format: RGB24 4x2",
               "  before: {type: oracle, input: s}\n  pass: {type: 'null', input: before}\n"
               "  after: {type: oracle, input: before}\n"
               "  both: {type: join, join: {one: pass, two: after}}\n"
               "  sink: {type: callback, input: both}\n", receive, &got);
    assert_int_equal(got.next, 50);
    assert_int_equal(got.results, 50 * 4);
    got = (received){0};
    expect_run("frames: 50, format: RGB24 4x2",
               "  found: {type: oracle, input: s}\n"
               "  both: {type: join, join: {picture: s, words: found}}\n"
               "  sink: {type: callback, input: both}\n", receive, &got);
    assert_int_equal(got.next, 50);
    assert_int_equal(got.results, 50 * 2);
    assert_int_equal(got.format.payload, MR_PAYLOAD_PICTURE);
    assert_int_equal(got.format.width, 4);
}

/* ---- failures -------------------------------------------------------------------------------------------------- */

TEST_WITH(a_full_disk_fails_the_run, make_temporary, remove_temporary) {
    assert_int_equal(run("version: 1\npipeline: test # %s\nsources:\n  s: {type: 'null', frames: 10}\nstages:\n"
                         "  sink: {type: jsonl, input: s, path: /dev/full}\n",
                         NULL, NULL),
                     MR_ERROR_IO);
}

/* If two stages in one pipeline write a file, planning refuses it (tests/wrong). Another program can only be detected
 * when the file is opened. */
TEST_WITH(a_file_that_another_program_writes_is_refused, make_temporary, remove_temporary) {
    char text[512];
    snprintf(text, sizeof text,
             "version: 1\npipeline: test\nsources:\n  s: {type: 'null', frames: 1}\nstages:\n"
             "  a: {type: jsonl, input: s, path: %s}\n", temporary_path);
    int other = open(temporary_path, O_WRONLY | O_CREAT, 0600);
    assert_true(other >= 0);
    assert_int_equal(flock(other, LOCK_EX), 0);
    mr_pipeline *pipeline = open_text(text);
    assert_non_null(pipeline);
    assert_int_equal(mr_pipeline_start(pipeline), MR_ERROR_IO);
    expect_words(mr_message(), "another stage or program");
    mr_pipeline_destroy(&pipeline);
    close(other);
}

RUN_TESTS(NULL, NULL)

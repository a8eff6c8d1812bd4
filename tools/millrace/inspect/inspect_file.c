/* millrace inspect FILE: the metadata of a model or an array, as text and as JSON. */
#include "tools/millrace/inspect/inspect_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "millrace/status.h"
#include "stages/model/npy.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_work.h"

enum { TEXT = 512 };

static bool ends_in(const char *word, const char *ending) {
    size_t length = strlen(word), tail = strlen(ending);
    return length > tail && strcmp(word + length - tail, ending) == 0;
}

bool mr_inspect_is_file(const char *word) {
    return strchr(word, '/') || ends_in(word, ".onnx") || ends_in(word, ".npy");
}

#define SPAN(span) (int)((span).end - (span).at), (const char *)(span).at

static void put_span(yajl_gen json, const char *key, mr_pb_span text) {
    char copy[TEXT];
    snprintf(copy, sizeof copy, "%.*s", SPAN(text));
    mr_json_text(json, key, copy);
}

static mr_pb_span text_of(const char *text) {
    return (mr_pb_span){(const uint8_t *)text, (const uint8_t *)text + strlen(text)};
}

/* The name of an operator set; the common one has none. */
static mr_pb_span domain_of(mr_pb_span domain) {
    return domain.at == domain.end ? text_of("ai.onnx") : domain;
}

/* For one picture: a free batch size counts as one. */
static bool count_work(const mr_file_bytes *file, const mr_onnx_report *model, mr_onnx_work *work) {
    mr_onnx_shape shapes[MR_ONNX_MOST_VALUES] = {0};
    for (size_t i = 0; i < model->input_count; i++) {
        const mr_onnx_declared *input = &model->inputs[i];
        shapes[i].rank = input->rank < MR_ONNX_GRAPH_RANK ? input->rank : MR_ONNX_GRAPH_RANK;
        if (input->rank > 0 && input->dims[0] < 0)
            shapes[i].dims[0] = 1;
    }
    return mr_onnx_count_work(file->data, file->bytes, shapes, model->input_count, work) == MR_OK;
}

/* ---- a model, as JSON ------------------------------------------------------------------------------------------ */

static void put_values(yajl_gen json, const char *key, const mr_onnx_declared *values, size_t count) {
    mr_json_open_array(json, key);
    for (size_t i = 0; i < count; i++) {
        const mr_onnx_declared *value = &values[i];
        bool tensor = strcmp(value->kind, "tensor") == 0;
        mr_json_open_map(json, NULL);
        put_span(json, "name", value->name);
        mr_json_text(json, "kind", *value->kind ? value->kind : NULL);
        mr_json_text(json, "type", tensor ? mr_onnx_type_name(value->element) : NULL);
        if (value->shaped)
            mr_json_open_array(json, "shape");
        else
            mr_json_text(json, "shape", NULL);
        for (int d = 0; d < value->rank; d++)
            if (value->dims[d] >= 0)
                mr_json_integer(json, NULL, value->dims[d]);
            else if (value->symbols[d].at < value->symbols[d].end)
                put_span(json, NULL, value->symbols[d]);
            else
                mr_json_text(json, NULL, NULL);
        if (value->shaped)
            yajl_gen_array_close(json);
        if (value->operation.at)
            put_span(json, "operator", value->operation);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_graph(yajl_gen json, const mr_onnx_report *model, const mr_onnx_work *work) {
    mr_json_open_array(json, "operator_sets");
    for (size_t i = 0; i < model->set_count; i++) {
        mr_json_open_map(json, NULL);
        put_span(json, "domain", domain_of(model->sets[i].domain));
        mr_json_integer(json, "version", model->sets[i].version);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
    mr_json_integer(json, "nodes", (int64_t)model->node_count);
    mr_json_open_array(json, "operators");
    for (size_t i = 0; i < model->operator_count; i++) {
        mr_json_open_map(json, NULL);
        put_span(json, "name", model->operators[i].name);
        mr_json_integer(json, "nodes", (int64_t)model->operators[i].count);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
    mr_json_integer(json, "weights", (int64_t)model->weight_count);
    mr_json_integer(json, "numbers", (int64_t)model->weight_numbers);
    if (work)
        mr_json_number(json, "multiply_adds", work->multiply_adds);
    else
        mr_json_text(json, "multiply_adds", NULL);
    mr_json_text(json, "not_counted", work && work->missing ? work->why : NULL);
}

static void put_model(yajl_gen json, const char *path, size_t bytes, const mr_onnx_report *model,
                      const mr_onnx_work *work) {
    mr_inspect_use uses[MR_INSPECT_USES];
    char why[MR_INSPECT_WHY] = "";
    char *yaml = mr_inspect_pipeline(model, path, why);
    mr_inspect_uses(model, uses);
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", path);
    mr_json_text(json, "kind", "onnx");
    mr_json_integer(json, "bytes", (int64_t)bytes);
    put_span(json, "graph", model->graph);
    put_span(json, "producer", model->producer);
    put_span(json, "producer_version", model->producer_version);
    mr_json_integer(json, "ir_version", model->ir_version);
    put_graph(json, model, work);
    put_values(json, "inputs", model->inputs, model->input_count);
    put_values(json, "outputs", model->outputs, model->output_count);
    mr_json_open_array(json, "stages");
    for (size_t i = 0; i < MR_INSPECT_USES; i++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "type", uses[i].stage);
        mr_json_bool(json, "can", uses[i].can);
        mr_json_text(json, uses[i].can ? "how" : "why_not", uses[i].how);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
    mr_json_text(json, "pipeline", yaml);
    if (!yaml)
        mr_json_text(json, "no_pipeline", why);
    yajl_gen_map_close(json);
    free(yaml);
}

/* ---- a model, as text ------------------------------------------------------------------------------------------ */

static void print_values(const char *title, const mr_onnx_declared *values, size_t count) {
    char shape[TEXT];
    printf("\n%s\n", title);
    for (size_t i = 0; i < count; i++) {
        const mr_onnx_declared *value = &values[i];
        bool tensor = strcmp(value->kind, "tensor") == 0;
        mr_print(stdout, "  %-16.*s %s", SPAN(value->name),
                 tensor ? mr_onnx_type_name(value->element) : *value->kind ? value->kind : "no declared type");
        if (tensor)
            mr_print(stdout, " %s", mr_inspect_shape(value, shape, sizeof shape));
        if (value->operation.at < value->operation.end)
            mr_print(stdout, ", from %.*s", SPAN(value->operation));
        printf("\n");
    }
}

/* Free sizes other than the batch leave nothing to count. */
static void print_work(const mr_onnx_work *work) {
    if (work->multiply_adds > 0)
        printf("  operations     %.4g M multiply-adds for one picture\n", work->multiply_adds / 1e6);
    if (work->missing)
        mr_print(stdout, "                 %s%zu node%s not counted (%s)\n", work->multiply_adds > 0 ? "beside that " : "",
                 work->missing, work->missing == 1 ? "" : "s", work->why);
}

static void print_graph(const mr_onnx_report *model, const mr_onnx_work *work) {
    mr_print(stdout, "  graph          \"%.*s\", %zu node%s:", SPAN(model->graph), model->node_count,
             model->node_count == 1 ? "" : "s");
    for (size_t i = 0; i < model->operator_count; i++)
        mr_print(stdout, "%s %.*s %zu", i ? "," : "", SPAN(model->operators[i].name), model->operators[i].count);
    printf("\n  operator sets ");
    for (size_t i = 0; i < model->set_count; i++)
        mr_print(stdout, "%s %.*s %" PRId64, i ? "," : "", SPAN(domain_of(model->sets[i].domain)),
                 model->sets[i].version);
    printf("\n  weights        %" PRIu64 " numbers in %zu tensors\n", model->weight_numbers, model->weight_count);
    if (work)
        print_work(work);
}

static void print_model(const char *path, size_t bytes, const mr_onnx_report *model, const mr_onnx_work *work) {
    mr_inspect_use uses[MR_INSPECT_USES];
    char why[MR_INSPECT_WHY] = "";
    mr_print(stdout, "%s (ONNX model, %zu bytes)\n\n", path, bytes);
    mr_print(stdout, "  made by        %.*s%s%.*s, IR version %" PRId64 "\n",
             SPAN(model->producer.at < model->producer.end ? model->producer : text_of("an unknown tool")),
             model->producer_version.at < model->producer_version.end ? " " : "", SPAN(model->producer_version),
             model->ir_version);
    print_graph(model, work);
    print_values("inputs", model->inputs, model->input_count);
    print_values("outputs", model->outputs, model->output_count);
    printf("\nstages that can use it\n");
    mr_inspect_uses(model, uses);
    for (size_t i = 0; i < MR_INSPECT_USES; i++)
        mr_print(stdout, "  %-16s %s%s\n", uses[i].stage, uses[i].can ? "" : "no: ", uses[i].how);
    char *yaml = mr_inspect_pipeline(model, path, why);
    if (yaml)
        mr_print(stdout, "\na pipeline with it, to be saved as a file; check, plan and run take it as it is\n\n");
    else
        mr_print(stdout, "\nno pipeline can be suggested: %s\n", why);
    /* The text unchanged: names from the model are quoted in it. */
    if (yaml)
        fputs(yaml, stdout);
    free(yaml);
}

/* ---- an array -------------------------------------------------------------------------------------------------- */

static int inspect_array(const char *path, yajl_gen json) {
    mr_matrix_f32 matrix = {0};
    int status = mr_npy_look(path, &matrix);
    if (status)
        return status;
    if (!json) {
        mr_print(stdout, "%s (NumPy array, %zux%zu)\n\nstages that can use it\n", path, matrix.rows, matrix.columns);
        printf("  %-16s weights: %zu classes, for vectors of %zu numbers; the last column is the bias\n", "classify",
               matrix.rows, matrix.columns - 1);
        return MR_OK;
    }
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", path);
    mr_json_text(json, "kind", "npy");
    mr_json_integer(json, "rows", (int64_t)matrix.rows);
    mr_json_integer(json, "columns", (int64_t)matrix.columns);
    mr_json_integer(json, "classes", (int64_t)matrix.rows);
    mr_json_integer(json, "features", (int64_t)matrix.columns - 1);
    yajl_gen_map_close(json);
    return MR_OK;
}

int mr_inspect_file(const char *path, yajl_gen json) {
    mr_file_bytes model = {0};
    bool has_tensor;
    if (ends_in(path, ".npy"))
        return inspect_array(path, json);
    mr_onnx_report *report = mr_calloc(1, sizeof *report);
    int status = report ? mr_onnx_read(path, 0, NULL, &model, &has_tensor)
                        : mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", path);
    if (!status) {
        mr_onnx_read_report(model.data, model.bytes, report);
        mr_onnx_work counted;
        const mr_onnx_work *work = count_work(&model, report, &counted) ? &counted : NULL;
        if (json)
            put_model(json, path, model.bytes, report, work);
        else
            print_model(path, model.bytes, report, work);
    }
    mr_free(model.data);
    mr_free(report);
    return status;
}

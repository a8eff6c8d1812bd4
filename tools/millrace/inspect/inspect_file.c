/* millrace inspect FILE: the metadata of a model or an array, as text and as JSON. */
#include "tools/millrace/inspect/inspect_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"

enum { TEXT = 512 };

static bool ends_in(const char *word, const char *ending) {
    size_t length = strlen(word), tail = strlen(ending);
    return length > tail && strcmp(word + length - tail, ending) == 0;
}

bool mr_inspect_is_file(const char *word) {
    return strchr(word, '/') || ends_in(word, ".onnx") || ends_in(word, ".npy");
}

/* ---- a model, as JSON ------------------------------------------------------------------------------------------ */

static void put_values(yajl_gen json, const char *key, const mr_model_value *values, size_t count) {
    MR_JSON_ARRAY(json, key)
        for (size_t i = 0; i < count; i++) {
            const mr_model_value *value = &values[i];
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", value->name);
                mr_json_text(json, "kind", *value->kind ? value->kind : NULL);
                mr_json_text(json, "type", value->type);
                if (value->shaped)
                    mr_json_open_array(json, "shape");
                else
                    mr_json_text(json, "shape", NULL);
                for (int d = 0; d < value->rank; d++)
                    if (value->dims[d].size >= 0)
                        mr_json_integer(json, NULL, value->dims[d].size);
                    else
                        mr_json_text(json, NULL, *value->dims[d].name ? value->dims[d].name : NULL);
                if (value->shaped)
                    yajl_gen_array_close(json);
                if (value->operation)
                    mr_json_text(json, "operator", value->operation);
            }
        }
}

static void put_graph(yajl_gen json, const mr_model_view *model) {
    MR_JSON_ARRAY(json, "operator_sets")
        for (size_t i = 0; i < model->set_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "domain", model->sets[i].domain);
                mr_json_integer(json, "version", model->sets[i].version);
            }
    mr_json_integer(json, "nodes", (int64_t)model->node_count);
    MR_JSON_ARRAY(json, "operators")
        for (size_t i = 0; i < model->operator_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", model->operators[i].name);
                mr_json_integer(json, "nodes", (int64_t)model->operators[i].count);
            }
    mr_json_integer(json, "weights", (int64_t)model->weight_count);
    mr_json_integer(json, "numbers", (int64_t)model->weight_numbers);
    if (model->counted)
        mr_json_number(json, "multiply_adds", model->multiply_adds);
    else
        mr_json_text(json, "multiply_adds", NULL);
    mr_json_text(json, "not_counted", model->uncounted ? model->why : NULL);
}

static void put_model(yajl_gen json, const char *path, const mr_model_view *model, const mr_signature *signature) {
    mr_inspect_use uses[MR_INSPECT_USES];
    char why[MR_INSPECT_WHY] = "";
    char *yaml = mr_inspect_pipeline(model, path, why);
    mr_inspect_uses(model, uses);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", path);
        mr_json_text(json, "kind", "onnx");
        mr_json_integer(json, "bytes", (int64_t)model->bytes);
        mr_json_text(json, "graph", model->graph);
        mr_json_text(json, "producer", model->producer);
        mr_json_text(json, "producer_version", model->producer_version);
        mr_json_integer(json, "ir_version", model->ir_version);
        if (signature->state != MR_SIGNATURE_NONE) {
            mr_json_text(json, "signature", mr_inspect_signatures[signature->state]);
            mr_json_text(json, "signed_with", *signature->key ? signature->key : NULL);
        }
        put_graph(json, model);
        put_values(json, "inputs", model->inputs, model->input_count);
        put_values(json, "outputs", model->outputs, model->output_count);
        MR_JSON_ARRAY(json, "stages")
            for (size_t i = 0; i < MR_INSPECT_USES; i++)
                MR_JSON_MAP(json, NULL) {
                    mr_json_text(json, "type", uses[i].stage);
                    mr_json_bool(json, "can", uses[i].can);
                    mr_json_text(json, uses[i].can ? "how" : "why_not", uses[i].how);
                }
        mr_json_text(json, "pipeline", yaml);
        if (!yaml)
            mr_json_text(json, "no_pipeline", why);
    }
    free(yaml);
}

/* ---- a model, as text ------------------------------------------------------------------------------------------ */

static void print_values(const char *title, const mr_model_value *values, size_t count) {
    char shape[TEXT];
    printf("\n%s\n", title);
    for (size_t i = 0; i < count; i++) {
        const mr_model_value *value = &values[i];
        mr_print(stdout, "  %-16s %s", value->name,
                 value->type ? value->type : *value->kind ? value->kind : "no declared type");
        if (value->type)
            mr_print(stdout, " %s", mr_inspect_shape(value, shape, sizeof shape));
        if (value->operation && *value->operation)
            mr_print(stdout, ", from %s", value->operation);
        printf("\n");
    }
}

/* If sizes other than the batch are free, nothing can be counted. */
static void print_work(const mr_model_view *model) {
    if (model->multiply_adds > 0)
        printf("  operations     %.4g M multiply-adds for one picture\n", model->multiply_adds / 1e6);
    if (model->uncounted)
        mr_print(stdout, "                 %s%zu node%s not counted (%s)\n",
                 model->multiply_adds > 0 ? "beside that " : "",
                 model->uncounted, model->uncounted == 1 ? "" : "s", model->why);
}

static void print_graph(const mr_model_view *model) {
    mr_print(stdout, "  graph          \"%s\", %zu node%s:", model->graph, model->node_count,
             model->node_count == 1 ? "" : "s");
    for (size_t i = 0; i < model->operator_count; i++)
        mr_print(stdout, "%s %s %zu", i ? "," : "", model->operators[i].name, model->operators[i].count);
    printf("\n  operator sets ");
    for (size_t i = 0; i < model->set_count; i++)
        mr_print(stdout, "%s %s %" PRId64, i ? "," : "", model->sets[i].domain, model->sets[i].version);
    printf("\n  weights        %" PRIu64 " numbers in %zu tensors\n", model->weight_numbers, model->weight_count);
    if (model->counted)
        print_work(model);
}

static void print_model(const char *path, const mr_model_view *model, const mr_signature *signature) {
    mr_inspect_use uses[MR_INSPECT_USES];
    char why[MR_INSPECT_WHY] = "";
    mr_print(stdout, "%s (ONNX model, %" PRIu64 " bytes)\n\n", path, model->bytes);
    mr_print(stdout, "  made by        %s%s%s, IR version %" PRId64 "\n",
             *model->producer ? model->producer : "an unknown tool", *model->producer_version ? " " : "",
             model->producer_version, model->ir_version);
    if (signature->state != MR_SIGNATURE_NONE)
        mr_inspect_print_signature(signature, "the file");
    print_graph(model);
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
    /* Keeps the text unchanged, because it quotes names from the model. */
    if (yaml)
        fputs(yaml, stdout);
    free(yaml);
}

/* ---- an array -------------------------------------------------------------------------------------------------- */

static int inspect_array(const char *path, yajl_gen json) {
    size_t rows = 0, columns = 0;
    int status = mr_npy_shape(path, &rows, &columns);
    if (status)
        return status;
    if (!json) {
        mr_print(stdout, "%s (NumPy array, %zux%zu)\n\nstages that can use it\n", path, rows, columns);
        printf("  %-16s weights: %zu classes, for vectors of %zu numbers; the last column is the bias\n", "classify",
               rows, columns - 1);
        return MR_OK;
    }
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", path);
        mr_json_text(json, "kind", "npy");
        mr_json_integer(json, "rows", (int64_t)rows);
        mr_json_integer(json, "columns", (int64_t)columns);
        mr_json_integer(json, "classes", (int64_t)rows);
        mr_json_integer(json, "features", (int64_t)columns - 1);
    }
    return MR_OK;
}

int mr_inspect_file(const char *path, yajl_gen json) {
    const mr_model_view *model;
    if (ends_in(path, ".npy"))
        return inspect_array(path, json);
    mr_signature signature;
    int status = mr_model_view_open(&model, path);
    if (!status)
        status = mr_signature_read_file(path, &signature);
    if (!status && json)
        put_model(json, path, model, &signature);
    else if (!status)
        print_model(path, model, &signature);
    mr_model_view_close(&model);
    return status;
}

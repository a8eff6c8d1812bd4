/* Classifiers as ONNX files (millrace/onnx.h). */
#include "millrace/onnx.h"

#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "stages/model/classifier.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_graph.h"
#include "stages/model/export/onnx_head.h"
#include "stages/model/onnx/onnx_report.h"
#include "stages/model/runtime.h"

/* protobuf messages, and therefore ONNX files, are below 2 GiB. */
enum { MOST_BYTES = INT32_MAX, MOST_NOTES = 32 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int add_labels(mr_onnx_build *b, const mr_classifier_card *card) {
    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_ARRAY(json, NULL)
        for (size_t i = 0; i < card->class_count; i++)
            mr_json_text(json, NULL, card->class_names[i]);
    yajl_gen_get_buf(json, &text, &bytes);
    mr_onnx_add_note(b, MR_ONNX_LABELS, (const char *)text);
    yajl_gen_free(json);
    return MR_OK;
}

static int add_notes(mr_onnx_build *b, const mr_classifier *classifier, const mr_onnx_params *params) {
    const mr_classifier_card *card = &classifier->card;
    const mr_onnx_note notes[] = {{"millrace.kind", mr_classifier_kind_name(card->kind)},
                                  {"millrace.version", card->version}, {"millrace.pipeline", card->pipeline},
                                  {"millrace.stages", card->stages},   {"millrace.digest", card->digest},
                                  {"millrace.tensor", card->tensor},   {"millrace.split", card->split},
                                  {"millrace.figures", card->figures}};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].value && *notes[i].value)
            mr_onnx_add_note(b, notes[i].key, notes[i].value);
    for (size_t i = 0; i < params->note_count; i++)
        mr_onnx_add_note(b, params->notes[i].key, params->notes[i].value);
    return add_labels(b, card);
}

static int pack(const mr_onnx_build *b, const char *path) {
    const size_t bytes = millrace__onnx__model_proto__get_packed_size(&b->model);
    if (bytes > MOST_BYTES)
        return mr_fail(MR_ERROR_DATA, "%s would have %zu bytes, and ONNX files hold less than 2 GiB", path, bytes);
    uint8_t *data = mr_alloc(bytes + 1);
    if (!data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", path);
    millrace__onnx__model_proto__pack(&b->model, data);
    int status = mr_file_replace(path, data, bytes);
    mr_free(data);
    return status;
}

/* Begins the graph that ends in the vector: an existing network (the caller must free the bytes last), or an input. */
static int begin(mr_onnx_build *b, const mr_trained *trained, const mr_onnx_params *params, mr_file_bytes *file,
                 const char **vector) {
    bool inside = false;
    if (!params->network) {
        int status = mr_onnx_build_begin(b);
        mr_onnx_add_value(b, false, *vector = "vector", MR_ONNX_F32, (int64_t)trained->width);
        return status;
    }
    int status = mr_onnx_read(params->network, 0, params->tensor, file, &inside);
    if (!status)
        status = mr_onnx_build_join(b, params->network, file->data, file->bytes, params->tensor, vector);
    if (!status)
        *vector = mr_onnx_add_vector(b, *vector, trained->width, params->average, params->normalize);
    return status;
}

static int write_onnx(const mr_classifier *classifier, const char *path, const mr_onnx_params *params) {
    const mr_trained *trained = &classifier->trained;
    mr_onnx_build b = {0};
    mr_file_bytes file = {0};
    const char *vector = NULL;
    if (params->note_count > MOST_NOTES)
        return mr_fail(MR_ERROR_USAGE, "an ONNX file is given at most %d notes", MOST_NOTES);
    int status = begin(&b, trained, params, &file, &vector);
    if (!status) {
        mr_onnx_add_classifier(&b, trained, vector);
        status = add_notes(&b, classifier, params);
    }
    if (!status && b.failed)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for %s", path);
    if (!status)
        status = pack(&b, path);
    mr_onnx_build_fini(&b);
    mr_free(file.data);
    return status;
}

int mr_classifier_write_onnx_sized(const mr_classifier *classifier, const char *path, const mr_onnx_params *params,
                                   size_t params_bytes) {
    MR_PLAIN_NUMBERS;
    mr_onnx_params own = {0};
    int status = MR_OK;
    if (params)
        status = mr_sized_copy(&own, sizeof own, params, params_bytes, MR_SIZE_THROUGH(mr_onnx_params, notes),
                               "mr_onnx_params");
    return status ? status : write_onnx(classifier, path, &own);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct mr_onnx_scorer {
    mr_model *model;
    mr_binding binding;
    size_t row_bytes, class_count;
    uint8_t *input; /* a whole batch, zeros after the first row */
    float *output;
};

/* One row; a network with a fixed batch must get that batch. */
static int bind(mr_onnx_scorer *s) {
    const mr_model *model = s->model;
    mr_shape shape = model->inputs[0].shape;
    const size_t scores = 0;
    if (shape.rank && shape.dims[0] < 0)
        shape.dims[0] = 1;
    const size_t count = mr_shape_count(&shape), batch = shape.rank ? (size_t)shape.dims[0] : 1;
    if (model->input_count != 1 || !count || model->inputs[0].dtype == MR_DTYPE_ANY)
        return mr_fail(MR_ERROR_DATA, "%s: its input has sizes that it leaves open, or a type that no frame holds",
                       model->file);
    int status = mr_model_bind(s->model, &s->binding, &shape, (int64_t)batch, &scores, 1);
    if (status)
        return status;
    const mr_shape *out = &s->binding.output_shape[0];
    if (model->outputs[0].dtype != MR_DTYPE_F32 || mr_shape_count(out) != batch * s->class_count)
        return mr_fail(MR_ERROR_DATA, "%s: its first output does not hold scores of %zu classes", model->file,
                       s->class_count);
    s->row_bytes = count / batch * mr_dtype_bytes(model->inputs[0].dtype);
    s->input = mr_calloc(batch, s->row_bytes);
    s->output = mr_calloc(batch * s->class_count, sizeof *s->output);
    return s->input && s->output ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory to run %s", model->file);
}

int mr_onnx_scorer_open(mr_onnx_scorer **scorer, const char *path, size_t class_count) {
    MR_PLAIN_NUMBERS;
    mr_onnx_scorer *made = mr_calloc(1, sizeof *made);
    *scorer = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory to run %s", path);
    made->class_count = class_count;
    int status = mr_model_open(&made->model, &(mr_model_params){.path = path});
    if (!status)
        status = bind(made);
    if (status)
        mr_onnx_scorer_close(&made);
    *scorer = made;
    return status;
}

size_t mr_onnx_scorer_bytes(const mr_onnx_scorer *scorer) {
    return scorer->row_bytes;
}

int mr_onnx_scorer_run(mr_onnx_scorer *s, const void *input, float *scores) {
    MR_PLAIN_NUMBERS;
    void *in = s->input, *out = s->output;
    memcpy(s->input, input, s->row_bytes);
    int status = s->model->runtime->run(&s->binding, &in, &out, NULL);
    if (!status)
        memcpy(scores, s->output, s->class_count * sizeof *scores);
    return status;
}

void mr_onnx_scorer_close(mr_onnx_scorer **scorer) {
    mr_onnx_scorer *gone = *scorer;
    *scorer = NULL;
    if (!gone)
        return;
    mr_model_close(&gone->model);
    mr_free(gone->input);
    mr_free(gone->output);
    mr_free(gone);
}

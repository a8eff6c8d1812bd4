/* A model's inputs and outputs, from ONNX Runtime or, without it, from the file's declarations. */
#include "stages/model/ort_signature.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_append.h"
#include "stages/model/onnx/onnx_report.h"
#include "stages/model/onnx/onnx_traits.h"

/* Element types. Frames hold five types. Other numeric outputs are cast to the smallest that holds all values; f16 and
 * similar types become f32, and u64 becomes i64. */
static const struct {
    int element;
    mr_dtype dtype; /* the frames' type; ANY: none */
    int cast;       /* an output's cast to this element; 0: none */
} types[] = {{ORT_FLOAT, MR_DTYPE_F32, 0},        {ORT_UINT8, MR_DTYPE_U8, 0},
             {ORT_INT32, MR_DTYPE_I32, 0},        {ORT_INT64, MR_DTYPE_I64, 0},
             {ORT_FLOAT16, MR_DTYPE_F16, ORT_FLOAT}, {MR_ONNX_F64, MR_DTYPE_ANY, ORT_FLOAT},
             {MR_ONNX_BF16, MR_DTYPE_ANY, ORT_FLOAT}, {MR_ONNX_BOOL, MR_DTYPE_ANY, ORT_UINT8},
             {MR_ONNX_I8, MR_DTYPE_ANY, ORT_INT32},  {ORT_INT16, MR_DTYPE_ANY, ORT_INT32},
             {ORT_UINT16, MR_DTYPE_ANY, ORT_INT32},  {ORT_UINT32, MR_DTYPE_ANY, ORT_INT64},
             {ORT_UINT64, MR_DTYPE_ANY, ORT_INT64}};
enum { TYPES = sizeof types / sizeof *types };

/* A cast's output name: this prefix plus the tensor's name. */
static const char cast_prefix[] = "millrace.cast.";
enum { PREFIX = sizeof cast_prefix - 1 };

static mr_dtype held_as(int element) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].element == element)
            return types[i].dtype;
    return MR_DTYPE_ANY;
}

/* The element type that an output is cast to; 0: no cast. */
static int cast_of(int element) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].element == element)
            return types[i].cast;
    return 0;
}

static void set_type(ort_model *m, bool output, size_t at, int element, mr_model_tensor *tensor) {
    const int cast = output ? cast_of(element) : 0;
    tensor->dtype = held_as(cast ? cast : element);
    tensor->type = mr_onnx_type_name(element);
    m->element_type[output][at] = element;
}

/* The caller must free it; NULL: no memory. */
static mr_onnx_report *read_report(const ort_model *m) {
    mr_onnx_report *report = mr_calloc(1, sizeof *report);
    if (report)
        mr_onnx_read_report(m->bytes.data, m->bytes.bytes, report);
    else
        mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    return report;
}

/* ---- inputs and outputs ---------------------------------------------------------------------------------------- */

int mr_ort_read_shape(const ort_model *m, const ort_tensor_info *info, mr_shape *shape) {
    const ort_api *api = &m->ort->api;
    size_t rank = 0;
    int status = mr_ort_check(m->ort, api->rank(info, &rank), m->base.file);
    if (!status && rank > MR_MODEL_MAX_RANK)
        return mr_fail(MR_ERROR_DATA, "%s has a tensor of %zu dimensions; at most %d are supported", m->base.file,
                       rank, MR_MODEL_MAX_RANK);
    shape->rank = (int)rank;
    return status ? status : mr_ort_check(m->ort, api->dimensions(info, shape->dims, rank), m->base.file);
}

static int read_symbol(const ort_model *m, const ort_tensor_info *info, mr_model_tensor *tensor) {
    const char *symbols[MR_MODEL_MAX_RANK] = {""};
    size_t rank = (size_t)tensor->shape.rank;
    int status = mr_ort_check(m->ort, m->ort->api.symbols(info, symbols, rank), m->base.file);
    if (status)
        return status;
    tensor->symbol = mr_strdup(rank && symbols[0] ? symbols[0] : "");
    return tensor->symbol ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
}

/* Sequences and maps are listed too, but cannot be bound, since no frame can hold them. */
static const char *name_kind(int kind) {
    static const char *const names[] = {[2] = "a sequence", [3] = "a map", [5] = "a sparse tensor",
                                        [6] = "an optional value"};
    bool known = kind > 0 && (size_t)kind < sizeof names / sizeof *names && names[kind];
    return known ? names[kind] : "no tensor";
}

static int read_type(ort_model *m, bool output, size_t from, size_t at, mr_model_tensor *tensor) {
    const ort_api *api = &m->ort->api;
    ort_type_info *type = NULL;
    const ort_tensor_info *info = NULL;
    int kind = 0, element = 0;
    int status =
        mr_ort_check(m->ort, (output ? api->output_type : api->input_type)(m->session, from, &type), m->base.file);
    if (!status)
        status = mr_ort_check(m->ort, api->kind(type, &kind), m->base.file);
    if (!status && kind == ORT_TYPE_TENSOR)
        status = mr_ort_check(m->ort, api->tensor_info(type, &info), m->base.file);
    if (!status && info)
        status = mr_ort_check(m->ort, api->element_type(info, &element), m->base.file);
    if (!status && info)
        status = mr_ort_read_shape(m, info, &tensor->shape);
    if (!status && info)
        status = read_symbol(m, info, tensor);
    if (!status && !info && !(tensor->symbol = mr_strdup("")))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    set_type(m, output, at, element, tensor);
    if (!info)
        tensor->type = name_kind(kind);
    /* The runtime also reports no dimensions if the file declares no shape; planning reads that in the file. */
    tensor->unshaped = !output && info && tensor->shape.rank == 0;
    if (type)
        api->release_type(type);
    return status;
}

static int read_name(const ort_model *m, bool output, size_t from, char **name) {
    const ort_api *api = &m->ort->api;
    char *given = NULL;
    int status = mr_ort_check(
        m->ort, (output ? api->output_name : api->input_name)(m->session, from, m->ort->allocator, &given),
        m->base.file);
    if (status)
        return status;
    *name = mr_strdup(given);
    status = mr_ort_check(m->ort, api->allocator_free(m->ort->allocator, given), m->base.file);
    return status || *name ? status : mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
}

/* The output that this cast belongs to; -1: it is the network's output. */
static int cast_from(const ort_model *m, const char *name) {
    if (strncmp(name, cast_prefix, PREFIX) != 0)
        return -1;
    return mr_model_find(m->base.outputs, m->base.output_count, name + PREFIX);
}

static int read_input(ort_model *m, size_t from) {
    mr_model *base = &m->base;
    size_t at = base->input_count;
    char *name = NULL;
    int status = at < MR_MODEL_MAX_TENSORS ? read_name(m, false, from, &name)
                                           : mr_fail(MR_ERROR_DATA, "%s has more than %d inputs", base->file,
                                                     MR_MODEL_MAX_TENSORS);
    if (status)
        return status;
    base->inputs[at].name = m->input_names[at] = name;
    base->input_count++;
    return read_type(m, false, from, at, &base->inputs[at]);
}

/* Casts come after all outputs that the network has. */
static int read_output(ort_model *m, size_t from) {
    mr_model *base = &m->base;
    size_t at = base->output_count;
    char *name = NULL;
    int status = read_name(m, true, from, &name);
    if (status)
        return status;
    int cast = cast_from(m, name);
    if (cast >= 0) {
        m->casts[cast] = name;
        m->element_type[true][cast] = cast_of(m->element_type[true][cast]);
        return MR_OK;
    }
    if (at == MR_MODEL_MAX_TENSORS) {
        mr_free(name);
        return mr_fail(MR_ERROR_DATA, "%s has more than %d outputs", base->file, MR_MODEL_MAX_TENSORS);
    }
    base->outputs[at].name = name;
    base->output_count++;
    return read_type(m, true, from, at, &base->outputs[at]);
}

int mr_ort_read_signature(ort_model *m) {
    const ort_api *api = &m->ort->api;
    size_t inputs = 0, outputs = 0;
    int status = mr_ort_check(m->ort, api->input_count(m->session, &inputs), m->base.file);
    if (!status)
        status = mr_ort_check(m->ort, api->output_count(m->session, &outputs), m->base.file);
    if (!status && (inputs == 0 || outputs == 0))
        return mr_fail(MR_ERROR_DATA, "%s has %zu inputs and %zu outputs; it needs one of each", m->base.file, inputs,
                       outputs);
    for (size_t i = 0; i < inputs && !status; i++)
        status = read_input(m, i);
    for (size_t i = 0; i < outputs && !status; i++)
        status = read_output(m, i);
    return status;
}

const char *mr_ort_output_name(const ort_model *m, size_t at) {
    return m->casts[at] ? m->casts[at] : m->base.outputs[at].name;
}

/* ---- casts of outputs -------------------------------------------------------------------------------------------- */

/* Appends to the bytes that were read. The tensor's name need not be zero-terminated. */
static int append_cast(ort_model *m, mr_pb_span name, int element) {
    const size_t length = (size_t)(name.end - name.at);
    if (m->room < 2 * (2 * length + PREFIX) + MR_ONNX_CAST_BYTES)
        return mr_fail(MR_ERROR_DATA, "%s has outputs of other types than frames hold, and too many of them, or with "
                                      "names that are too long", m->base.file);
    char *as = mr_calloc(PREFIX + length + 1, 1);
    if (!as)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    memcpy(as, cast_prefix, PREFIX);
    memcpy(as + PREFIX, name.at, length);
    size_t bytes = mr_onnx_append_cast(m->bytes.data + m->bytes.bytes, as + PREFIX, as, cast_of(element));
    m->bytes.bytes += bytes;
    m->room -= bytes;
    mr_free(as);
    return MR_OK;
}

int mr_ort_append_casts(ort_model *m, const char *tensor) {
    mr_onnx_report *report = read_report(m);
    int status = report ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; report && i < report->output_count && !status; i++) {
        const mr_onnx_declared *output = &report->outputs[i];
        if (cast_of(output->element) && (!tensor || mr_pb_is(output->name, tensor)))
            status = append_cast(m, output->name, output->element);
    }
    mr_free(report);
    return status;
}

int mr_ort_append_cast(ort_model *m, const char *tensor, bool *added) {
    int at = mr_model_find(m->base.outputs, m->base.output_count, tensor);
    const uint8_t *name = (const uint8_t *)tensor;
    *added = at >= 0 && !m->casts[at] && cast_of(m->element_type[true][at]);
    return *added ? append_cast(m, (mr_pb_span){name, name + strlen(tensor)}, m->element_type[true][at]) : MR_OK;
}

/* ---- the same, as the file declares it ------------------------------------------------------------------------- */

static void free_tensors(mr_model_tensor *tensors) {
    for (size_t i = 0; i < MR_MODEL_MAX_TENSORS; i++) {
        mr_free((char *)(uintptr_t)tensors[i].name);
        mr_free((char *)(uintptr_t)tensors[i].symbol);
        mr_free((char *)(uintptr_t)tensors[i].operation);
        mr_free((char *)(uintptr_t)tensors[i].sized_by);
    }
    memset(tensors, 0, MR_MODEL_MAX_TENSORS * sizeof *tensors);
}

void mr_ort_forget_tensors(ort_model *m) {
    free_tensors(m->base.inputs);
    free_tensors(m->base.outputs);
    for (size_t i = 0; i < MR_MODEL_MAX_TENSORS; i++) {
        mr_free(m->casts[i]);
        m->casts[i] = NULL;
    }
    m->base.input_count = m->base.output_count = 0;
}

static char *copy_text(const mr_pb_span *text) {
    size_t bytes = (size_t)(text->end - text->at);
    char *copy = mr_calloc(bytes + 1, 1);
    if (copy && bytes)
        memcpy(copy, text->at, bytes);
    return copy;
}

static bool take_values(ort_model *m, bool output, const mr_onnx_declared *values, size_t count) {
    mr_model_tensor *tensors = output ? m->base.outputs : m->base.inputs;
    *(output ? &m->base.output_count : &m->base.input_count) = count;
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (mr_model_tensor){.name = copy_text(&values[i].name),
                                       .shape.rank = values[i].rank,
                                       .unshaped = !values[i].shaped,
                                       .symbol = copy_text(&values[i].symbols[0])};
        memcpy(tensors[i].shape.dims, values[i].dims, (size_t)values[i].rank * sizeof *values[i].dims);
        set_type(m, output, i, values[i].element, &tensors[i]);
        if (!tensors[i].name || !tensors[i].symbol)
            return false;
    }
    return true;
}

bool mr_ort_take_declared(ort_model *m, const char *tensor) {
    mr_onnx_report *report = read_report(m);
    const bool taken = report && mr_onnx_report_suffices(report, MR_MODEL_MAX_TENSORS, MR_MODEL_MAX_RANK) &&
                       take_values(m, false, report->inputs, report->input_count) &&
                       take_values(m, true, report->outputs, report->output_count) &&
                       (!tensor || mr_model_find(m->base.outputs, m->base.output_count, tensor) >= 0);
    mr_free(report);
    if (!taken)
        mr_ort_forget_tensors(m);
    return taken;
}

/* ---- what only the graph tells ----------------------------------------------------------------------------------- */

/* A runtime cannot distinguish an undeclared shape from one without dimensions. */
static int find_unshaped(ort_model *m) {
    mr_onnx_report *report = read_report(m);
    for (size_t i = 0; report && i < report->input_count; i++)
        for (size_t at = 0; at < m->base.input_count; at++)
            if (mr_pb_is(report->inputs[i].name, m->base.inputs[at].name))
                m->base.inputs[at].unshaped = !report->inputs[i].shaped;
    mr_free(report);
    return report ? MR_OK : MR_ERROR_MEMORY;
}

static int read_notes(ort_model *m) {
    static const char *const keys[MR_MODEL_NOTES] = {
        [MR_MODEL_PREPARED] = MR_ONNX_PREPARED,
        [MR_MODEL_LABELS] = MR_ONNX_LABELS,
        [MR_MODEL_NAMES] = MR_ONNX_NAMES,
        [MR_MODEL_TASK] = MR_ONNX_TASK,
        [MR_MODEL_POINTS] = MR_ONNX_POINTS,
        [MR_MODEL_CHARACTERS] = MR_ONNX_CHARACTERS,
    };
    for (size_t i = 0; i < MR_MODEL_NOTES; i++) {
        const mr_pb_span note = mr_onnx_find_note(m->bytes.data, m->bytes.bytes, keys[i]);
        if (note.at < note.end && !(m->base.note[i] = copy_text(&note)))
            return mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    }
    return MR_OK;
}

int mr_ort_read_graph(ort_model *m) {
    mr_onnx_graph graph;
    char operation[MR_ONNX_OPERATOR_TEXT];
    int status = find_unshaped(m);
    if (!status)
        status = read_notes(m);
    /* A graph that is too large to be analysed can still run, but nothing is known about the operators. */
    if (status || mr_onnx_graph_read(&graph, m->bytes.data, m->bytes.bytes)) {
        if (!status)
            mr_onnx_graph_free(&graph);
        return status;
    }
    for (size_t i = 0; i < m->base.output_count && !status; i++) {
        const uint8_t *name = (const uint8_t *)m->base.outputs[i].name;
        const mr_pb_span span = {name, name + strlen(m->base.outputs[i].name)};
        m->base.outputs[i].operation = mr_strdup(mr_onnx_finish(&graph, span, operation));
        m->base.outputs[i].sized_by = mr_strdup(mr_onnx_sized_by(&graph, span, operation));
        if (!m->base.outputs[i].operation || !m->base.outputs[i].sized_by)
            status = mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    }
    mr_onnx_graph_free(&graph);
    return status;
}

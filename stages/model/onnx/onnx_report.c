#include "stages/model/onnx/onnx_report.h"

#include <string.h>

/* onnx.proto field numbers. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SETS = 8,
    MODEL_NOTE = 14,
    NOTE_KEY = 1,
    NOTE_VALUE = 2,
    SET_DOMAIN = 1,
    SET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    NODE_OUTPUT = 2,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    TENSOR_DIMS = 1,
    TENSOR_NAME = 8,
    SPARSE_VALUES = 1,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_DENOTATION = 6,
    TENSOR_ELEMENT = 1,
    TENSOR_SHAPE = 2,
    SHAPE_DIMENSION = 1,
    DIMENSION_VALUE = 1,
    DIMENSION_SYMBOL = 2
};

const char *mr_onnx_type_name(int element) {
    static const char *const names[] = {"no type", "f32",  "u8",  "i8",  "u16", "i16", "i32",       "i64",
                                        "string",  "bool", "f16", "f64", "u32", "u64", "complex64", "complex128",
                                        "bf16"};
    return element > 0 && (size_t)element < sizeof names / sizeof names[0] ? names[element] : "an unknown type";
}

/* Reads a message's next field; false at the end. */
static bool next(mr_pb_span *from, mr_pb_field *field) {
    return from->at < from->end && mr_pb_next(from, field);
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

/* As next, for a message that belongs to a declaration. */
static bool next_of(mr_pb_span *from, mr_pb_field *field, mr_onnx_declared *to) {
    const bool more = from->at < from->end, read = more && mr_pb_next(from, field);
    to->odd = to->odd || (more && !read);
    return read;
}

/* Some writers use zero or less for "not known"; the runtime decides how it treats them. */
static void read_dimension(mr_pb_span from, mr_onnx_declared *to) {
    mr_pb_field f;
    if (to->rank == MR_ONNX_MOST_RANK) {
        to->odd = true;
        return;
    }
    int64_t *size = &to->dims[to->rank];
    mr_pb_span *symbol = &to->symbols[to->rank++];
    *size = -1;
    while (next_of(&from, &f, to)) {
        if (f.number == DIMENSION_SYMBOL && f.wire == MR_PB_BYTES)
            *symbol = f.bytes;
        if (f.number != DIMENSION_VALUE || f.wire != MR_PB_VARINT)
            continue;
        if (f.value > 0 && f.value <= INT64_MAX)
            *size = (int64_t)f.value;
        else
            to->odd = true;
    }
    to->odd = to->odd || (*size > 0 && symbol->at < symbol->end);
}

static void read_tensor(mr_pb_span from, mr_onnx_declared *to) {
    mr_pb_field f, g;
    while (next_of(&from, &f, to)) {
        if (f.number == TENSOR_ELEMENT && f.wire == MR_PB_VARINT && f.value < INT32_MAX)
            to->element = (int)f.value;
        if (f.number != TENSOR_SHAPE || f.wire != MR_PB_BYTES)
            continue;
        to->odd = to->odd || to->shaped;
        to->shaped = true;
        while (next_of(&f.bytes, &g, to))
            if (g.number == SHAPE_DIMENSION && g.wire == MR_PB_BYTES)
                read_dimension(g.bytes, to);
    }
    to->odd = to->odd || !to->element;
}

static void read_type(mr_pb_span from, mr_onnx_declared *to) {
    static const char *const kinds[] = {[1] = "tensor", [4] = "sequence",     [5] = "map",
                                        [7] = "opaque", [8] = "sparse tensor", [9] = "optional"};
    mr_pb_field f;
    while (next_of(&from, &f, to)) {
        to->odd = to->odd || (f.number != TYPE_DENOTATION && (f.number != TYPE_TENSOR || *to->kind));
        if (f.number < sizeof kinds / sizeof kinds[0] && kinds[f.number])
            to->kind = kinds[f.number];
        if (f.number == TYPE_TENSOR)
            read_tensor(f.bytes, to);
    }
}

static void add_value(mr_onnx_report *report, mr_pb_span from, mr_onnx_declared *values, size_t *count) {
    mr_pb_field f;
    if (*count == MR_ONNX_MOST_VALUES) {
        report->odd = true;
        return;
    }
    mr_onnx_declared *to = &values[(*count)++];
    *to = (mr_onnx_declared){.kind = ""};
    while (next_of(&from, &f, to)) {
        if (f.number == VALUE_NAME)
            to->name = f.bytes;
        if (f.number == VALUE_TYPE)
            read_type(f.bytes, to);
    }
    const size_t bytes = (size_t)(to->name.end - to->name.at);
    to->odd = to->odd || !bytes || memchr(to->name.at, 0, bytes) || strcmp(to->kind, "tensor") != 0;
}

/* Whether an output's size follows from the batch, as mr_model_bind fills it in. */
static bool is_sized(const mr_onnx_report *report, const mr_onnx_declared *output) {
    const bool batch = output->rank > 0 && output->dims[0] < 0 && output->symbols[0].at < output->symbols[0].end;
    bool known = !batch;
    for (size_t i = 0; i < report->input_count && !known; i++)
        known = report->inputs[i].rank > 0 && mr_pb_same(report->inputs[i].symbols[0], output->symbols[0]);
    for (int i = batch; i < output->rank; i++)
        known = known && output->dims[i] > 0;
    return output->shaped && known;
}

bool mr_onnx_report_suffices(const mr_onnx_report *report, size_t most, int rank) {
    bool good = !report->odd && report->input_count && report->output_count && report->input_count <= most &&
                report->output_count <= most;
    for (size_t i = 0; i < report->input_count && good; i++)
        good = !report->inputs[i].odd && report->inputs[i].rank <= rank;
    for (size_t i = 0; i < report->output_count && good; i++)
        good = !report->outputs[i].odd && report->outputs[i].rank <= rank && is_sized(report, &report->outputs[i]);
    return good;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static void count_operator(mr_onnx_report *report, mr_pb_span name) {
    size_t at = 0;
    while (at < report->operator_count && !mr_pb_same(report->operators[at].name, name))
        at++;
    if (at == MR_ONNX_MOST_OPERATORS)
        return;
    report->operators[at].name = name;
    report->operators[at].count++;
    report->operator_count += at == report->operator_count;
}

static void count_weights(mr_onnx_report *report, mr_pb_span tensor) {
    mr_pb_field f;
    uint64_t numbers = 1, dim;
    while (next(&tensor, &f)) {
        if (f.number == TENSOR_DIMS && f.wire == MR_PB_VARINT && __builtin_mul_overflow(numbers, f.value, &numbers))
            numbers = 0;
        while (f.number == TENSOR_DIMS && f.wire == MR_PB_BYTES && mr_pb_varint(&f.bytes, &dim))
            if (__builtin_mul_overflow(numbers, dim, &numbers))
                numbers = 0;
    }
    report->weight_count++;
    report->weight_numbers += numbers;
}

/* Some exporters, such as Paddle's, write all weights so. */
static void add_constant(mr_onnx_report *report, mr_pb_span attribute) {
    mr_pb_field f;
    while (next(&attribute, &f))
        if (f.number == ATTRIBUTE_TENSOR && f.wire == MR_PB_BYTES)
            count_weights(report, f.bytes);
}

static void add_node(mr_onnx_report *report, mr_pb_span node) {
    mr_pb_span rest = node, operation = {0};
    mr_pb_field f;
    report->node_count++;
    while (next(&rest, &f))
        if (f.number == NODE_OPERATOR)
            operation = f.bytes;
    count_operator(report, operation);
    for (rest = node; mr_pb_is(operation, "Constant") && next(&rest, &f);)
        if (f.number == NODE_ATTRIBUTE && f.wire == MR_PB_BYTES)
            add_constant(report, f.bytes);
    while (next(&node, &f))
        for (size_t i = 0; f.number == NODE_OUTPUT && i < report->output_count; i++)
            if (mr_pb_same(report->outputs[i].name, f.bytes))
                report->outputs[i].operation = operation;
}

static void drop_input(mr_onnx_report *report, mr_pb_span name) {
    for (size_t i = report->input_count; i-- > 0;)
        if (mr_pb_same(report->inputs[i].name, name))
            memmove(&report->inputs[i], &report->inputs[i + 1],
                    (--report->input_count - i) * sizeof report->inputs[0]);
}

static void add_weights(mr_onnx_report *report, mr_pb_span tensor) {
    mr_pb_field f;
    count_weights(report, tensor);
    while (next(&tensor, &f))
        if (f.number == TENSOR_NAME)
            drop_input(report, f.bytes);
}

/* Old files, and files with replaceable initialisers, list them among the inputs too. */
static void drop_sparse(mr_onnx_report *report, mr_pb_span sparse) {
    mr_pb_field f, g;
    while (next(&sparse, &f))
        while (f.number == SPARSE_VALUES && next(&f.bytes, &g))
            if (g.number == TENSOR_NAME)
                drop_input(report, g.bytes);
}

/* Reads inputs and outputs first: weights and nodes are compared with them. */
static void read_graph(mr_onnx_report *report, mr_pb_span graph) {
    mr_pb_span rest = graph;
    mr_pb_field f;
    while (rest.at < rest.end) {
        if (!mr_pb_next(&rest, &f)) {
            report->odd = true;
            break;
        }
        if (f.number == GRAPH_NAME)
            report->graph = f.bytes;
        if (f.number == GRAPH_INPUT)
            add_value(report, f.bytes, report->inputs, &report->input_count);
        if (f.number == GRAPH_OUTPUT)
            add_value(report, f.bytes, report->outputs, &report->output_count);
    }
    while (next(&graph, &f)) {
        if (f.number == GRAPH_NODE)
            add_node(report, f.bytes);
        if (f.number == GRAPH_INITIALIZER)
            add_weights(report, f.bytes);
        if (f.number == GRAPH_SPARSE_INITIALIZER)
            drop_sparse(report, f.bytes);
    }
}

static void add_set(mr_onnx_report *report, mr_pb_span set) {
    mr_pb_field f;
    if (report->set_count == MR_ONNX_MOST_SETS)
        return;
    size_t at = report->set_count++;
    while (next(&set, &f)) {
        if (f.number == SET_DOMAIN)
            report->sets[at].domain = f.bytes;
        if (f.number == SET_VERSION && f.wire == MR_PB_VARINT)
            report->sets[at].version = (int64_t)f.value;
    }
}

void mr_onnx_read_report(const uint8_t *data, size_t bytes, mr_onnx_report *report) {
    mr_pb_span model = {data, data + bytes};
    mr_pb_field f;
    *report = (mr_onnx_report){0};
    while (next(&model, &f)) {
        if (f.number == MODEL_IR_VERSION && f.wire == MR_PB_VARINT)
            report->ir_version = (int64_t)f.value;
        if (f.number == MODEL_PRODUCER)
            report->producer = f.bytes;
        if (f.number == MODEL_PRODUCER_VERSION)
            report->producer_version = f.bytes;
        if (f.number == MODEL_OPERATOR_SETS)
            add_set(report, f.bytes);
        if (f.number == MODEL_GRAPH)
            read_graph(report, f.bytes);
    }
}

mr_pb_span mr_onnx_find_note(const uint8_t *data, size_t bytes, const char *key) {
    static const uint8_t nothing[1];
    mr_pb_span model = {data, data + bytes};
    mr_pb_field f, g;
    while (next(&model, &f)) {
        mr_pb_span name = {nothing, nothing}, value = name;
        if (f.number != MODEL_NOTE || f.wire != MR_PB_BYTES)
            continue;
        while (next(&f.bytes, &g)) {
            name = g.number == NOTE_KEY ? g.bytes : name;
            value = g.number == NOTE_VALUE ? g.bytes : value;
        }
        if (mr_pb_is(name, key))
            return value;
    }
    return (mr_pb_span){nothing, nothing};
}

#include "stages/model/onnx_signature.h"

#include <string.h>

/* onnx.proto field numbers. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    INITIALIZER_NAME = 8,
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

/* ---- one input or output ----------------------------------------------------------------------------------------- */

static bool read_dimension(mr_pb_span dimension, int64_t *size, mr_pb_span *symbol) {
    mr_pb_field f;
    *size = -1;
    *symbol = (mr_pb_span){dimension.end, dimension.end};
    while (dimension.at < dimension.end) {
        if (!mr_pb_next(&dimension, &f))
            return false;
        if (f.number == DIMENSION_SYMBOL && f.wire == MR_PB_BYTES)
            *symbol = f.bytes;
        if (f.number != DIMENSION_VALUE || f.wire != MR_PB_VARINT)
            continue;
        /* Some writers use zero or less for "not known"; the runtime decides how it treats them. */
        if (f.value == 0 || f.value > INT64_MAX)
            return false;
        *size = (int64_t)f.value;
    }
    /* Both would contradict each other. */
    return *size < 0 || symbol->at == symbol->end;
}

static bool read_shape(mr_pb_span shape, mr_onnx_value *value) {
    mr_pb_field f;
    mr_pb_span symbol;
    value->shape.rank = 0;
    while (shape.at < shape.end) {
        if (!mr_pb_next(&shape, &f))
            return false;
        if (f.number != SHAPE_DIMENSION || f.wire != MR_PB_BYTES)
            continue;
        int at = value->shape.rank++;
        if (at == MR_MODEL_MAX_RANK || !read_dimension(f.bytes, &value->shape.dims[at], &symbol))
            return false;
        if (at == 0)
            value->symbol = symbol;
    }
    return true;
}

static bool read_tensor(mr_pb_span tensor, mr_onnx_value *value) {
    mr_pb_field f;
    bool shaped = false;
    while (tensor.at < tensor.end) {
        if (!mr_pb_next(&tensor, &f))
            return false;
        if (f.number == TENSOR_ELEMENT && f.wire == MR_PB_VARINT)
            value->element = f.value < INT32_MAX ? (int)f.value : 0;
        if (f.number != TENSOR_SHAPE || f.wire != MR_PB_BYTES)
            continue;
        if (shaped || !read_shape(f.bytes, value))
            return false;
        shaped = true;
    }
    value->unshaped = !shaped;
    return value->element > 0;
}

/* Only tensors are supported, not sequences, maps or optional values. */
static bool read_type(mr_pb_span type, mr_onnx_value *value) {
    mr_pb_field f;
    bool tensor = false;
    while (type.at < type.end) {
        if (!mr_pb_next(&type, &f))
            return false;
        if (f.number == TYPE_DENOTATION)
            continue;
        if (f.number != TYPE_TENSOR || f.wire != MR_PB_BYTES || tensor || !read_tensor(f.bytes, value))
            return false;
        tensor = true;
    }
    return tensor;
}

static bool add_value(mr_pb_span from, mr_onnx_value *values, size_t *count) {
    mr_pb_field f;
    bool typed = false;
    if (*count == MR_MODEL_MAX_TENSORS)
        return false;
    mr_onnx_value *value = &values[(*count)++];
    *value = (mr_onnx_value){0};
    while (from.at < from.end) {
        if (!mr_pb_next(&from, &f))
            return false;
        if (f.number == VALUE_NAME && f.wire == MR_PB_BYTES)
            value->name = f.bytes;
        if (f.number != VALUE_TYPE || f.wire != MR_PB_BYTES)
            continue;
        if (typed || !read_type(f.bytes, value))
            return false;
        typed = true;
    }
    size_t bytes = (size_t)(value->name.end - value->name.at);
    return typed && bytes && !memchr(value->name.at, 0, bytes);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

/* Visits a message's fields whose value is a message; stops and returns false if `visit` does. */
typedef bool visitor(const mr_pb_field *field, mr_onnx_signature *signature);

static bool walk(mr_pb_span message, visitor *visit, mr_onnx_signature *signature) {
    mr_pb_field f;
    while (message.at < message.end)
        if (!mr_pb_next(&message, &f) || (f.wire == MR_PB_BYTES && !visit(&f, signature)))
            return false;
    return true;
}

static bool add_field(const mr_pb_field *f, mr_onnx_signature *signature) {
    if (f->number == GRAPH_INPUT)
        return add_value(f->bytes, signature->inputs, &signature->input_count);
    if (f->number == GRAPH_OUTPUT)
        return add_value(f->bytes, signature->outputs, &signature->output_count);
    return true;
}

static void remove_input(mr_onnx_signature *signature, const mr_pb_span *name) {
    for (size_t i = signature->input_count; i-- > 0;)
        if (mr_pb_same(signature->inputs[i].name, *name))
            memmove(&signature->inputs[i], &signature->inputs[i + 1],
                    (--signature->input_count - i) * sizeof signature->inputs[0]);
}

static bool visit_initializer(const mr_pb_field *f, mr_onnx_signature *signature) {
    if (f->number == INITIALIZER_NAME)
        remove_input(signature, &f->bytes);
    return true;
}

static bool visit_sparse(const mr_pb_field *f, mr_onnx_signature *signature) {
    return f->number != SPARSE_VALUES || walk(f->bytes, visit_initializer, signature);
}

/* Old files, and files with replaceable initialisers, list them among the inputs too. */
static bool remove_weights(const mr_pb_field *f, mr_onnx_signature *signature) {
    if (f->number == GRAPH_INITIALIZER)
        return walk(f->bytes, visit_initializer, signature);
    return f->number != GRAPH_SPARSE_INITIALIZER || walk(f->bytes, visit_sparse, signature);
}

static bool read_inputs_and_outputs(const mr_pb_field *f, mr_onnx_signature *signature) {
    return f->number != MODEL_GRAPH || walk(f->bytes, add_field, signature);
}

static bool drop_weights(const mr_pb_field *f, mr_onnx_signature *signature) {
    return f->number != MODEL_GRAPH || walk(f->bytes, remove_weights, signature);
}

/* Whether an output's size follows from the batch, as mr_model_bind fills it in. */
static bool is_sized(const mr_onnx_signature *signature, const mr_onnx_value *output) {
    if (output->unshaped)
        return false;
    bool batch = output->shape.rank > 0 && output->shape.dims[0] < 0 && output->symbol.at < output->symbol.end;
    for (int i = batch; i < output->shape.rank; i++)
        if (output->shape.dims[i] < 0)
            return false;
    for (size_t i = 0; i < signature->input_count && batch; i++)
        if (mr_pb_same(signature->inputs[i].symbol, output->symbol))
            return true;
    return !batch;
}

bool mr_onnx_read_signature(const uint8_t *data, size_t bytes, mr_onnx_signature *signature) {
    const mr_pb_span model = {data, data + bytes};
    signature->input_count = signature->output_count = 0;
    bool known = walk(model, read_inputs_and_outputs, signature) && walk(model, drop_weights, signature) &&
                 signature->input_count > 0 && signature->output_count > 0;
    for (size_t i = 0; i < signature->output_count && known; i++)
        known = is_sized(signature, &signature->outputs[i]);
    return known;
}

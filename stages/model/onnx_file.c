#include "stages/model/onnx_file.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/protobuf.h"
#include "stages/model/onnx_fault.h"
#include "stages/model/onnx_weights.h"

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SETS = 8,
    MODEL_TRAINING = 20,
    MODEL_FUNCTIONS = 25,
    TRAINING_INITIALIZATION = 1,
    TRAINING_ALGORITHM = 2,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    FUNCTION_NODE = 7,
    FUNCTION_DEFAULTS = 11,
    NODE_OUTPUT = 2,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_TENSORS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_SPARSE = 22,
    ATTRIBUTE_SPARSES = 23,
    SPARSE_VALUES = 1,
    SPARSE_INDICES = 2,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    VALUE_NAME = 1
};
/* From this version on a model names the operator sets that it is written in. */
enum { SETS_SINCE = 3 };
enum { MAX_DEPTH = 24 };

typedef struct scan {
    const char *name;
    mr_onnx_facts *facts;
    int depth;
    bool has_graph, has_sets;
    uint64_t version;
} scan;

static bool scan_tensor(scan *s, mr_pb_span tensor) {
    mr_pb_field f;
    while (tensor.at < tensor.end) {
        if (!mr_pb_next(&tensor, &f))
            return false;
        s->facts->external |= f.number == TENSOR_EXTERNAL_DATA || (f.number == TENSOR_DATA_LOCATION && f.value != 0);
    }
    return true;
}

static bool scan_sparse(scan *s, mr_pb_span sparse) {
    mr_pb_field f;
    while (sparse.at < sparse.end) {
        if (!mr_pb_next(&sparse, &f))
            return false;
        if (f.wire == MR_PB_BYTES && (f.number == SPARSE_VALUES || f.number == SPARSE_INDICES) &&
            !scan_tensor(s, f.bytes))
            return false;
    }
    return true;
}

static bool scan_nodes(scan *s, mr_pb_span graph, uint64_t node_number);

static bool scan_attribute(scan *s, mr_pb_span attribute) {
    mr_pb_field f;
    bool good = true;
    while (good && attribute.at < attribute.end) {
        good = mr_pb_next(&attribute, &f);
        if (!good || f.wire != MR_PB_BYTES)
            continue;
        if (f.number == ATTRIBUTE_TENSOR || f.number == ATTRIBUTE_TENSORS)
            good = scan_tensor(s, f.bytes);
        else if (f.number == ATTRIBUTE_GRAPH || f.number == ATTRIBUTE_GRAPHS)
            good = scan_nodes(s, f.bytes, GRAPH_NODE);
        else if (f.number == ATTRIBUTE_SPARSE || f.number == ATTRIBUTE_SPARSES)
            good = scan_sparse(s, f.bytes);
    }
    return good;
}

static bool scan_node(scan *s, mr_pb_span node) {
    mr_pb_field f;
    while (node.at < node.end) {
        if (!mr_pb_next(&node, &f))
            return false;
        if (f.wire != MR_PB_BYTES)
            continue;
        if (f.number == NODE_ATTRIBUTE && !scan_attribute(s, f.bytes))
            return false;
        if (f.number == NODE_OPERATOR)
            s->facts->compiled |= mr_pb_is(f.bytes, "EPContext");
        /* Only what the outermost graph computes can become an output of it. */
        if (f.number == NODE_OUTPUT && s->name && s->depth == 1 && mr_pb_is(f.bytes, s->name))
            s->facts->has_name = true;
    }
    return true;
}

/* A graph, or a function: they differ in the number under which nodes stand. */
static bool scan_nodes(scan *s, mr_pb_span graph, uint64_t node_number) {
    mr_pb_field f;
    bool good = ++s->depth <= MAX_DEPTH;
    while (good && graph.at < graph.end) {
        good = mr_pb_next(&graph, &f);
        if (!good || f.wire != MR_PB_BYTES)
            continue;
        if (f.number == node_number)
            good = scan_node(s, f.bytes);
        else if (node_number == FUNCTION_NODE && f.number == FUNCTION_DEFAULTS)
            good = scan_attribute(s, f.bytes);
        else if (node_number == GRAPH_NODE && f.number == GRAPH_INITIALIZER)
            good = scan_tensor(s, f.bytes);
        else if (node_number == GRAPH_NODE && f.number == GRAPH_SPARSE_INITIALIZER)
            good = scan_sparse(s, f.bytes);
    }
    s->depth--;
    return good;
}

static bool scan_training(scan *s, mr_pb_span training) {
    mr_pb_field f;
    bool good = true;
    while (good && training.at < training.end) {
        good = mr_pb_next(&training, &f);
        if (good && (f.number == TRAINING_INITIALIZATION || f.number == TRAINING_ALGORITHM))
            good = scan_nodes(s, f.bytes, GRAPH_NODE);
    }
    return good;
}

/* Tensors of functions and of training are not the graph's: they count as one level deeper. */
static bool scan_beside(scan *s, const mr_pb_field *f) {
    s->depth = 1;
    bool good = f->number == MODEL_FUNCTIONS ? scan_nodes(s, f->bytes, FUNCTION_NODE) : scan_training(s, f->bytes);
    s->depth = 0;
    return good;
}

static bool scan_field(scan *s, const mr_pb_field *f) {
    if (f->number == MODEL_IR_VERSION && f->wire == MR_PB_VARINT)
        s->version = f->value;
    s->has_sets |= f->number == MODEL_OPERATOR_SETS;
    if (f->number == MODEL_FUNCTIONS || f->number == MODEL_TRAINING)
        return scan_beside(s, f);
    if (f->number != MODEL_GRAPH || f->wire != MR_PB_BYTES)
        return true;
    s->has_graph = true;
    return scan_nodes(s, f->bytes, GRAPH_NODE);
}

int mr_onnx_scan(const uint8_t *data, size_t bytes, const char *name, mr_onnx_facts *facts) {
    *facts = (mr_onnx_facts){0};
    scan s = {.name = name, .facts = facts};
    mr_pb_span model = {data, data + bytes};
    bool good = true;
    mr_pb_field f;
    char fault[MR_ONNX_FAULT_TEXT];
    while (good && model.at < model.end)
        good = mr_pb_next(&model, &f) && scan_field(&s, &f);
    if (good && s.has_graph && (s.has_sets || s.version < SETS_SINCE))
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s", mr_onnx_fault(data, bytes, fault, sizeof fault));
}

/* A file of ONNX is one message of protobuf, which ends at 2 GiB; ONNX Runtime takes the size as an int. */
static const size_t most_bytes = INT32_MAX - 65536;

static int check_bytes(const char *path, const mr_file_bytes *model, const char *tensor, bool *has_tensor) {
    mr_onnx_facts facts;
    int status = mr_onnx_scan(model->data, model->bytes, tensor, &facts);
    if (status)
        return mr_fail(status, "the model %s does not load: %s", path, mr_message());
    if (facts.external)
        return mr_fail(MR_ERROR_DATA,
                       "the model %s keeps weights in other files, which is not allowed; save it as one file", path);
    if (facts.compiled)
        return mr_fail(MR_ERROR_DATA,
                       "the model %s holds, or names a file with, an engine compiled for one device (EPContext), which "
                       "is not allowed; give the model that it was made from",
                       path);
    *has_tensor = facts.has_name;
    status = mr_onnx_check_weights(model->data, model->bytes);
    return status ? mr_fail(status, "the model %s: %s", path, mr_message()) : MR_OK;
}

int mr_onnx_read(const char *path, size_t room, const char *tensor, mr_file_bytes *model, bool *has_tensor) {
    mr_file_bytes made;
    int status = mr_file_read("the model", path, most_bytes, room, &made);
    if (status)
        return status;
    status = check_bytes(path, &made, tensor, has_tensor);
    if (status)
        mr_free(made.data);
    else
        *model = made;
    return status;
}

static uint8_t *put_header(uint8_t *to, uint64_t number, size_t bytes) {
    *to++ = (uint8_t)(number << 3 | MR_PB_BYTES);
    for (; bytes >= 0x80; bytes >>= 7)
        *to++ = (uint8_t)(bytes | 0x80);
    *to++ = (uint8_t)bytes;
    return to;
}

static size_t header_bytes(size_t bytes) {
    size_t count = 2;
    for (; bytes >= 0x80; bytes >>= 7)
        count++;
    return count;
}

size_t mr_onnx_append_output(uint8_t *end, const char *name) {
    size_t text = strlen(name);
    size_t value = header_bytes(text) + text;
    uint8_t *to = put_header(end, MODEL_GRAPH, header_bytes(value) + value);
    to = put_header(to, GRAPH_OUTPUT, value);
    to = put_header(to, VALUE_NAME, text);
    memcpy(to, name, text);
    return (size_t)(to + text - end);
}

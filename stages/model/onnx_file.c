#include "stages/model/onnx_file.h"

#include <string.h>

#include "millrace/status.h"
#include "stages/model/protobuf.h"

/* Field numbers of onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    MODEL_FUNCTIONS = 25,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    FUNCTION_NODE = 7,
    NODE_OUTPUT = 2,
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
enum { MAX_DEPTH = 24 };

typedef struct scan {
    const char *name;
    size_t name_bytes;
    mr_onnx_facts *facts;
    int depth;
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
        /* Only what the outermost graph computes can become an output of it. */
        if (f.number == NODE_OUTPUT && s->name && s->depth == 1 &&
            (size_t)(f.bytes.end - f.bytes.at) == s->name_bytes && memcmp(f.bytes.at, s->name, s->name_bytes) == 0)
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
        else if (node_number == GRAPH_NODE && f.number == GRAPH_INITIALIZER)
            good = scan_tensor(s, f.bytes);
        else if (node_number == GRAPH_NODE && f.number == GRAPH_SPARSE_INITIALIZER)
            good = scan_sparse(s, f.bytes);
    }
    s->depth--;
    return good;
}

int mr_onnx_scan(const uint8_t *data, size_t bytes, const char *name, mr_onnx_facts *facts) {
    *facts = (mr_onnx_facts){0};
    scan s = {.name = name, .name_bytes = name ? strlen(name) : 0, .facts = facts};
    mr_pb_span model = {data, data + bytes};
    bool has_graph = false, good = true;
    mr_pb_field f;
    while (good && model.at < model.end) {
        good = mr_pb_next(&model, &f);
        if (!good || f.wire != MR_PB_BYTES)
            continue;
        if (f.number == MODEL_GRAPH) {
            has_graph = true;
            good = scan_nodes(&s, f.bytes, GRAPH_NODE);
        } else if (f.number == MODEL_FUNCTIONS) {
            /* One deeper than the graph: a function's tensors are not the graph's. */
            s.depth = 1;
            good = scan_nodes(&s, f.bytes, FUNCTION_NODE);
            s.depth = 0;
        }
    }
    return good && has_graph ? MR_OK : mr_fail(MR_ERROR_DATA, "it is not an ONNX model");
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

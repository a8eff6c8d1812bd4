#include "stages/model/onnx_file.h"

#include <string.h>

#include "millrace/status.h"

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
/* Wire types of protobuf. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { MAX_DEPTH = 24 };

typedef struct span {
    const uint8_t *at, *end;
} span;

typedef struct field {
    uint64_t number;
    int wire;
    uint64_t value; /* of WIRE_VARINT */
    span bytes;     /* of WIRE_BYTES */
} field;

typedef struct scan {
    const char *name;
    size_t name_bytes;
    mr_onnx_facts *facts;
    int depth;
} scan;

static bool read_varint(span *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool skip(span *from, uint64_t bytes) {
    if (bytes > (uint64_t)(from->end - from->at))
        return false;
    from->at += bytes;
    return true;
}

/* Reads the next field; false where the bytes are no protobuf. To be called while from->at < from->end. */
static bool next_field(span *from, field *f) {
    uint64_t key;
    if (!read_varint(from, &key))
        return false;
    f->number = key >> 3;
    f->wire = (int)(key & 7);
    if (f->number == 0)
        return false;
    if (f->wire == WIRE_VARINT)
        return read_varint(from, &f->value);
    if (f->wire == WIRE_BYTES) {
        uint64_t bytes;
        if (!read_varint(from, &bytes))
            return false;
        f->bytes.at = from->at;
        if (!skip(from, bytes))
            return false;
        f->bytes.end = from->at;
        return true;
    }
    return f->wire == WIRE_64 ? skip(from, 8) : f->wire == WIRE_32 && skip(from, 4);
}

static bool scan_tensor(scan *s, span tensor) {
    field f;
    while (tensor.at < tensor.end) {
        if (!next_field(&tensor, &f))
            return false;
        s->facts->external |= f.number == TENSOR_EXTERNAL_DATA || (f.number == TENSOR_DATA_LOCATION && f.value != 0);
    }
    return true;
}

static bool scan_sparse(scan *s, span sparse) {
    field f;
    while (sparse.at < sparse.end) {
        if (!next_field(&sparse, &f))
            return false;
        if (f.wire == WIRE_BYTES && (f.number == SPARSE_VALUES || f.number == SPARSE_INDICES) &&
            !scan_tensor(s, f.bytes))
            return false;
    }
    return true;
}

static bool scan_nodes(scan *s, span graph, uint64_t node_number);

static bool scan_attribute(scan *s, span attribute) {
    field f;
    bool good = true;
    while (good && attribute.at < attribute.end) {
        good = next_field(&attribute, &f);
        if (!good || f.wire != WIRE_BYTES)
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

static bool scan_node(scan *s, span node) {
    field f;
    while (node.at < node.end) {
        if (!next_field(&node, &f))
            return false;
        if (f.wire != WIRE_BYTES)
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
static bool scan_nodes(scan *s, span graph, uint64_t node_number) {
    field f;
    bool good = ++s->depth <= MAX_DEPTH;
    while (good && graph.at < graph.end) {
        good = next_field(&graph, &f);
        if (!good || f.wire != WIRE_BYTES)
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
    span model = {data, data + bytes};
    bool has_graph = false, good = true;
    field f;
    while (good && model.at < model.end) {
        good = next_field(&model, &f);
        if (!good || f.wire != WIRE_BYTES)
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
    *to++ = (uint8_t)(number << 3 | WIRE_BYTES);
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

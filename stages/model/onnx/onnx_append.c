#include "stages/model/onnx/onnx_append.h"

#include <string.h>

#include "stages/model/onnx/protobuf.h"

/* onnx.proto field numbers. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_OUTPUT = 12,
    VALUE_NAME = 1,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5
};

/* All field numbers here are below 16 and fit in one byte with their wire type. */
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

/* Size of a field with this content, including the header. */
static size_t field_bytes(size_t bytes) {
    return header_bytes(bytes) + bytes;
}

static uint8_t *put_bytes(uint8_t *to, uint64_t number, const void *data, size_t bytes) {
    to = put_header(to, number, bytes);
    memcpy(to, data, bytes);
    return to + bytes;
}

static uint8_t *put_text(uint8_t *to, uint64_t number, const char *text) {
    return put_bytes(to, number, text, strlen(text));
}

size_t mr_onnx_append_output(uint8_t *end, const char *name) {
    size_t value = field_bytes(strlen(name));
    uint8_t *to = put_header(end, MODEL_GRAPH, field_bytes(value));
    to = put_header(to, GRAPH_OUTPUT, value);
    return (size_t)(put_text(to, VALUE_NAME, name) - end);
}

size_t mr_onnx_append_cast(uint8_t *end, const char *name, const char *as, int to_type) {
    /* AttributeProto: name (1) "to", i (3) the type, type (20) INT, which is 2. */
    const uint8_t attribute[] = {1 << 3 | MR_PB_BYTES, 2, 't', 'o', 3 << 3 | MR_PB_VARINT, (uint8_t)to_type,
                                 (uint8_t)(20 << 3 | 0x80), 1, 2};
    static const char operation[] = "Cast";
    size_t node = field_bytes(strlen(name)) + field_bytes(strlen(as)) + field_bytes(strlen(operation)) +
                  field_bytes(sizeof attribute);
    uint8_t *to = put_header(end, MODEL_GRAPH, field_bytes(node));
    to = put_header(to, GRAPH_NODE, node);
    to = put_text(to, NODE_INPUT, name);
    to = put_text(to, NODE_OUTPUT, as);
    to = put_text(to, NODE_OPERATOR, operation);
    to = put_bytes(to, NODE_ATTRIBUTE, attribute, sizeof attribute);
    return (size_t)(to - end) + mr_onnx_append_output(to, as);
}

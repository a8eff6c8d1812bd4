#include "stages/model/onnx/protobuf.h"

#include <string.h>

enum { MAX_KEY_BYTES = 5 };

bool mr_pb_varint(mr_pb_span *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* A key has at most five bytes and 32 bits. protobuf's C++ reader truncates a larger key, and would find another field
 * than this reader. No writer makes such a key by accident. */
static bool read_key(mr_pb_span *from, uint32_t *key) {
    const uint8_t *begin = from->at;
    uint64_t value;
    if (!mr_pb_varint(from, &value) || value > UINT32_MAX || from->at - begin > MAX_KEY_BYTES)
        return false;
    *key = (uint32_t)value;
    return true;
}

static bool skip(mr_pb_span *from, uint64_t bytes) {
    if (bytes > (uint64_t)(from->end - from->at))
        return false;
    from->at += bytes;
    return true;
}

bool mr_pb_next(mr_pb_span *from, mr_pb_field *field) {
    uint32_t key;
    uint64_t bytes;
    *field = (mr_pb_field){0};
    if (!read_key(from, &key))
        return false;
    field->number = key >> 3;
    field->wire = (int)(key & 7);
    if (field->number == 0)
        return false;
    switch (field->wire) {
    case MR_PB_VARINT:
        return mr_pb_varint(from, &field->value);
    case MR_PB_BYTES:
        if (!mr_pb_varint(from, &bytes))
            return false;
        field->bytes.at = from->at;
        if (!skip(from, bytes))
            return false;
        field->bytes.end = from->at;
        return true;
    case MR_PB_64:
        return skip(from, 8);
    default:
        return field->wire == MR_PB_32 && skip(from, 4);
    }
}

bool mr_pb_same(mr_pb_span a, mr_pb_span b) {
    size_t bytes = (size_t)(a.end - a.at);
    return bytes == (size_t)(b.end - b.at) && (bytes == 0 || memcmp(a.at, b.at, bytes) == 0);
}

bool mr_pb_is(mr_pb_span bytes, const char *text) {
    size_t length = strlen(text);
    return (size_t)(bytes.end - bytes.at) == length && (length == 0 || memcmp(bytes.at, text, length) == 0);
}

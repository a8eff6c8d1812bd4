#include "stages/model/protobuf.h"

static bool read_varint(mr_pb_span *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool skip(mr_pb_span *from, uint64_t bytes) {
    if (bytes > (uint64_t)(from->end - from->at))
        return false;
    from->at += bytes;
    return true;
}

bool mr_pb_next(mr_pb_span *from, mr_pb_field *field) {
    uint64_t key, bytes;
    if (!read_varint(from, &key))
        return false;
    field->number = key >> 3;
    field->wire = (int)(key & 7);
    if (field->number == 0)
        return false;
    switch (field->wire) {
    case MR_PB_VARINT:
        return read_varint(from, &field->value);
    case MR_PB_BYTES:
        if (!read_varint(from, &bytes))
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

#include "tools/millrace/otlp/otlp_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"

/* How a field's value is written. */
enum { VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 5 };
enum { MOST_VARINT = 10 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool grow(mr_otlp_bytes *to, size_t more) {
    if (to->room - to->length >= more || to->failed)
        return !to->failed;
    const size_t room = 2 * to->room + more + 4096;
    char *wider = realloc(to->data, room);
    to->failed = !wider;
    if (wider) {
        to->data = wider;
        to->room = room;
    }
    return !to->failed;
}

void mr_otlp_add(mr_otlp_bytes *to, const void *bytes, size_t count) {
    if (!grow(to, count) || !count)
        return;
    memcpy(to->data + to->length, bytes, count);
    to->length += count;
}

static size_t make_varint(uint8_t bytes[MOST_VARINT], uint64_t value) {
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (uint8_t)(value | 0x80);
    bytes[count++] = (uint8_t)value;
    return count;
}

static void add_varint(mr_otlp_bytes *to, uint64_t value) {
    uint8_t bytes[MOST_VARINT];
    mr_otlp_add(to, bytes, make_varint(bytes, value));
}

static void add_tag(mr_otlp_bytes *to, int field, int type) {
    add_varint(to, (uint64_t)field << 3 | (uint64_t)type);
}

static void add_low_first(mr_otlp_bytes *to, uint64_t value, size_t count) {
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    mr_otlp_add(to, bytes, count);
}

void mr_otlp_uint(mr_otlp_bytes *to, int field, uint64_t value) {
    add_tag(to, field, VARINT);
    add_varint(to, value);
}

void mr_otlp_fixed64(mr_otlp_bytes *to, int field, uint64_t value) {
    add_tag(to, field, EIGHT_BYTES);
    add_low_first(to, value, 8);
}

void mr_otlp_fixed32(mr_otlp_bytes *to, int field, uint32_t value) {
    add_tag(to, field, FOUR_BYTES);
    add_low_first(to, value, 4);
}

void mr_otlp_double(mr_otlp_bytes *to, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    mr_otlp_fixed64(to, field, bits);
}

void mr_otlp_data(mr_otlp_bytes *to, int field, const void *bytes, size_t count) {
    add_tag(to, field, COUNTED);
    add_varint(to, count);
    mr_otlp_add(to, bytes, count);
}

void mr_otlp_text(mr_otlp_bytes *to, int field, const char *text) {
    const size_t length = strlen(text);
    add_tag(to, field, COUNTED);
    add_varint(to, length);
    if (!grow(to, length + 1))
        return;
    memcpy(to->data + to->length, text, length + 1);
    mr_utf8_mend(to->data + to->length);
    to->length += length;
}

/* The length comes before the message. It has one byte until it is known. */
size_t mr_otlp_begin(mr_otlp_bytes *to, int field) {
    add_tag(to, field, COUNTED);
    add_varint(to, 0);
    return to->length;
}

void mr_otlp_end(mr_otlp_bytes *to, size_t begin) {
    uint8_t length[MOST_VARINT];
    const size_t bytes = to->length - begin, count = make_varint(length, bytes);
    if (!grow(to, count))
        return;
    memmove(to->data + begin + count - 1, to->data + begin, bytes);
    memcpy(to->data + begin - 1, length, count);
    to->length += count - 1;
}

/* Field numbers of KeyValue and AnyValue. */
enum { KEY = 1, VALUE, ANY_STRING = 1, ANY_INT = 3 };

void mr_otlp_attribute(mr_otlp_bytes *to, int field, const char *key, const char *value) {
    if (!value || !*value)
        return;
    const size_t pair = mr_otlp_begin(to, field);
    mr_otlp_text(to, KEY, key);
    const size_t any = mr_otlp_begin(to, VALUE);
    mr_otlp_text(to, ANY_STRING, value);
    mr_otlp_end(to, any);
    mr_otlp_end(to, pair);
}

void mr_otlp_attribute_int(mr_otlp_bytes *to, int field, const char *key, int64_t value) {
    const size_t pair = mr_otlp_begin(to, field);
    mr_otlp_text(to, KEY, key);
    const size_t any = mr_otlp_begin(to, VALUE);
    mr_otlp_uint(to, ANY_INT, (uint64_t)value);
    mr_otlp_end(to, any);
    mr_otlp_end(to, pair);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const uint8_t *at, *end;
    bool cut; /* the end is missing: the last field is what is there of it */
} reader;

/* A field; `data`: its bytes, if it has a length. */
typedef struct field {
    uint64_t number, value;
    reader data;
} field;

static bool read_varint(reader *from, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; from->at < from->end && shift < 64; shift += 7) {
        const uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_field(reader *from, field *one) {
    uint64_t tag, bytes;
    *one = (field){0};
    if (!read_varint(from, &tag))
        return false;
    one->number = tag >> 3;
    if ((tag & 7) == VARINT)
        return read_varint(from, &one->value);
    bytes = (tag & 7) == EIGHT_BYTES ? 8 : 4;
    if ((tag & 7) == COUNTED ? !read_varint(from, &bytes) : (tag & 7) != EIGHT_BYTES && (tag & 7) != FOUR_BYTES)
        return false;
    const uint64_t left = (uint64_t)(from->end - from->at);
    if (bytes > left && !from->cut)
        return false;
    one->data = (reader){from->at, from->at + (bytes < left ? bytes : left), from->cut && bytes > left};
    from->at = one->data.end;
    return true;
}

/* Field numbers of the answers, and of the partial success in them. */
enum { PARTIAL_SUCCESS = 1, REJECTED = 1, ERROR_MESSAGE };

static bool read_partial(reader from, uint64_t *rejected, char why[MR_OTLP_WHY]) {
    field one;
    while (from.at < from.end) {
        if (!read_field(&from, &one))
            return from.cut;
        if (one.number == REJECTED)
            *rejected = one.value;
        if (one.number == ERROR_MESSAGE && one.data.at) {
            const size_t bytes = (size_t)(one.data.end - one.data.at), room = MR_OTLP_WHY - 1;
            memcpy(why, one.data.at, bytes < room ? bytes : room);
            why[bytes < room ? bytes : room] = '\0';
            mr_utf8_mend(why);
        }
    }
    return true;
}

bool mr_otlp_read_rejected(const uint8_t *answer, size_t bytes, bool cut, uint64_t *rejected, char why[MR_OTLP_WHY]) {
    reader from = {answer, answer + bytes, cut};
    field one;
    *rejected = 0;
    *why = '\0';
    while (from.at < from.end) {
        if (!read_field(&from, &one))
            return cut;
        if (one.number == PARTIAL_SUCCESS && one.data.at && !read_partial(one.data, rejected, why))
            return false;
    }
    return true;
}

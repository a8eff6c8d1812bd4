#include "stages/zmq/zmq_message.h"

#include <libavcodec/avcodec.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"

enum { MOST_DEPTH = 4, MOST_VARINT = 10 };

/* A message inside the record whose length is not known yet. */
typedef struct nested {
    size_t begin; /* where its content begins */
    size_t room;  /* bytes reserved for the length */
} nested;

struct mr_zmq_message {
    mr_encoder encoder;
    uint8_t *data;
    size_t bytes, room;
    nested nested[MOST_DEPTH];
    size_t depth;
    bool failed; /* no memory */
};

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Makes room for more bytes; NULL: no memory. */
static uint8_t *extend(mr_zmq_message *at, size_t more) {
    if (!mr_grow_bytes((void **)&at->data, &at->room, at->bytes + more)) {
        at->failed = true;
        return NULL;
    }
    uint8_t *to = at->data + at->bytes;
    at->bytes += more;
    return to;
}

static void put_bytes(mr_zmq_message *at, const void *data, size_t bytes) {
    uint8_t *to = extend(at, bytes);
    if (to && bytes)
        memcpy(to, data, bytes);
}

/* protobuf integers: seven bits per byte, lowest first. */
static size_t make_varint(uint8_t to[MOST_VARINT], uint64_t value) {
    size_t bytes = 0;
    for (; value > 127; value >>= 7)
        to[bytes++] = (uint8_t)(value | 128);
    to[bytes++] = (uint8_t)value;
    return bytes;
}

static void put_varint(mr_zmq_message *at, uint64_t value) {
    uint8_t text[MOST_VARINT];
    put_bytes(at, text, make_varint(text, value));
}

typedef enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire_type;

static void put_tag(mr_zmq_message *at, uint32_t number, wire_type type) {
    put_varint(at, number << 3 | type);
}

/* protobuf texts must be UTF-8; file names need not be. */
static void put_text(mr_zmq_message *at, uint32_t number, const char *text) {
    const size_t length = text ? strlen(text) : 0;
    if (!length)
        return;
    put_tag(at, number, BYTES);
    put_varint(at, length);
    char *to = (char *)extend(at, length + 1);
    if (!to)
        return;
    mr_utf8_mend(memcpy(to, text, length + 1));
    at->bytes--; /* the terminating zero */
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

static void put_fixed(mr_zmq_message *at, uint32_t number, wire_type type, const void *value) {
    put_tag(at, number, type);
    put_bytes(at, value, type == FIXED32 ? 4 : 8);
}

/* An unset value has protobuf's default, and no bytes. */
static void put_value(mr_encoder *to, const mr_field *field, uint32_t number, const void *base) {
    mr_zmq_message *at = (mr_zmq_message *)to;
    const void *value = (const char *)base + field->offset;
    const bool narrow = field->type == MR_FIELD_I32, single = field->type == MR_FIELD_BOOL;
    if (!mr_value_is_set(field, base))
        return;
    if (field->type == MR_FIELD_TEXT) {
        put_text(at, number, *(const char *const *)value);
    } else if (field->type == MR_FIELD_F32 || field->type == MR_FIELD_F64) {
        put_fixed(at, number, field->type == MR_FIELD_F32 ? FIXED32 : FIXED64, value);
    } else {
        const int64_t whole = single ? 1 : narrow ? *(const int32_t *)value : *(const int64_t *)value;
        const uint64_t bits = (uint64_t)whole;
        put_tag(at, number, VARINT);
        /* Dates are sint64: zigzag. */
        put_varint(at, field->type == MR_FIELD_DATE ? bits << 1 ^ (whole < 0 ? UINT64_MAX : 0) : bits);
    }
}

static void open_part(mr_encoder *to, mr_record_opening what, const char *name, uint32_t number, size_t likely) {
    mr_zmq_message *at = (mr_zmq_message *)to;
    uint8_t length[MOST_VARINT];
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUPS)
        return;
    put_tag(at, number, BYTES);
    nested *inside = &at->nested[at->depth++];
    inside->room = make_varint(length, likely);
    put_bytes(at, length, inside->room);
    inside->begin = at->bytes;
    if (what == MR_OPEN_GROUP)
        put_text(at, 1, name);
}

static void close_part(mr_encoder *to, mr_record_opening what) {
    mr_zmq_message *at = (mr_zmq_message *)to;
    uint8_t length[MOST_VARINT];
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUPS)
        return;
    const nested *inside = &at->nested[--at->depth];
    const size_t bytes = at->bytes - inside->begin, needed = make_varint(length, bytes);
    if (needed > inside->room)
        extend(at, needed - inside->room);
    if (at->failed)
        return;
    uint8_t *before = at->data + inside->begin - inside->room;
    if (needed != inside->room)
        memmove(before + needed, before + inside->room, bytes);
    memcpy(before, length, needed);
    at->bytes = inside->begin - inside->room + needed + bytes;
}

/* Packed, as protobuf writes repeated numbers. */
static void put_numbers(mr_encoder *to, const mr_field *field, uint32_t number, const void *data, size_t count) {
    mr_zmq_message *at = (mr_zmq_message *)to;
    const bool floats = field->type == MR_FIELD_F32S;
    open_part(to, MR_OPEN_ITEM, NULL, number, floats ? count * sizeof(float) : count);
    if (floats)
        put_bytes(at, data, count * sizeof(float));
    for (size_t i = 0; i < count && !floats; i++)
        put_varint(at, (uint64_t)(int64_t)((const int32_t *)data)[i]);
    close_part(to, MR_OPEN_ITEM);
}

static void put_array(mr_encoder *to, const char *name, uint32_t number, const mr_format *format, const void *data) {
    mr_zmq_message *at = (mr_zmq_message *)to;
    const size_t bytes = mr_tensor_bytes(format);
    if (name)
        open_part(to, MR_OPEN_ITEM, NULL, number, bytes);
    put_text(at, 3, mr_dtype_name(format->dtype));
    open_part(to, MR_OPEN_ITEM, NULL, 4, 0);
    for (int32_t i = 0; i < format->rank; i++)
        put_varint(at, (uint64_t)format->dims[i]);
    close_part(to, MR_OPEN_ITEM);
    put_tag(at, 5, BYTES);
    put_varint(at, bytes);
    put_bytes(at, data, bytes);
    if (name)
        close_part(to, MR_OPEN_ITEM);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

int mr_zmq_message_create(mr_zmq_message **message) {
    mr_zmq_message *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for messages");
    made->encoder = (mr_encoder){.value = put_value, .numbers = put_numbers, .open = open_part,
                                 .close = close_part, .array = put_array, .by_result = true};
    *message = made;
    return MR_OK;
}

void mr_zmq_message_destroy(mr_zmq_message **message) {
    if (*message)
        mr_free((*message)->data);
    mr_free(*message);
    *message = NULL;
}

int mr_zmq_message_make(mr_zmq_message *at, const mr_recorded *recorded, const uint8_t **data, size_t *bytes) {
    at->bytes = at->depth = 0;
    at->failed = false;
    mr_record_walk(recorded, &at->encoder);
    if (at->failed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    *data = at->data;
    *bytes = at->bytes;
    return MR_OK;
}

/* ---- the payload ----------------------------------------------------------------------------------------------- */

const char *mr_zmq_payload_format(const mr_frame *frame, char text[MR_FORMAT_TEXT]) {
    const mr_format *format = &frame->format;
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    int length = 0;
    switch (format->payload) {
    case MR_PAYLOAD_PICTURE:
        snprintf(text, MR_FORMAT_TEXT, "%s %dx%d", mr_pixel_describe(format->pixel)->name, (int)format->width,
                 (int)format->height);
        return text;
    case MR_PAYLOAD_TENSOR:
        length = snprintf(text, MR_FORMAT_TEXT, "%s ", mr_dtype_name(format->dtype));
        for (int32_t i = 0; i < format->rank; i++)
            length += snprintf(text + length, (size_t)(MR_FORMAT_TEXT - length), i ? "x%lld" : "%lld",
                               (long long)format->dims[i]);
        return text;
    case MR_PAYLOAD_PACKET:
        snprintf(text, MR_FORMAT_TEXT, "%s", codec ? avcodec_get_name(codec->codec_id) : "unknown");
        return text;
    default:
        return NULL;
    }
}

size_t mr_zmq_payload_bytes(const mr_frame *frame) {
    return frame->format.payload == MR_PAYLOAD_PACKET ? frame->plane[0].bytes : mr_packed_bytes(&frame->format);
}

void mr_zmq_payload_copy(const mr_frame *frame, uint8_t *to) {
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        memcpy(to, frame->plane[0].data, frame->plane[0].bytes);
    else
        mr_frame_pack(frame, to);
}

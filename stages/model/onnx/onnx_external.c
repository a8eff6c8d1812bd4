#include "stages/model/onnx/onnx_external.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/protobuf.h"

/* An ONNX file is one protobuf message, which cannot exceed 2 GiB. */
static const size_t most_bytes = INT32_MAX - 65536;

/* Messages in onnx.proto that can contain tensors. */
typedef enum kind { NOT_FOLLOWED, MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, SPARSE, FUNCTION, TRAINING } kind;

enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2, MOST_NAME = 100 };
enum { TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };

/* Which message a field holds; other fields are copied unchanged. */
static kind kind_of(kind outer, uint32_t number) {
    static const struct {
        kind outer;
        uint32_t number;
        kind inner;
    } fields[] = {{MODEL, 7, GRAPH},       {MODEL, 20, TRAINING},    {MODEL, 25, FUNCTION},    {GRAPH, 1, NODE},
                  {GRAPH, 5, TENSOR},      {GRAPH, 15, SPARSE},      {NODE, 5, ATTRIBUTE},     {ATTRIBUTE, 5, TENSOR},
                  {ATTRIBUTE, 6, GRAPH},   {ATTRIBUTE, 10, TENSOR},  {ATTRIBUTE, 11, GRAPH},   {ATTRIBUTE, 22, SPARSE},
                  {ATTRIBUTE, 23, SPARSE}, {SPARSE, 1, TENSOR},      {SPARSE, 2, TENSOR},      {FUNCTION, 7, NODE},
                  {FUNCTION, 11, ATTRIBUTE}, {TRAINING, 1, GRAPH},   {TRAINING, 2, GRAPH}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].outer == outer && fields[i].number == number)
            return fields[i].inner;
    return NOT_FOLLOWED;
}

typedef struct merge {
    const char *path, *name; /* the file's path, and the name without folder */
    mr_file_bytes from;
    int status;
    uint8_t *to;      /* NULL: bytes are only counted */
    size_t bytes;
} merge;

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put(merge *m, const void *data, size_t bytes) {
    if (m->to)
        memcpy(m->to + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_varint(merge *m, uint64_t value) {
    uint8_t text[10];
    size_t count = 0;
    do {
        text[count++] = (uint8_t)(value & 0x7f) | (value >= 0x80 ? 0x80 : 0);
    } while (value >>= 7);
    put(m, text, count);
}

static void put_header(merge *m, uint32_t number, size_t bytes) {
    put_varint(m, (uint64_t)number << 3 | MR_PB_BYTES);
    put_varint(m, bytes);
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

static int fail(merge *m, int status) {
    m->status = m->status ? m->status : status;
    return status;
}

static bool read_number(mr_pb_span text, uint64_t *number) {
    *number = 0;
    for (; text.at < text.end; text.at++)
        if (*text.at < '0' || *text.at > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*text.at - '0'), number))
            return false;
    return true;
}

/* Whether a location names the file, which is the end of the path. Exporters write "./" before it, and "\\" on
 * Windows. */
static bool is_location(const merge *m, mr_pb_span value) {
    while (value.end - value.at > 2 && value.at[0] == '.' && (value.at[1] == '/' || value.at[1] == '\\'))
        value.at += 2;
    const size_t bytes = (size_t)(value.end - value.at), length = strlen(m->path);
    if (bytes < strlen(m->name) || bytes > length || (bytes < length && m->path[length - bytes - 1] != '/'))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if ((value.at[i] == '\\' ? '/' : value.at[i]) != (uint8_t)m->path[length - bytes + i])
            return false;
    return true;
}

/* Reads an entry in TensorProto.external_data: location, offset, length, or a checksum, which is ignored. */
static int read_entry(merge *m, mr_pb_span entry, uint64_t *offset, uint64_t *length) {
    mr_pb_field f;
    mr_pb_span key = {entry.end, entry.end}, value = key;
    while (entry.at < entry.end && mr_pb_next(&entry, &f)) {
        key = f.number == ENTRY_KEY ? f.bytes : key;
        value = f.number == ENTRY_VALUE ? f.bytes : value;
    }
    const bool is_offset = mr_pb_is(key, "offset");
    if (mr_pb_is(key, "location") && !is_location(m, value))
        return mr_fail(MR_ERROR_DATA, "keeps weights in \"%.*s\", and external_data names %s; one file is taken",
                       (int)(value.end - value.at < MOST_NAME ? value.end - value.at : MOST_NAME),
                       (const char *)value.at, m->name);
    if ((is_offset || mr_pb_is(key, "length")) && !read_number(value, is_offset ? offset : length))
        return mr_fail(MR_ERROR_DATA, "has weights in %s whose place is not a number", m->name);
    return MR_OK;
}

/* Bits per element for a TensorProto.DataType; 0: unknown here. */
static unsigned bits_of(uint64_t type) {
    static const uint8_t bits[] = {[1] = 32,  [2] = 8,   [3] = 8,   [4] = 16, [5] = 16, [6] = 32, [7] = 64,
                                   [9] = 8,   [10] = 16, [11] = 64, [12] = 32, [13] = 64, [14] = 64, [15] = 128,
                                   [16] = 16, [17] = 8,  [18] = 8,  [19] = 8, [20] = 8, [21] = 4, [22] = 4,
                                   [23] = 4,  [24] = 8};
    return type < sizeof bits ? bits[type] : 0;
}

/* The tensor's size from shape and type; `otherwise` if they do not determine it. */
static uint64_t bytes_of_shape(mr_pb_span tensor, uint64_t otherwise) {
    uint64_t count = 1, type = 0, dim;
    mr_pb_field f;
    bool good = true;
    while (good && tensor.at < tensor.end && mr_pb_next(&tensor, &f)) {
        if (f.number == TENSOR_TYPE)
            type = f.value;
        else if (f.number == TENSOR_DIMS && f.wire == MR_PB_VARINT)
            good = !__builtin_mul_overflow(count, f.value, &count);
        while (good && f.number == TENSOR_DIMS && f.wire == MR_PB_BYTES && mr_pb_varint(&f.bytes, &dim))
            good = !__builtin_mul_overflow(count, dim, &count);
    }
    const unsigned bits = bits_of(type);
    return good && bits && !__builtin_mul_overflow(count, bits, &count) ? count / 8 + (count % 8 != 0) : otherwise;
}

/* The length can be missing; some exporters write 0. */
static void put_tensor(merge *m, mr_pb_span tensor) {
    const mr_pb_span whole = tensor;
    uint64_t offset = 0, length = 0;
    mr_pb_field f;
    while (tensor.at < tensor.end && !m->status) {
        const uint8_t *begin = tensor.at;
        if (!mr_pb_next(&tensor, &f))
            fail(m, mr_fail(MR_ERROR_DATA, "is damaged"));
        else if (f.number == TENSOR_EXTERNAL)
            fail(m, read_entry(m, f.bytes, &offset, &length));
        else if (f.number != TENSOR_LOCATION && f.number != TENSOR_RAW)
            put(m, begin, (size_t)(tensor.at - begin));
    }
    if (m->status)
        return;
    const uint64_t size = m->from.bytes, left = offset <= size ? size - offset : 0;
    length = length ? length : bytes_of_shape(whole, left);
    if (offset > size || length > left) {
        fail(m, mr_fail(MR_ERROR_DATA, "needs bytes %" PRIu64 " to %" PRIu64 " of %s, which has %" PRIu64
                                       ": they do not belong together, or it is truncated",
                        offset, length <= UINT64_MAX - offset ? offset + length : UINT64_MAX, m->name, size));
        return;
    }
    put_header(m, TENSOR_RAW, (size_t)length);
    put(m, m->from.data + offset, (size_t)length);
}

static bool is_external(mr_pb_span tensor) {
    mr_pb_field f;
    while (tensor.at < tensor.end && mr_pb_next(&tensor, &f))
        if (f.number == TENSOR_EXTERNAL || (f.number == TENSOR_LOCATION && f.value != 0))
            return true;
    return false;
}

/* ---- the message around it --------------------------------------------------------------------------------------- */

static void put_message(merge *m, kind of, mr_pb_span message);

/* Computes the size with a dry run. */
static size_t size_of(merge *m, kind of, mr_pb_span message) {
    merge counted = *m;
    counted.to = NULL;
    counted.bytes = 0;
    put_message(&counted, of, message);
    fail(m, counted.status);
    return counted.bytes;
}

/* Writes an inner message. When only counting, its header is counted last, so that each message is visited once. */
static void put_inner(merge *m, kind inner, uint32_t number, mr_pb_span message) {
    const size_t before = m->bytes, bytes = m->to ? size_of(m, inner, message) : 0;
    if (m->to && !m->status)
        put_header(m, number, bytes);
    if (!m->status)
        put_message(m, inner, message);
    if (!m->to)
        put_header(m, number, m->bytes - before);
}

static void put_message(merge *m, kind of, mr_pb_span message) {
    mr_pb_field f;
    if (of == TENSOR && is_external(message)) {
        put_tensor(m, message);
        return;
    }
    while (message.at < message.end && !m->status) {
        const uint8_t *begin = message.at;
        if (!mr_pb_next(&message, &f)) {
            fail(m, mr_fail(MR_ERROR_DATA, "is damaged"));
            return;
        }
        const kind inner = f.wire == MR_PB_BYTES ? kind_of(of, f.number) : NOT_FOLLOWED;
        if (inner)
            put_inner(m, inner, f.number, f.bytes);
        else
            put(m, begin, (size_t)(message.at - begin));
    }
}

static int merge_all(merge *m, mr_file_bytes *model, size_t room) {
    const mr_pb_span all = {model->data, model->data + model->bytes};
    const size_t bytes = size_of(m, MODEL, all);
    if (!m->status && bytes > most_bytes)
        fail(m, mr_fail(MR_ERROR_DATA, "has %zu bytes with the weights of %s; at most %zu are supported", bytes,
                        m->name, most_bytes));
    if (!m->status && !(m->to = mr_calloc(bytes + room, 1)))
        fail(m, mr_fail(MR_ERROR_MEMORY, "needs %zu bytes of memory, which there are not", bytes));
    if (m->status)
        return m->status;
    put_message(m, MODEL, all);
    mr_free(model->data);
    model->data = m->to;
    model->bytes = m->bytes;
    return MR_OK;
}

int mr_onnx_take_external(mr_file_bytes *model, const char *path, size_t room) {
    const char *slash = strrchr(path, '/');
    merge m = {.path = path, .name = slash ? slash + 1 : path};
    int status = mr_file_read("the weights", path, most_bytes, 0, &m.from);
    if (status)
        return mr_fail(status, "cannot be read whole: %s", mr_message());
    status = merge_all(&m, model, room);
    mr_free(m.from.data);
    return status;
}

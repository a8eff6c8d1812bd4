/* What items in a message share: formats and geometries, written and read. */
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

static int refuse(const char *what) {
    return mr_fail(MR_ERROR_PROTOCOL, "%s", what);
}

/* ---- shared parts ------------------------------------------------------------------------------------------------ */

/* Looks for an equal one only among this many recent ones; otherwise writes it again. */
enum { LOOKED_AT = 8 };

static bool room_for_shared(wire_shared *shared) {
    if (shared->count < shared->room)
        return true;
    size_t room = shared->room ? 2 * shared->room : 8;
    const void **of = mr_realloc(shared->of, room * sizeof *of);
    shared->of = of ? of : shared->of;
    void **written = of ? mr_realloc(shared->written, room * sizeof *written) : NULL;
    if (!written)
        return false;
    shared->written = written;
    shared->room = room;
    return true;
}

/* An equal one's number in this message. 0: there is none yet. */
uint32_t mr_wire_find_shared(const wire_shared *shared, const void *from, bool (*equal)(const void *, const void *)) {
    const size_t least = shared->count > LOOKED_AT ? shared->count - LOOKED_AT : 0;
    for (size_t i = shared->count; i > least; i--)
        if (equal(shared->of[i - 1], from))
            return (uint32_t)i;
    return 0;
}

int mr_wire_add_shared(wire_shared *shared, const void *from, void *written, uint32_t *number) {
    if (!written || !room_for_shared(shared))
        return no_memory();
    shared->of[shared->count] = from;
    shared->written[shared->count] = written;
    *number = (uint32_t)++shared->count;
    return MR_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static Millrace__V1__Format *write_format(mr_wire_writer *writer, const mr_format *from) {
    Millrace__V1__Format *format = WIRE_NEW(&writer->arena, Millrace__V1__Format, 1);
    if (!format)
        return NULL;
    millrace__v1__format__init(format);
    format->payload = from->payload;
    format->pixel = from->pixel;
    format->width = (uint32_t)from->width;
    format->height = (uint32_t)from->height;
    format->matrix = from->matrix;
    format->range = from->range;
    format->siting = from->siting;
    format->sar_num = (uint32_t)from->sar_num;
    format->sar_den = (uint32_t)from->sar_den;
    format->rotation = (uint32_t)from->rotation;
    format->flip = from->flip;
    format->dtype = from->dtype;
    format->layout = from->layout;
    format->dims = WIRE_NEW(&writer->arena, uint64_t, (size_t)from->rank);
    if (!format->dims)
        return NULL;
    for (int32_t i = 0; i < from->rank; i++)
        format->dims[i] = (uint64_t)from->dims[i];
    format->n_dims = (size_t)from->rank;
    return format;
}

static bool is_same_format(const void *one, const void *other) {
    const mr_format *a = one, *b = other;
    bool same = a->payload == b->payload && mr_format_same_picture(a, b) && a->dtype == b->dtype &&
                a->layout == b->layout && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* A format's number in this message. */
int mr_wire_number_format(mr_wire_writer *writer, const mr_format *from, uint32_t *number) {
    *number = mr_wire_find_shared(&writer->formats, from, is_same_format);
    return *number ? MR_OK : mr_wire_add_shared(&writer->formats, from, write_format(writer, from), number);
}

static Millrace__V1__Geometry *write_geometry(mr_wire_writer *writer, const mr_geometry *from) {
    Millrace__V1__Geometry *geometry = WIRE_NEW(&writer->arena, Millrace__V1__Geometry, 1);
    double *numbers = WIRE_NEW(&writer->arena, double, 6);
    if (!geometry || !numbers)
        return NULL;
    millrace__v1__geometry__init(geometry);
    geometry->n_x = geometry->n_y = 3;
    geometry->x = memcpy(numbers, from->x, sizeof from->x);
    geometry->y = memcpy(numbers + 3, from->y, sizeof from->y);
    geometry->width = (uint32_t)from->width;
    geometry->height = (uint32_t)from->height;
    geometry->source_width = (uint32_t)from->source_width;
    geometry->source_height = (uint32_t)from->source_height;
    geometry->rotation = (uint32_t)from->rotation;
    geometry->flip = from->flip;
    return geometry;
}

static bool is_same_geometry(const void *one, const void *other) {
    const mr_geometry *a = one, *b = other;
    return memcmp(a->x, b->x, sizeof a->x) == 0 && memcmp(a->y, b->y, sizeof a->y) == 0 && a->width == b->width &&
           a->height == b->height && a->source_width == b->source_width && a->source_height == b->source_height &&
           a->rotation == b->rotation && a->flip == b->flip;
}

/* A map's number in this message. 0 if it is not known. */
int mr_wire_number_geometry(mr_wire_writer *writer, const mr_geometry *from, uint32_t *number) {
    *number = from->width ? mr_wire_find_shared(&writer->geometries, from, is_same_geometry) : 0;
    if (*number || !from->width)
        return MR_OK;
    return mr_wire_add_shared(&writer->geometries, from, write_geometry(writer, from), number);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Larger pictures are refused; no codec exceeds this. */
enum { MOST_SIDE = 65536 };

static bool in_range(const Millrace__V1__Format *from) {
    return from->payload <= MR_PAYLOAD_RESULTS && from->pixel < MR_PIXEL_COUNT && from->width <= MOST_SIDE &&
           from->height <= MOST_SIDE && from->matrix <= MR_MATRIX_BT2020 && from->range <= MR_RANGE_FULL &&
           from->siting <= MR_SITING_TOPLEFT && from->sar_num <= INT32_MAX && from->sar_den <= INT32_MAX &&
           from->rotation <= 270 && from->rotation % 90 == 0 && from->dtype <= MR_DTYPE_I64 &&
           from->layout <= MR_LAYOUT_FLAT && from->n_dims <= MR_MAX_RANK;
}

static int read_format(const Millrace__V1__Format *from, mr_format *format) {
    if (!in_range(from))
        return refuse("a format with an unknown value");
    *format = (mr_format){.payload = (mr_payload)from->payload, .pixel = (mr_pixel)from->pixel,
                          .width = (int32_t)from->width, .height = (int32_t)from->height,
                          .matrix = (mr_matrix)from->matrix, .range = (mr_range)from->range,
                          .siting = (mr_siting)from->siting, .sar_num = (int32_t)from->sar_num,
                          .sar_den = (int32_t)from->sar_den, .rotation = (int16_t)from->rotation,
                          .flip = from->flip, .dtype = (mr_dtype)from->dtype, .layout = (mr_layout)from->layout,
                          .rank = (int32_t)from->n_dims};
    for (size_t i = 0; i < from->n_dims; i++) {
        if (from->dims[i] > INT64_MAX)
            return refuse("a tensor with a dimension that is too large");
        format->dims[i] = (int64_t)from->dims[i];
    }
    return MR_OK;
}

int mr_wire_read_formats(mr_wire_reader *reader, Millrace__V1__Format *const *formats, size_t count) {
    int status = MR_OK;
    reader->format = WIRE_NEW(&reader->arena, mr_format, count);
    reader->format_count = count;
    if (!reader->format)
        return no_memory();
    for (size_t i = 0; i < count && !status; i++)
        status = read_format(formats[i], &reader->format[i]);
    return status;
}

static bool is_finite(const double *values) {
    return isfinite(values[0]) && isfinite(values[1]) && isfinite(values[2]);
}

static int read_geometry(const Millrace__V1__Geometry *from, mr_geometry *geometry) {
    if (from->n_x != 3 || from->n_y != 3 || !is_finite(from->x) || !is_finite(from->y) || !from->width ||
        !from->height || !from->source_width || !from->source_height || from->width > MOST_SIDE ||
        from->height > MOST_SIDE || from->source_width > MOST_SIDE || from->source_height > MOST_SIDE ||
        from->rotation > 270 || from->rotation % 90)
        return refuse("a geometry with an impossible value");
    *geometry = (mr_geometry){.width = (int32_t)from->width, .height = (int32_t)from->height,
                              .source_width = (int32_t)from->source_width,
                              .source_height = (int32_t)from->source_height,
                              .rotation = (int16_t)from->rotation, .flip = from->flip};
    memcpy(geometry->x, from->x, sizeof geometry->x);
    memcpy(geometry->y, from->y, sizeof geometry->y);
    return MR_OK;
}

int mr_wire_read_geometries(mr_wire_reader *reader, Millrace__V1__Geometry *const *geometries, size_t count) {
    int status = MR_OK;
    reader->geometry = WIRE_NEW(&reader->arena, mr_geometry, count);
    reader->geometry_count = count;
    if (!reader->geometry)
        return no_memory();
    for (size_t i = 0; i < count && !status; i++)
        status = read_geometry(geometries[i], &reader->geometry[i]);
    return status;
}

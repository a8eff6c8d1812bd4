/* Frames and marks to bytes. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

/* Bytes from the first to the last of a plane's rows, and of one of them; both 0 where it has none. */
static size_t plane_span(const mr_format *format, int plane, size_t stride, size_t *row_bytes) {
    int32_t rows = mr_plane_rows(format->pixel, plane, format->height);
    *row_bytes = mr_plane_row_bytes(format->pixel, plane, format->width);
    return rows > 0 ? (size_t)(rows - 1) * stride + *row_bytes : 0;
}

static int plane_count(const mr_frame *frame) {
    if (frame->format.payload == MR_PAYLOAD_PICTURE)
        return mr_pixel_describe(frame->format.pixel)->planes;
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        return frame->plane[1].buffer ? 2 : frame->plane[0].buffer ? 1 : 0;
    return frame->format.payload == MR_PAYLOAD_TENSOR;
}

uint64_t mr_wire_frame_bytes(const mr_frame *frame) {
    uint64_t bytes = 0;
    size_t row_bytes;
    for (int i = 0; i < plane_count(frame); i++)
        if (frame->format.payload == MR_PAYLOAD_PICTURE)
            bytes += plane_span(&frame->format, i, mr_plane_row_bytes(frame->format.pixel, i, frame->format.width),
                                &row_bytes);
        else
            bytes += frame->plane[i].bytes;
    for (const mr_result *result = frame->results; result; result = result->next)
        if (result->kind == MR_RESULT_TENSOR)
            bytes += mr_tensor_bytes(&result->format);
    return bytes;
}

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

/* Among so many of those that a message had last a format is looked for: else it stands once more. */
enum { FORMATS_LOOKED_AT = 8 };

static bool is_same(const mr_format *a, const mr_format *b) {
    bool same = a->payload == b->payload && a->pixel == b->pixel && a->width == b->width && a->height == b->height &&
                a->matrix == b->matrix && a->range == b->range && a->siting == b->siting && a->sar_num == b->sar_num &&
                a->sar_den == b->sar_den && a->rotation == b->rotation && a->flip == b->flip && a->dtype == b->dtype &&
                a->layout == b->layout && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

static bool room_for_format(mr_wire_writer *writer) {
    if (writer->format_count < writer->format_room)
        return true;
    size_t room = writer->format_room ? 2 * writer->format_room : 8;
    const mr_format **of = mr_realloc(writer->format_of, room * sizeof *of);
    writer->format_of = of ? of : writer->format_of;
    Millrace__V1__Format **format = of ? mr_realloc(writer->format, room * sizeof *format) : NULL;
    if (!format)
        return false;
    writer->format = format;
    writer->format_room = room;
    return true;
}

/* The number of a format in this message. */
static int number_format(mr_wire_writer *writer, const mr_format *from, uint32_t *number) {
    const size_t count = writer->format_count, least = count > FORMATS_LOOKED_AT ? count - FORMATS_LOOKED_AT : 0;
    for (size_t i = count; i > least; i--)
        if (is_same(writer->format_of[i - 1], from)) {
            *number = (uint32_t)i;
            return MR_OK;
        }
    if (!room_for_format(writer) || !(writer->format[count] = write_format(writer, from)))
        return no_memory();
    writer->format_of[count] = from;
    *number = (uint32_t)++writer->format_count;
    return MR_OK;
}

/* ---- planes ---------------------------------------------------------------------------------------------------- */

/* Rows that do not lie one behind the other, the first first, are copied so that they do. */
static int gather_rows(mr_wire_writer *writer, const mr_plane *from, size_t row_bytes, size_t rows, wire_spot *spot) {
    uint8_t *copy;
    int status = wire_gather(writer, row_bytes * rows, &copy, spot);
    for (size_t i = 0; !status && i < rows; i++)
        memcpy(copy + i * row_bytes, from->data + (ptrdiff_t)i * from->stride, row_bytes);
    return status;
}

static int write_picture_plane(mr_wire_writer *writer, const mr_frame *frame, int i, Millrace__V1__Plane *plane,
                               wire_spot *spot) {
    const mr_plane *from = &frame->plane[i];
    size_t row_bytes, rows = (size_t)mr_plane_rows(frame->format.pixel, i, frame->format.height);
    bool in_order = from->stride >= (ptrdiff_t)mr_plane_row_bytes(frame->format.pixel, i, frame->format.width);
    plane->bytes = plane_span(&frame->format, i, in_order ? (size_t)from->stride : 0, &row_bytes);
    plane->stride = in_order ? (uint64_t)from->stride : row_bytes;
    if (in_order)
        return wire_put(writer, from->buffer, from->data, plane->bytes, 0, spot);
    plane->bytes = row_bytes * rows;
    return gather_rows(writer, from, row_bytes, rows, spot);
}

/* Bytes from the first plane's first to the last one's last, where all planes lie in one buffer in order; so that
 * they become one part, and not one each. */
static int write_picture_at_once(mr_wire_writer *writer, const mr_frame *frame, int planes) {
    const mr_plane *first = &frame->plane[0], *last = &frame->plane[planes - 1];
    size_t row_bytes;
    wire_spot spot;
    for (int i = 0; i < planes; i++)
        if (frame->plane[i].buffer != first->buffer || frame->plane[i].stride <= 0 ||
            (i && frame->plane[i].data < frame->plane[i - 1].data))
            return MR_OK;
    size_t span = plane_span(&frame->format, planes - 1, (size_t)last->stride, &row_bytes);
    return wire_put(writer, first->buffer, first->data, (size_t)(last->data - first->data) + span, 0, &spot);
}

static int write_plane(mr_wire_writer *writer, const mr_frame *frame, int i, Millrace__V1__Plane *plane) {
    const mr_plane *from = &frame->plane[i];
    wire_spot spot = {0};
    int status = MR_OK;
    if (from->buffer && from->buffer->memory == MR_MEMORY_DEVICE)
        return mr_fail(MR_ERROR_DATA, "a frame whose payload is in a device's memory cannot be sent");
    if (frame->format.payload == MR_PAYLOAD_PICTURE) {
        status = write_picture_plane(writer, frame, i, plane, &spot);
    } else if (from->buffer) {
        bool packet = frame->format.payload == MR_PAYLOAD_PACKET && i == 0;
        plane->bytes = from->bytes;
        status = wire_put(writer, from->buffer, from->data, from->bytes, packet ? WIRE_PADDING : 0, &spot);
    }
    plane->block = spot.block;
    plane->offset = spot.offset;
    return status;
}

static int write_planes(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    int count = plane_count(frame), status = MR_OK;
    item->planes = WIRE_NEW(&writer->arena, Millrace__V1__Plane *, (size_t)count);
    Millrace__V1__Plane *planes = WIRE_NEW(&writer->arena, Millrace__V1__Plane, (size_t)count);
    if (!item->planes || !planes)
        return no_memory();
    bool large = frame->format.payload == MR_PAYLOAD_PICTURE && mr_wire_frame_bytes(frame) >= 65536;
    if (large)
        status = write_picture_at_once(writer, frame, count);
    for (int i = 0; i < count && !status; i++) {
        millrace__v1__plane__init(&planes[i]);
        item->planes[i] = &planes[i];
        status = write_plane(writer, frame, i, &planes[i]);
    }
    item->n_planes = (size_t)count;
    return status;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static int write_classes(mr_wire_writer *writer, const mr_result *from, Millrace__V1__Result *result) {
    result->indices = WIRE_NEW(&writer->arena, int32_t, from->count);
    result->scores = WIRE_NEW(&writer->arena, float, from->count);
    result->labels = WIRE_NEW(&writer->arena, uint32_t, from->count);
    if (!result->indices || !result->scores || !result->labels)
        return no_memory();
    result->n_indices = result->n_scores = result->n_labels = from->count;
    for (size_t i = 0; i < from->count; i++) {
        result->indices[i] = from->classes[i].index;
        result->scores[i] = from->classes[i].score;
        int status = wire_write_name(writer, from->classes[i].label, &result->labels[i]);
        if (status)
            return status;
    }
    return MR_OK;
}

static int write_result(mr_wire_writer *writer, const mr_result *from, Millrace__V1__Result *result) {
    wire_spot spot;
    int status = wire_write_name(writer, from->stage, &result->stage);
    if (!status)
        status = wire_write_name(writer, from->name, &result->name);
    if (status || from->kind == MR_RESULT_CLASSES)
        return status ? status : write_classes(writer, from, result);
    if (from->buffer && from->buffer->memory == MR_MEMORY_DEVICE)
        return mr_fail(MR_ERROR_DATA, "a tensor in a device's memory cannot be sent");
    if ((status = number_format(writer, &from->format, &result->format)))
        return status;
    status = wire_put(writer, from->buffer, from->data, mr_tensor_bytes(&from->format), 0, &spot);
    result->block = spot.block;
    result->offset = spot.offset;
    return status;
}

static int write_results(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    size_t count = 0;
    for (const mr_result *from = frame->results; from; from = from->next)
        count++;
    item->results = WIRE_NEW(&writer->arena, Millrace__V1__Result *, count);
    Millrace__V1__Result *results = WIRE_NEW(&writer->arena, Millrace__V1__Result, count);
    if (!item->results || !results)
        return no_memory();
    for (const mr_result *from = frame->results; from; from = from->next) {
        Millrace__V1__Result *result = results++;
        millrace__v1__result__init(result);
        item->results[item->n_results++] = result;
        int status = write_result(writer, from, result);
        if (status)
            return status;
    }
    return MR_OK;
}

/* ---- items ----------------------------------------------------------------------------------------------------- */

static int write_frame(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    int status = number_format(writer, &frame->format, &item->format);
    if (status)
        return status;
    item->pts_ns = frame->pts_ns;
    item->dts_ns = frame->dts_ns;
    item->duration_ns = frame->duration_ns;
    item->age_ns = writer->now_ns - frame->born_ns;
    int64_t remaining_ns = frame->deadline_ns - writer->now_ns;
    if (frame->deadline_ns)
        item->remaining_ns = remaining_ns ? remaining_ns : -1; /* 0 stands for none */
    item->flags = frame->flags;
    status = wire_write_media(writer, frame->media, &item->media);
    if (!status)
        status = write_planes(writer, frame, item);
    return status ? status : write_results(writer, frame, item);
}

static int write_item(mr_wire_writer *writer, const mr_cut_item *from, Millrace__V1__Item *item) {
    millrace__v1__item__init(item);
    item->kind = (Millrace__V1__Item__Kind)from->kind;
    item->position = from->position;
    item->source = from->identity.source;
    item->epoch = from->identity.epoch;
    item->seq = from->identity.seq;
    item->sub = from->identity.sub;
    if (from->kind == MR_CUT_FRAME)
        return write_frame(writer, from->frame, item);
    int status = from->kind == MR_CUT_FORMAT ? number_format(writer, from->format, &item->format) : MR_OK;
    return status ? status : wire_write_name(writer, from->reason, &item->reason);
}

int wire_write_items(mr_wire_writer *writer, const mr_cut_message *message, Millrace__V1__Items *items) {
    size_t count = message->items.count;
    items->items = WIRE_NEW(&writer->arena, Millrace__V1__Item *, count);
    Millrace__V1__Item *item = WIRE_NEW(&writer->arena, Millrace__V1__Item, count);
    writer->packed = WIRE_NEW(&writer->arena, ProtobufCBinaryData, count);
    writer->used_media = WIRE_NEW(&writer->arena, const mr_media *, count);
    if (!items->items || !item || !writer->packed || !writer->used_media)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        int status = write_item(writer, &message->items.item[i], &item[i]);
        if (status)
            return status;
        items->items[i] = &item[i];
    }
    items->n_items = count;
    items->names = writer->name;
    items->n_names = writer->name_count;
    items->formats = writer->format;
    items->n_formats = writer->format_count;
    items->media = writer->packed;
    items->n_media = writer->used_media_count;
    return MR_OK;
}

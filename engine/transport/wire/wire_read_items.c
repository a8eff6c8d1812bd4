/* Bytes to frames and marks. Nothing is believed: what does not fit together is refused. */
#include <string.h>

#include "engine/data/store.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

/* Pictures of more rows or columns are refused; no codec goes further. */
enum { MOST_SIDE = 65536 };

static int refuse(const char *what) {
    return mr_fail(MR_ERROR_PROTOCOL, "%s", what);
}

static bool in_range(const Millrace__V1__Format *from) {
    return from->payload <= MR_PAYLOAD_RESULTS && from->pixel < MR_PIXEL_COUNT && from->width <= MOST_SIDE &&
           from->height <= MOST_SIDE && from->matrix <= MR_MATRIX_BT2020 && from->range <= MR_RANGE_FULL &&
           from->siting <= MR_SITING_TOPLEFT && from->sar_num <= INT32_MAX && from->sar_den <= INT32_MAX &&
           from->rotation <= 270 && from->rotation % 90 == 0 && from->dtype <= MR_DTYPE_I64 &&
           from->layout <= MR_LAYOUT_FLAT && from->n_dims <= MR_MAX_RANK;
}

static int read_format(const Millrace__V1__Format *from, mr_format *format) {
    if (!in_range(from))
        return refuse("a format with a value that there is not");
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

static int read_formats(mr_wire_reader *reader, Millrace__V1__Format *const *formats, size_t count) {
    int status = MR_OK;
    reader->format = WIRE_NEW(&reader->arena, mr_format, count);
    reader->format_count = count;
    if (!reader->format)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    for (size_t i = 0; i < count && !status; i++)
        status = read_format(formats[i], &reader->format[i]);
    return status;
}

/* NULL: it is refused. */
static const mr_format *find_format(const mr_wire_reader *reader, uint32_t number) {
    if (number && number <= reader->format_count)
        return &reader->format[number - 1];
    refuse("a format that the message does not describe");
    return NULL;
}

/* `bytes` bytes at a place in a block. */
static int find(const mr_wire_reader *reader, uint32_t block, uint64_t offset, uint64_t bytes, mr_buffer **buffer,
                uint8_t **data) {
    if (!block || block > reader->block_count)
        return refuse("a payload in a block that there is not");
    size_t room = reader->block_bytes[block - 1];
    if (offset > room || bytes > room - offset)
        return refuse("a payload that does not lie in its block");
    *buffer = reader->block[block - 1];
    *data = reader->block_data[block - 1] + offset;
    return MR_OK;
}

/* ---- planes ---------------------------------------------------------------------------------------------------- */

static int check_picture_plane(const mr_format *format, int i, const Millrace__V1__Plane *from) {
    size_t row_bytes = mr_plane_row_bytes(format->pixel, i, format->width);
    uint64_t rows = (uint64_t)mr_plane_rows(format->pixel, i, format->height);
    bool wide = mr_pixel_describe(format->pixel)->depth > 8;
    if (from->stride < row_bytes || from->stride > INT32_MAX || (wide && (from->stride % 2 || from->offset % 2)))
        return refuse("a picture whose rows overlap, or whose samples are not aligned");
    return from->bytes < (rows - 1) * from->stride + row_bytes ? refuse("a picture with fewer bytes than its rows")
                                                               : MR_OK;
}

/* Readers of bit streams read beyond the end. */
static int check_padding(const mr_wire_reader *reader, const Millrace__V1__Plane *from) {
    mr_buffer *buffer;
    uint8_t *data;
    uint64_t all;
    if (__builtin_add_overflow(from->bytes, WIRE_PADDING, &all) ||
        find(reader, from->block, from->offset, all, &buffer, &data))
        return refuse("a packet that is not followed by 64 zero bytes");
    for (uint64_t i = from->bytes; i < all; i++)
        if (data[i])
            return refuse("a packet that is not followed by 64 zero bytes");
    return MR_OK;
}

static int check_plane(const mr_wire_reader *reader, const mr_format *format, int i, const Millrace__V1__Plane *from) {
    if (format->payload == MR_PAYLOAD_PICTURE)
        return check_picture_plane(format, i, from);
    if (format->payload == MR_PAYLOAD_PACKET)
        return i == 0 ? check_padding(reader, from) : MR_OK;
    if (from->bytes != mr_tensor_bytes(format) || !from->bytes || from->offset % mr_dtype_bytes(format->dtype))
        return refuse("a tensor whose bytes are not those of its format");
    return MR_OK;
}

/* How many planes a frame of that format has at least and at most; false where no frame has that format. */
static bool count_planes(const mr_format *format, size_t *least, size_t *most) {
    *least = *most = 1;
    if (format->payload == MR_PAYLOAD_PICTURE) {
        *least = *most = mr_pixel_describe(format->pixel)->planes;
        return format->pixel && format->width > 0 && format->height > 0;
    }
    if (format->payload == MR_PAYLOAD_PACKET) {
        *least = 0;
        *most = 2;
    } else if (format->payload == MR_PAYLOAD_RESULTS) {
        *least = *most = 0;
    }
    return format->payload != MR_PAYLOAD_ANY;
}

static int read_planes(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    size_t least, most;
    if (!count_planes(&frame->format, &least, &most) || item->n_planes < least || item->n_planes > most)
        return refuse("a frame with more or fewer planes than its format has");
    for (size_t i = 0; i < item->n_planes; i++) {
        const Millrace__V1__Plane *from = item->planes[i];
        mr_plane *plane = &frame->plane[i];
        mr_buffer *buffer;
        if (!from->block && frame->format.payload == MR_PAYLOAD_PACKET)
            continue; /* a packet that could not be read */
        int status = check_plane(reader, &frame->format, (int)i, from);
        if (!status)
            status = find(reader, from->block, from->offset, from->bytes, &buffer, &plane->data);
        if (status)
            return status;
        plane->buffer = mr_buffer_ref(buffer);
        plane->stride = (ptrdiff_t)from->stride;
        plane->bytes = from->bytes;
    }
    return MR_OK;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static int read_classes(const mr_wire_reader *reader, const Millrace__V1__Result *from, mr_result *result) {
    result->kind = MR_RESULT_CLASSES;
    result->count = from->n_indices;
    for (size_t i = 0; i < result->count; i++) {
        mr_class *one = &result->classes[i];
        *one = (mr_class){.index = from->indices[i], .score = from->scores[i]};
        int status = wire_read_name(reader, from->labels[i], &one->label);
        if (status)
            return status;
    }
    return MR_OK;
}

static int read_tensor(const mr_wire_reader *reader, const Millrace__V1__Result *from, mr_result *result) {
    mr_buffer *buffer;
    uint8_t *data;
    const mr_format *format = find_format(reader, from->format);
    if (!format)
        return MR_ERROR_PROTOCOL;
    result->format = *format;
    size_t bytes = mr_tensor_bytes(&result->format);
    if (result->format.payload != MR_PAYLOAD_TENSOR || !bytes || from->offset % mr_dtype_bytes(result->format.dtype))
        return refuse("a tensor without a size, or that is not aligned");
    int status = find(reader, from->block, from->offset, bytes, &buffer, &data);
    if (status)
        return status;
    result->kind = MR_RESULT_TENSOR;
    result->data = data;
    result->buffer = mr_buffer_ref(buffer);
    return MR_OK;
}

static int read_result(mr_wire_reader *reader, const Millrace__V1__Result *from, mr_result **tail) {
    if (from->n_indices != from->n_scores || from->n_indices != from->n_labels)
        return refuse("classes without a score or a label each");
    int status = mr_store_result(reader->params.store, from->n_indices, tail);
    if (status)
        return status;
    mr_result *result = *tail;
    status = wire_read_name(reader, from->stage, &result->stage);
    if (!status)
        status = wire_read_name(reader, from->name, &result->name);
    if (!status && !result->stage)
        status = refuse("a result that no stage has given");
    if (status)
        return status;
    return from->format ? read_tensor(reader, from, result) : read_classes(reader, from, result);
}

static int read_results(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    mr_result **tail = &frame->results;
    int status = MR_OK;
    for (size_t i = 0; i < item->n_results && !status; i++) {
        status = read_result(reader, item->results[i], tail);
        if (*tail)
            tail = &(*tail)->next;
    }
    return status;
}

/* ---- items ----------------------------------------------------------------------------------------------------- */

static int64_t subtract(int64_t a, int64_t b) {
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return b > 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

static int fill_frame(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    const mr_format *format = find_format(reader, item->format);
    if (!format)
        return MR_ERROR_PROTOCOL;
    frame->format = *format;
    frame->identity = (mr_identity){
        .source = item->source, .epoch = item->epoch, .seq = item->seq, .sub = item->sub};
    frame->pts_ns = item->pts_ns;
    frame->dts_ns = item->dts_ns;
    frame->duration_ns = item->duration_ns;
    frame->born_ns = subtract(reader->now_ns, item->age_ns);
    if (item->remaining_ns)
        frame->deadline_ns = subtract(reader->now_ns, subtract(0, item->remaining_ns));
    frame->flags = item->flags & (MR_FRAME_KEY | MR_FRAME_DISPOSABLE | MR_FRAME_CORRUPT | MR_FRAME_HIDDEN);
    if (item->media > reader->media_count)
        return refuse("a frame of media that the message does not describe");
    if (item->media)
        frame->media = mr_media_ref(reader->media[item->media - 1]);
    int status = read_planes(reader, item, frame);
    return status ? status : read_results(reader, item, frame);
}

static int read_frame(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame **frame) {
    int status = mr_store_frame(reader->params.store, frame);
    if (status)
        return status;
    status = fill_frame(reader, item, *frame);
    if (status)
        mr_frame_unref(frame);
    return status;
}

static int read_item(mr_wire_reader *reader, const Millrace__V1__Item *from, mr_cut_item *item) {
    if ((unsigned)from->kind > MILLRACE__V1__ITEM__KIND__FORMAT)
        return refuse("an item of a kind that there is not");
    if (from->source >= reader->params.source_count)
        return refuse("an item of a source that there is not");
    *item = (mr_cut_item){.kind = (mr_cut_kind)from->kind, .position = from->position,
                          .identity = {.source = from->source, .epoch = from->epoch, .seq = from->seq,
                                       .sub = from->sub}};
    if (item->kind == MR_CUT_FRAME) {
        int status = read_frame(reader, from, &item->frame);
        if (status)
            return status;
        item->bytes = mr_wire_frame_bytes(item->frame);
        item->packet = item->frame->format.payload == MR_PAYLOAD_PACKET;
        item->key = item->frame->flags & MR_FRAME_KEY;
        return MR_OK;
    }
    if (item->kind == MR_CUT_FORMAT)
        return (item->format = find_format(reader, from->format)) ? MR_OK : MR_ERROR_PROTOCOL;
    return wire_read_name(reader, from->reason, &item->reason);
}

static int read_all_media(mr_wire_reader *reader, const Millrace__V1__Items *from) {
    reader->media = WIRE_NEW(&reader->arena, mr_media *, from->n_media);
    if (!reader->media)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    int status = MR_OK;
    for (size_t i = 0; i < from->n_media && !status; i++) {
        status = wire_read_media(reader, &from->media[i], &reader->media[i]);
        reader->media_count += !status;
    }
    return status;
}

static int read_all(mr_wire_reader *reader, const Millrace__V1__Items *from, const mr_wire_part *parts, size_t count,
                    mr_cut_message *message) {
    int status = wire_read_names(reader, from->names, from->n_names);
    if (!status)
        status = read_formats(reader, from->formats, from->n_formats);
    if (!status)
        status = wire_read_blocks(reader, from->blocks, from->n_blocks, parts, count);
    if (!status)
        status = read_all_media(reader, from);
    for (size_t i = 0; i < from->n_items && !status; i++) {
        status = read_item(reader, from->items[i], &message->items.item[i]);
        message->items.count += !status;
    }
    return status;
}

int wire_read_items(mr_wire_reader *reader, const Millrace__V1__Items *from, const mr_wire_part *parts, size_t count,
                    mr_cut_message *message) {
    reader->block_count = reader->media_count = 0;
    message->items.count = 0;
    if (from->n_items > reader->params.most_items)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu items; at most %zu are taken", from->n_items,
                       reader->params.most_items);
    message->items.item = WIRE_NEW(&reader->arena, mr_cut_item, from->n_items);
    if (!message->items.item)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    int status = read_all(reader, from, parts, count, message);
    for (size_t i = 0; i < reader->block_count; i++)
        mr_buffer_unref(&reader->block[i]);
    for (size_t i = 0; i < reader->media_count; i++)
        mr_media_unref(&reader->media[i]);
    for (size_t i = 0; status && i < message->items.count; i++)
        mr_frame_unref(&message->items.item[i].frame);
    return status;
}

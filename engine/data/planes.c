#include <string.h>

#include "millrace/frame.h"

size_t mr_lay_out(const mr_format *format, size_t alignment, uint8_t *data, mr_plane plane[MR_MAX_PLANES]) {
    const size_t tensor = format->payload == MR_PAYLOAD_TENSOR ? mr_tensor_bytes(format) : 0;
    size_t sum = tensor;
    if (tensor && plane)
        plane[0] = (mr_plane){.data = data, .bytes = tensor};
    if (format->payload != MR_PAYLOAD_PICTURE || format->width <= 0 || format->height <= 0)
        return sum;
    for (mr_row row = {0}; mr_next_plane(format, &row);) {
        const size_t stride = (row.bytes + alignment - 1) / alignment * alignment;
        size_t bytes;
        if (__builtin_mul_overflow(stride, (size_t)row.rows, &bytes) || __builtin_add_overflow(sum, bytes, &bytes))
            return 0;
        bytes -= sum;
        if (plane)
            plane[row.plane] = (mr_plane){.data = data + sum, .stride = (ptrdiff_t)stride, .bytes = bytes};
        sum += bytes;
    }
    return sum;
}

void mr_frame_place(mr_frame *frame, const mr_format *format, mr_buffer *buffer, size_t at, size_t alignment) {
    frame->format = *format;
    mr_lay_out(format, alignment, buffer->data + at, frame->plane);
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (frame->plane[i].data)
            frame->plane[i].buffer = mr_buffer_ref(buffer);
}

bool mr_next_plane(const mr_format *format, mr_row *row) {
    row->plane += row->bytes > 0;
    row->y = 0;
    row->rows = mr_plane_rows(format->pixel, row->plane, format->height);
    row->bytes = mr_plane_row_bytes(format->pixel, row->plane, format->width);
    return row->rows > 0 && row->bytes > 0;
}

bool mr_next_row(const mr_format *format, mr_row *row) {
    return (row->bytes && ++row->y < row->rows) || mr_next_plane(format, row);
}

void mr_copy_rows(const mr_format *format, const mr_plane to[], const mr_plane from[]) {
    for (mr_row row = {0}; mr_next_row(format, &row);)
        memcpy(mr_row_at(to, &row), mr_row_at(from, &row), row.bytes);
}

void mr_frame_pack(const mr_frame *frame, uint8_t *to) {
    mr_plane packed[MR_MAX_PLANES];
    const size_t bytes = mr_lay_out(&frame->format, 1, to, packed);
    if (frame->format.payload == MR_PAYLOAD_PICTURE)
        mr_copy_rows(&frame->format, packed, frame->plane);
    else if (bytes)
        memcpy(to, frame->plane[0].data, bytes);
}

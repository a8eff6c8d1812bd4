#include <string.h>

#include "millrace/frame.h"

/* ---- sizes of planes --------------------------------------------------------------------------------------------- */

/* The component that determines the plane's size; all components interleaved in one plane agree. NULL: no such
 * plane. */
static const mr_component *component_of_plane(const mr_pixel_info *info, int plane, bool *chroma) {
    for (int i = 0; i < info->components; i++)
        if (info->component[i].plane == plane) {
            *chroma = i > 0 && !info->rgb;
            return &info->component[i];
        }
    return NULL;
}

/* Rounds up, as every codec does: half a sample still needs one. */
static int32_t subsampled(int32_t size, int log2) {
    return (int32_t)(((int64_t)size + (1 << log2) - 1) >> log2);
}

/* The size of row->plane; nothing if there is no such plane. */
static void measure_plane(mr_pixel pixel, int32_t width, int32_t height, mr_row *row) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    bool chroma;
    const mr_component *component = row->plane < info->planes ? component_of_plane(info, row->plane, &chroma) : NULL;
    row->rows = component ? subsampled(height, chroma ? info->chroma_h : 0) : 0;
    row->bytes = component ? (size_t)subsampled(width, chroma ? info->chroma_w : 0) * component->step : 0;
}

size_t mr_plane_row_bytes(mr_pixel pixel, int plane, int32_t width) {
    mr_row row = {.plane = plane};
    measure_plane(pixel, width, 0, &row);
    return row.bytes;
}

int32_t mr_plane_rows(mr_pixel pixel, int plane, int32_t height) {
    mr_row row = {.plane = plane};
    measure_plane(pixel, 0, height, &row);
    return row.rows;
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

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
    measure_plane(format->pixel, format->width, format->height, row);
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

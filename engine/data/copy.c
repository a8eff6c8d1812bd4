#include "engine/data/copy.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/store.h"
#include "engine/device/device.h"
#include "millrace/status.h"

/* Whether a buffer (NULL: nothing) lies in the memory of `device`, or, with NULL, in the host's. */
static bool is_home(const mr_buffer *buffer, const mr_device *device) {
    if (!buffer || !device)
        return !buffer || buffer->memory != MR_MEMORY_DEVICE;
    return buffer->memory == MR_MEMORY_DEVICE && buffer->device == device;
}

static bool payload_is_home(const mr_frame *frame, const mr_device *device) {
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (!is_home(frame->plane[i].buffer, device))
            return false;
    return true;
}

static bool result_is_home(const mr_result *result, const mr_device *device) {
    return result->kind != MR_RESULT_TENSOR || is_home(result->buffer, device);
}

mr_device *mr_copy_device(const mr_frame *frame) {
    const mr_buffer *buffer = frame->plane[0].buffer;
    for (const mr_result *result = frame->results; (!buffer || buffer->memory != MR_MEMORY_DEVICE) && result;
         result = result->next)
        if (result->kind == MR_RESULT_TENSOR)
            buffer = result->buffer;
    return buffer && buffer->memory == MR_MEMORY_DEVICE ? buffer->device : NULL;
}

static bool is_lent(const mr_buffer *buffer, const void *data, mr_device *device) {
    return buffer && (buffer->memory == MR_MEMORY_HOST || buffer->memory == MR_MEMORY_SHARED) &&
           !mr_device_is_pinned(device, data);
}

bool mr_copy_is_lent(const mr_frame *frame, mr_device *device) {
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (is_lent(frame->plane[i].buffer, frame->plane[i].data, device))
            return true;
    for (const mr_result *result = frame->results; result; result = result->next)
        if (result->kind == MR_RESULT_TENSOR && is_lent(result->buffer, result->data, device))
            return true;
    return false;
}

/* Of packets and other payloads without a layout: as many bytes as there are. */
static size_t payload_bytes(const mr_frame *frame) {
    size_t bytes = mr_format_bytes(&frame->format);
    return bytes ? bytes : frame->plane[0].bytes;
}

size_t mr_copy_bytes(const mr_frame *frame, const mr_device *device) {
    size_t bytes = payload_is_home(frame, device) ? 0 : mr_aligned_bytes(payload_bytes(frame));
    for (const mr_result *result = frame->results; result; result = result->next)
        if (!result_is_home(result, device))
            bytes += mr_aligned_bytes(mr_tensor_bytes(&result->format));
    return bytes;
}

/* ---- the payload ----------------------------------------------------------------------------------------------- */

/* Where a copy comes from and goes to. */
typedef struct way {
    mr_stream *stream;
    mr_buffer *buffer, *passage; /* passage: NULL, or pinned memory laid out as the buffer is */
} way;

/* Brings what lies on the host to its place in the passage, from where it is copied. */
static int copy_bytes(const way *w, size_t offset, const void *from, const mr_buffer *lender, size_t bytes) {
    if (w->passage && is_lent(lender, from, w->stream->device))
        from = memcpy(w->passage->data + offset, from, bytes);
    return mr_stream_copy(w->stream, w->buffer->data + offset, from, bytes);
}

static int copy_rows(const way *w, size_t offset, const mr_plane *from, size_t stride, size_t bytes, size_t rows) {
    const uint8_t *data = from->data;
    ptrdiff_t from_stride = from->stride;
    if (w->passage && is_lent(from->buffer, data, w->stream->device)) {
        for (size_t row = 0; row < rows; row++)
            memcpy(w->passage->data + offset + row * stride, from->data + (ptrdiff_t)row * from->stride, bytes);
        data = w->passage->data + offset;
        from_stride = (ptrdiff_t)stride;
    }
    return mr_stream_copy_rows(w->stream, w->buffer->data + offset, (ptrdiff_t)stride, data, from_stride, bytes, rows);
}

static int copy_planes(const way *w, const mr_frame *from, mr_frame *to) {
    mr_pixel pixel = from->format.pixel;
    size_t offset = 0;
    int status = MR_OK;
    for (int i = 0; i < mr_pixel_describe(pixel)->planes && !status; i++) {
        size_t row = mr_plane_row_bytes(pixel, i, from->format.width);
        size_t stride = mr_plane_stride(pixel, i, from->format.width);
        size_t rows = (size_t)mr_plane_rows(pixel, i, from->format.height);
        to->plane[i] = (mr_plane){mr_buffer_ref(w->buffer), w->buffer->data + offset, (ptrdiff_t)stride, stride * rows};
        status = copy_rows(w, offset, &from->plane[i], stride, row, rows);
        offset += stride * rows;
    }
    return status;
}

static int copy_payload(const way *w, const mr_frame *from, mr_frame *to) {
    if (from->format.payload == MR_PAYLOAD_PICTURE)
        return copy_planes(w, from, to);
    size_t bytes = payload_bytes(from);
    to->plane[0] = (mr_plane){.buffer = mr_buffer_ref(w->buffer), .data = w->buffer->data, .bytes = bytes};
    return copy_bytes(w, 0, from->plane[0].data, from->plane[0].buffer, bytes);
}

static void share_payload(const mr_frame *from, mr_frame *to) {
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        to->plane[i] = from->plane[i];
        if (to->plane[i].buffer)
            mr_buffer_ref(to->plane[i].buffer);
    }
}

/* ---- results --------------------------------------------------------------------------------------------------- */

/* Classes may still be written by work that comes before this on the stream. */
typedef struct classes_work {
    mr_result *to;
    const mr_result *from;
} classes_work;

static int copy_classes(void *arguments) {
    const classes_work *work = arguments;
    work->to->count = work->from->count;
    if (work->from->count)
        memcpy(work->to->classes, work->from->classes, work->from->count * sizeof *work->from->classes);
    return MR_OK;
}

/* A small tensor that stands in the result itself, in host memory. */
static int copy_numbers(void *arguments) {
    const classes_work *work = arguments;
    memcpy(work->to->classes, work->from->classes, mr_tensor_bytes(&work->from->format));
    return MR_OK;
}

static int copy_result(mr_io *io, const mr_result *from, const mr_device *device, const way *w, size_t *offset,
                       mr_frame *to) {
    mr_result *made = NULL;
    int status = mr_io_add_result(io, to, from->kind, from->capacity, &made);
    if (status)
        return status;
    made->stage = from->stage;
    made->name = from->name;
    made->format = from->format;
    if (from->kind != MR_RESULT_TENSOR)
        return mr_stream_submit(mr_io_stream(io), copy_classes, &(classes_work){made, from}, sizeof(classes_work));
    if (from->data == (const uint8_t *)from->classes) {
        made->data = (const uint8_t *)made->classes;
        return mr_stream_submit(mr_io_stream(io), copy_numbers, &(classes_work){made, from}, sizeof(classes_work));
    }
    if (result_is_home(from, device)) {
        made->buffer = from->buffer ? mr_buffer_ref(from->buffer) : NULL;
        made->data = from->data;
        return MR_OK;
    }
    size_t bytes = mr_tensor_bytes(&from->format);
    size_t at = *offset;
    *offset += mr_aligned_bytes(bytes);
    made->buffer = mr_buffer_ref(w->buffer);
    made->data = w->buffer->data + at;
    return copy_bytes(w, at, from->data, from->buffer, bytes);
}

/* The list anew, oldest first, since each is put in front of the others. */
static int copy_results(mr_io *io, const mr_result *from, const mr_device *device, const way *w, size_t *offset,
                        mr_frame *to) {
    if (!from)
        return MR_OK;
    int status = copy_results(io, from->next, device, w, offset, to);
    return status ? status : copy_result(io, from, device, w, offset, to);
}

static bool results_are_home(const mr_frame *frame, const mr_device *device) {
    for (const mr_result *result = frame->results; result; result = result->next)
        if (!result_is_home(result, device))
            return false;
    return true;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

int mr_copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, mr_buffer *buffer, mr_buffer *passage,
                  mr_frame **copy) {
    const way w = {mr_io_stream(io), buffer, passage};
    mr_frame *made = NULL;
    int status = mr_io_derive(io, from, &made);
    if (status)
        return status;
    size_t offset = 0;
    made->format = from->format;
    made->flags = from->flags;
    made->dts_ns = from->dts_ns;
    if (payload_is_home(from, device)) {
        share_payload(from, made);
    } else {
        status = copy_payload(&w, from, made);
        offset = mr_aligned_bytes(payload_bytes(from));
    }
    if (!status && !results_are_home(from, device)) {
        mr_result_unref(&made->results);
        status = copy_results(io, from->results, device, &w, &offset, made);
    }
    if (status)
        mr_frame_unref(&made);
    *copy = made;
    return status;
}

/* ---- the stage type -------------------------------------------------------------------------------------------- */

static int process(mr_stage *self, mr_io *io) {
    const mr_copy_options *options = self->options;
    mr_device *device = options->to_host ? NULL : self->device;
    const mr_frame *from = mr_io_input(io);
    size_t bytes = mr_copy_bytes(from, device);
    mr_buffer *buffer = NULL, *passage = NULL;
    mr_frame *copy = NULL;
    if (!bytes)
        return mr_io_forward(io, 0);
    int status = mr_io_buffer(io, 0, bytes, &buffer);
    if (!status)
        status = mr_io_passage(io, from, device, bytes, &passage);
    if (!status)
        status = mr_copy_frame(io, from, device, buffer, passage, &copy);
    mr_buffer_unref(&passage);
    mr_buffer_unref(&buffer);
    return status ? status : mr_io_emit(io, 0, copy);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames in one memory"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames in another"}, {0}};

const mr_stage_type mr_copy_stage = {
    .name = "copy",
    .summary = "brings frames from one memory into another; put in by the planner",
    .inputs = inputs,
    .outputs = outputs,
    .options_bytes = sizeof(mr_copy_options),
    .entry = MR_ENTRY_STATELESS,
    .streams = true,
    .cuda = true,
    .process = process,
};

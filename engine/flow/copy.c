#include "engine/flow/copy.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/store.h"
#include "engine/device/device.h"
#include "engine/flow/io.h"
#include "millrace/status.h"

/* Whether a buffer lies in this device's memory. A NULL buffer counts as present; a NULL device means the host. */
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
    return !result->kind->on_device || is_home(result->buffer, device);
}

mr_device *mr_copy_device(const mr_frame *frame) {
    const mr_buffer *buffer = frame->plane[0].buffer;
    for (const mr_result *result = frame->results; (!buffer || buffer->memory != MR_MEMORY_DEVICE) && result;
         result = result->next)
        if (result->buffer)
            buffer = result->buffer;
    return buffer && buffer->memory == MR_MEMORY_DEVICE ? buffer->device : NULL;
}

static bool is_external(const mr_buffer *buffer, const void *data, mr_device *device) {
    return buffer && (buffer->memory == MR_MEMORY_HOST || buffer->memory == MR_MEMORY_SHARED) &&
           !mr_device_is_pinned(device, data);
}

bool mr_copy_is_external(const mr_frame *frame, mr_device *device) {
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (is_external(frame->plane[i].buffer, frame->plane[i].data, device))
            return true;
    for (const mr_result *result = frame->results; result; result = result->next)
        if (result->kind->on_device && is_external(result->buffer, result->data, device))
            return true;
    return false;
}

/* The payload's size; packets and other payloads without a layout give it as plane[0].bytes. */
static size_t payload_bytes(const mr_frame *frame) {
    size_t bytes = mr_format_bytes(&frame->format);
    return bytes ? bytes : frame->plane[0].bytes;
}

size_t mr_copy_bytes(const mr_frame *frame, const mr_device *device) {
    size_t bytes = payload_is_home(frame, device) ? 0 : mr_aligned_bytes(payload_bytes(frame));
    for (const mr_result *result = frame->results; result; result = result->next)
        if (!result_is_home(result, device))
            bytes += mr_aligned_bytes(mr_result_bytes(result));
    return bytes;
}

/* ---- bytes ----------------------------------------------------------------------------------------------------- */

/* A contiguous range on both sides, which one copy can move. */
typedef struct run {
    uint8_t *to;
    const uint8_t *from;
    const mr_buffer *of; /* NULL: no later range may join */
    size_t bytes;
} run;

/* A result stored inside the frame, which the host must copy. */
typedef struct small_copy {
    mr_result *to;
    const mr_result *from;
} small_copy;
enum { MOST_SMALL = 60, MOST_GAP = 64 };
typedef struct small_work {
    size_t count;
    small_copy copies[MOST_SMALL];
} small_work;
_Static_assert(sizeof(small_work) <= MR_WORK_BYTES, "it is the argument of work");

/* The state while a copy is being assembled. */
typedef struct way {
    mr_stream *stream;
    mr_buffer *buffer, *bounce; /* bounce: NULL, or pinned memory with the buffer's layout */
    bool gathers;                /* the host gathers all data in the bounce buffer; one copy then moves it */
    size_t used;                 /* bytes used in the buffer */
    run run;
    small_work small;
} way;

static void begin(way *w, mr_stream *stream, mr_buffer *buffer, mr_buffer *bounce, bool gathers) {
    w->stream = stream;
    w->buffer = buffer;
    w->bounce = bounce;
    w->gathers = gathers;
    w->used = 0;
    w->run.bytes = 0;
    w->small.count = 0;
}

/* Submits the pending run. */
static int give_run(way *w) {
    size_t bytes = w->run.bytes;
    w->run.bytes = 0;
    return bytes ? mr_stream_copy(w->stream, w->run.to, w->run.from, bytes) : MR_OK;
}

static int run_small(void *arguments) {
    const small_work *work = arguments;
    int status = MR_OK;
    for (size_t i = 0; i < work->count && !status; i++)
        status = mr_result_copy(work->copies[i].to, work->copies[i].from);
    return status;
}

static int give_small(way *w) {
    size_t count = w->small.count;
    if (!count)
        return MR_OK;
    int status = mr_stream_submit(w->stream, run_small, &w->small,
                                  offsetof(small_work, copies) + count * sizeof *w->small.copies);
    w->small.count = 0;
    return status;
}

static int end(way *w) {
    int status = w->gathers ? mr_stream_copy(w->stream, w->buffer->data, w->bounce->data, w->used) : give_run(w);
    return status ? status : give_small(w);
}

/* Bytes between the run's end and the next data; SIZE_MAX if the data do not follow the run in the same buffer. */
static size_t gap_behind(const run *r, const uint8_t *from, const mr_buffer *of) {
    bool behind = r->bytes && of && of == r->of && from >= r->from + r->bytes;
    return behind ? (size_t)(from - (r->from + r->bytes)) : SIZE_MAX;
}

/* Chooses the offset for the next `bytes`: 64-byte aligned, or at the same distance from the previous range as in the
 * source, so that both can share one copy. */
static size_t place(way *w, const uint8_t *from, const mr_buffer *of, size_t bytes) {
    size_t at = w->used, gap = gap_behind(&w->run, from, of);
    if (gap != SIZE_MAX) {
        size_t behind = (size_t)(w->run.to - w->buffer->data) + w->run.bytes;
        at = behind <= at && gap <= at - behind ? behind + gap : at;
    }
    w->used = mr_aligned_bytes(at + bytes);
    return at;
}

/* Submits a copy, or extends the pending run. External host data must go through the bounce buffer first. */
static int copy_bytes(way *w, size_t at, const void *from, const mr_buffer *holder, size_t bytes) {
    uint8_t *to = w->buffer->data + at;
    if (w->gathers || (w->bounce && is_external(holder, from, w->stream->device))) {
        from = memcpy(w->bounce->data + at, from, bytes);
        holder = w->bounce;
    }
    if (w->gathers)
        return MR_OK;
    size_t gap = gap_behind(&w->run, from, holder);
    if (gap != SIZE_MAX && to == w->run.to + w->run.bytes + gap && gap < MOST_GAP) {
        w->run.bytes += gap + bytes;
        return MR_OK;
    }
    int status = give_run(w);
    w->run = (run){to, from, holder, bytes};
    return status;
}

static int copy_rows(way *w, size_t at, const mr_plane *from, size_t stride, size_t bytes, size_t rows) {
    const uint8_t *data = from->data;
    ptrdiff_t from_stride = from->stride;
    if (stride == bytes && from_stride == (ptrdiff_t)bytes)
        return copy_bytes(w, at, data, from->buffer, bytes * rows);
    if (w->gathers || (w->bounce && is_external(from->buffer, data, w->stream->device))) {
        for (size_t row = 0; row < rows; row++)
            memcpy(w->bounce->data + at + row * stride, from->data + (ptrdiff_t)row * from->stride, bytes);
        data = w->bounce->data + at;
        from_stride = (ptrdiff_t)stride;
    }
    if (w->gathers)
        return MR_OK;
    return mr_stream_copy_rows(w->stream, w->buffer->data + at, (ptrdiff_t)stride, data, from_stride, bytes, rows);
}

/* ---- the payload ----------------------------------------------------------------------------------------------- */

static int copy_planes(way *w, size_t at, const mr_frame *from, mr_frame *to) {
    int status = MR_OK;
    mr_frame_place(to, &from->format, w->buffer, at, MR_ROW_ALIGNMENT);
    for (mr_row row = {0}; !status && mr_next_plane(&from->format, &row);)
        status = copy_rows(w, (size_t)(to->plane[row.plane].data - w->buffer->data), &from->plane[row.plane],
                           (size_t)to->plane[row.plane].stride, row.bytes, (size_t)row.rows);
    return status;
}

static int copy_payload(way *w, const mr_frame *from, mr_frame *to) {
    const mr_plane *first = &from->plane[0];
    size_t bytes = payload_bytes(from);
    if (from->format.payload == MR_PAYLOAD_PICTURE)
        return copy_planes(w, place(w, NULL, NULL, bytes), from, to);
    size_t at = place(w, first->data, first->buffer, bytes);
    to->plane[0] = (mr_plane){.buffer = mr_buffer_ref(w->buffer), .data = w->buffer->data + at, .bytes = bytes};
    return copy_bytes(w, at, first->data, first->buffer, bytes);
}

static void share_payload(const mr_frame *from, mr_frame *to) {
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        to->plane[i] = from->plane[i];
        if (to->plane[i].buffer)
            mr_buffer_ref(to->plane[i].buffer);
    }
}

/* ---- results --------------------------------------------------------------------------------------------------- */

/* Queues a result that lies in host memory. The copy must run on the stream: earlier work there may still write the
 * result. */
static int copy_small(way *w, mr_result *to, const mr_result *from) {
    int status = w->small.count == MOST_SMALL ? give_small(w) : MR_OK;
    w->small.copies[w->small.count++] = (small_copy){to, from};
    return status;
}

static int copy_result(mr_io *io, const mr_result *from, const mr_device *device, way *w, mr_frame *to) {
    mr_result *made = NULL;
    int status = mr_io_add_like(io, to, from, &made);
    if (status)
        return status;
    if (made->data != from->data || from->kind->fields)
        return copy_small(w, made, from);
    if (result_is_home(from, device))
        return MR_OK;
    mr_buffer_unref(&made->buffer);
    size_t bytes = mr_result_bytes(from), at = place(w, from->data, from->buffer, bytes);
    made->buffer = mr_buffer_ref(w->buffer);
    made->data = w->buffer->data + at;
    return copy_bytes(w, at, from->data, from->buffer, bytes);
}

/* Starts with the oldest result, since each new one is put at the head. */
static int copy_results(mr_io *io, const mr_result *from, const mr_device *device, way *w, mr_frame *to) {
    if (!from)
        return MR_OK;
    int status = copy_results(io, from->next, device, w, to);
    return status ? status : copy_result(io, from, device, w, to);
}

static bool results_are_home(const mr_frame *frame, const mr_device *device) {
    for (const mr_result *result = frame->results; result; result = result->next)
        if (!result_is_home(result, device))
            return false;
    return true;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, way *w, mr_frame **copy) {
    mr_frame *made = NULL;
    int status = mr_io_derive(io, from, &made);
    if (status)
        return status;
    made->format = from->format;
    made->flags = from->flags;
    made->dts_ns = from->dts_ns;
    if (payload_is_home(from, device))
        share_payload(from, made);
    else
        status = copy_payload(w, from, made);
    if (!status && !results_are_home(from, device)) {
        mr_result_unref(&made->results);
        status = copy_results(io, from->results, device, w, made);
    }
    if (status)
        mr_frame_unref(&made);
    *copy = made;
    return status;
}

int mr_copy_frame(mr_io *io, const mr_frame *from, const mr_device *device, mr_buffer *buffer, mr_buffer *bounce,
                  mr_frame **copy) {
    way w;
    begin(&w, mr_io_stream(io), buffer, bounce, false);
    mr_frame *made = NULL;
    int status = copy_frame(io, from, device, &w, &made);
    if (!status)
        status = end(&w);
    if (status)
        mr_frame_unref(&made);
    *copy = made;
    return status;
}

/* ---- the stage type -------------------------------------------------------------------------------------------- */

/* Memory for one frame that is copied separately. */
typedef struct single {
    mr_buffer *buffer, *bounce; /* NULL: nothing needs copying */
} single;

/* 0 for a frame that is passed. */
static size_t bytes_of(const mr_io *io, size_t index, const mr_device *device) {
    return mr_io_passes(io, index) ? 0 : mr_copy_bytes(mr_io_input_at(io, 0, index), device);
}

static int take_single(mr_io *io, size_t index, mr_device *device, single *one) {
    const mr_frame *from = mr_io_input_at(io, 0, index);
    size_t bytes = bytes_of(io, index, device);
    int status = bytes ? mr_io_buffer(io, 0, bytes, &one->buffer) : MR_OK;
    return bytes && !status ? mr_io_bounce(io, from, device, bytes, &one->bounce) : status;
}

static int copy_single(mr_io *io, size_t index, mr_device *device, const single *one) {
    mr_frame *copy = NULL;
    if (mr_io_passes(io, index))
        return mr_io_pass(io, index);
    if (!one->buffer)
        return mr_io_forward(io, index);
    int status = mr_copy_frame(io, mr_io_input_at(io, 0, index), device, one->buffer, one->bounce, &copy);
    return status ? status : mr_io_emit(io, 0, copy);
}

/* Takes all memory before it submits any work, so that a retry repeats nothing. */
static int copy_singly(mr_io *io, mr_device *device) {
    single each[MR_COPY_BATCH];
    size_t count = mr_io_count(io);
    int status = MR_OK;
    for (size_t i = 0; i < count; i++)
        each[i] = (single){0};
    for (size_t i = 0; i < count && !status; i++)
        status = take_single(io, i, device, &each[i]);
    for (size_t i = 0; i < count && !status; i++)
        status = copy_single(io, i, device, &each[i]);
    for (size_t i = 0; i < count; i++) {
        mr_buffer_unref(&each[i].bounce);
        mr_buffer_unref(&each[i].buffer);
    }
    return status;
}

static int copy_together(mr_io *io, mr_device *device, mr_buffer *buffer, mr_buffer *block) {
    way w;
    int status = MR_OK;
    begin(&w, mr_io_stream(io), buffer, block, block);
    for (size_t i = 0; i < mr_io_count(io) && !status; i++) {
        const mr_frame *from = mr_io_input_at(io, 0, i);
        mr_frame *copy = NULL;
        bool needed = bytes_of(io, i, device) > 0;
        status = needed                 ? copy_frame(io, from, device, &w, &copy)
                 : mr_io_passes(io, i) ? mr_io_pass(io, i)
                                        : mr_io_forward(io, i);
        if (needed && !status)
            status = mr_io_emit(io, 0, copy);
    }
    return status ? status : end(&w);
}

/* Bytes to copy for all frames in the call. 0 if they cannot be copied together: there is only one frame, nothing needs
 * copying, or the host would read data that a device may still write. */
static size_t bytes_together(const mr_io *io, const mr_device *device) {
    const mr_event *ready = mr_io_input(io)->ready;
    size_t bytes = 0, count = mr_io_count(io);
    if (count == 1 || (device && ready && !mr_event_done(ready)))
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes += bytes_of(io, i, device);
    return bytes;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_copy_options *options = self->options;
    mr_device *device = options->to_host ? NULL : self->device;
    mr_buffer *buffer = NULL, *block = NULL;
    size_t bytes = bytes_together(io, device);
    int status = bytes ? mr_io_gather(io, bytes, &buffer, &block) : MR_OK;
    if (!status)
        status = buffer ? copy_together(io, device, buffer, block) : copy_singly(io, device);
    mr_buffer_unref(&block);
    mr_buffer_unref(&buffer);
    return status;
}

static const mr_port inputs[] = {{.name = "in", .help = "frames in one memory"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames in another"}, {0}};

const mr_stage_type mr_copy_stage = {
    .name = "copy",
    .summary = "copies frames from one memory to another; inserted by the planner",
    .inputs = inputs,
    .outputs = outputs,
    .options_bytes = sizeof(mr_copy_options),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .streams = true,
    .cuda = true,
    .process = process,
};

#include "engine/device/device.h"

#include <string.h>

mr_device *mr_device_ref(mr_device *device) {
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void mr_device_destroy(mr_device **device) {
    mr_device *gone = *device;
    *device = NULL;
    if (!gone || !gone->type->destroy || gone == mr_device_cpu() ||
        atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) > 0)
        return;
    gone->type->destroy(gone);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

int64_t mr_device_advance(mr_device *device, int64_t now_ns) {
    return device->type->advance ? device->type->advance(device, now_ns) : INT64_MAX;
}

int mr_device_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    return device->type->allocate(device, memory, bytes, data);
}

void mr_device_free(mr_device *device, mr_memory memory, void *data) {
    device->type->free(device, memory, data);
}

bool mr_device_is_pinned(mr_device *device, const void *data) {
    return device->type->is_pinned && device->type->is_pinned(device, data);
}

void mr_device_reuse(mr_device *device, void *data) {
    if (device->type->reuse)
        device->type->reuse(device, data);
}

int mr_device_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame) {
    return device->type->host_reads ? device->type->host_reads(device, data, stage, frame) : MR_OK;
}

const char *mr_engine_name(mr_engine engine) {
    static const char *const names[MR_ENGINES] = {"upload", "compute", "download"};
    return names[engine];
}

void mr_device_count_bytes(mr_device *device, mr_memory memory, int64_t bytes) {
    uint64_t held = atomic_fetch_add(&device->held_bytes[memory], (uint64_t)bytes) + (uint64_t)bytes;
    uint64_t most = atomic_load(&device->most_bytes[memory]);
    while (bytes > 0 && held > most && !atomic_compare_exchange_weak(&device->most_bytes[memory], &most, held))
        ;
}

uint64_t mr_device_most_bytes(const mr_device *device, mr_memory memory) {
    return atomic_load(&device->most_bytes[memory]);
}

uint64_t mr_device_held_bytes(const mr_device *device, mr_memory memory) {
    return atomic_load(&device->held_bytes[memory]);
}

int mr_stream_create(mr_device *device, mr_stream **stream) {
    return device->type->stream_create(device, stream);
}

int mr_stream_create_for(mr_device *device, bool urgent, mr_stream **stream) {
    const mr_device_type *type = device->type;
    return urgent && type->stream_create_urgent ? type->stream_create_urgent(device, stream)
                                                : type->stream_create(device, stream);
}

void mr_stream_destroy(mr_stream **stream) {
    mr_stream *gone = *stream;
    *stream = NULL;
    if (gone)
        gone->device->type->stream_destroy(gone);
}

static int count_work(mr_stream *stream, int status) {
    stream->unrecorded += !status;
    return status;
}

int mr_stream_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    if (bytes > MR_WORK_BYTES)
        return mr_fail(MR_ERROR_INTERNAL, "%zu bytes of arguments; device work takes %d", bytes, MR_WORK_BYTES);
    return count_work(stream, stream->device->type->submit(stream, function, arguments, bytes));
}

int mr_rows_copy_run(void *arguments) {
    const mr_rows_copy *copy = arguments;
    for (size_t row = 0; row < copy->rows; row++) {
        uint8_t *to = copy->to + (ptrdiff_t)row * copy->to_stride;
        if (copy->from)
            memcpy(to, copy->from + (ptrdiff_t)row * copy->from_stride, copy->bytes);
        else
            memset(to, 0, copy->bytes);
    }
    return MR_OK;
}

int mr_stream_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                        size_t bytes, size_t rows) {
    const mr_device_type *type = stream->device->type;
    const mr_rows_copy copy = {to, from, to_stride, from_stride, bytes, rows};
    if (!bytes || !rows)
        return MR_OK;
    return count_work(stream, type->copy_rows
                                  ? type->copy_rows(stream, to, to_stride, from, from_stride, bytes, rows)
                                  : type->submit(stream, mr_rows_copy_run, &copy, sizeof copy));
}

int mr_stream_copy(mr_stream *stream, void *to, const void *from, size_t bytes) {
    return mr_stream_copy_rows(stream, to, (ptrdiff_t)bytes, from, (ptrdiff_t)bytes, bytes, 1);
}

int mr_stream_record(mr_stream *stream, mr_event *event) {
    int status = stream->device->type->record(stream, event);
    stream->unrecorded = status ? stream->unrecorded : 0;
    return status;
}

int mr_stream_wait(mr_stream *stream, mr_event *event) {
    return stream->device->type->wait(stream, event);
}

int mr_stream_hand_on(mr_stream *stream, mr_event *event) {
    if (!stream->device->type->hand_on)
        return mr_stream_record(stream, event);
    int status = stream->device->type->hand_on(stream, event);
    stream->unrecorded = status ? stream->unrecorded : 0;
    return status;
}

int mr_stream_settle(mr_stream *stream) {
    return stream->device->type->settle ? stream->device->type->settle(stream) : MR_OK;
}

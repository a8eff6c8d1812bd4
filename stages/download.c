#include "stages/download.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"

/* The pointers follow the data, so that they need no separate memory. */
static size_t pointers_at(size_t room, size_t each) {
    return mr_aligned_bytes(room * each);
}

static size_t room_bytes(size_t room, size_t each) {
    return pointers_at(room, each) + room * sizeof(mr_result *);
}

static mr_result **results_of(const mr_download *d) {
    return (mr_result **)(void *)(d->buffer->data + pointers_at(d->room, d->each));
}

void mr_download_tensor(const void *context, mr_result *result, uint8_t *found, size_t each) {
    memcpy(result->data, found, mr_tensor_bytes(&result->format));
}

void mr_download_plan(mr_negotiation *n, size_t each) {
    n->result_bytes = room_bytes((size_t)n->batch, each);
}

int mr_download_begin(mr_download *d, const mr_stage *self, mr_io *io) {
    d->count = 0;
    d->room = (size_t)self->batch;
    if (mr_io_stream(io)->device->type->kind == MR_DEVICE_CPU)
        return MR_OK;
    return mr_io_results(io, room_bytes(d->room, d->each), &d->buffer);
}

void mr_download_add(mr_download *d, mr_result *result, uint8_t *found) {
    if (d->buffer)
        results_of(d)[d->count] = result;
    else if (result)
        d->finish(d->context, result, found, d->each);
    d->count++;
}

/* Devices that check which memory is read use `found`, the pointer to the copied bytes. */
typedef struct finish_work {
    mr_download download;
    uint8_t *found;
} finish_work;

static int finish_all(void *arguments) {
    const finish_work *work = arguments;
    const mr_download *d = &work->download;
    for (size_t i = 0; i < d->count; i++)
        if (results_of(d)[i])
            d->finish(d->context, results_of(d)[i], work->found + i * d->each, d->each);
    return MR_OK;
}

/* The call holds the buffer until the work is done; a device's call also holds the results. */
int mr_download_end(const mr_download *d, mr_io *io, const uint8_t *found) {
    if (!d->buffer || !d->count)
        return MR_OK;
    const finish_work work = {*d, d->buffer->data};
    int status = mr_stream_copy(mr_io_stream(io), d->buffer->data, found, d->count * d->each);
    return status ? status : mr_stream_submit(mr_io_stream(io), finish_all, &work, sizeof work);
}

void mr_download_release(mr_download *d) {
    mr_buffer_unref(&d->buffer);
}

/* The host's processors: work is done before submit returns, so every event is done as soon as it is recorded. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/device/pixel_memory.h"
#include "engine/device/device.h"

typedef struct cpu_stream {
    mr_stream stream;
    int status; /* the work's since the last event */
} cpu_stream;

static int cpu_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    *data = mr_alloc_pixels(bytes);
    return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", device->name, bytes);
}

static void cpu_free(mr_device *device, mr_memory memory, void *data) {
    mr_free(data);
}

static int cpu_stream_create(mr_device *device, mr_stream **stream) {
    cpu_stream *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a stream");
    made->stream.device = device;
    *stream = &made->stream;
    return MR_OK;
}

static void cpu_stream_destroy(mr_stream *stream) {
    mr_free(stream);
}

static int cpu_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    /* The work is done before this returns: it need not copy the arguments. */
    return function((void *)(uintptr_t)arguments);
}

static int cpu_record(mr_stream *stream, mr_event *event) {
    cpu_stream *self = (cpu_stream *)stream;
    int status = self->status;
    self->status = MR_OK;
    mr_event_complete(event, status);
    return MR_OK;
}

static int cpu_wait(mr_stream *stream, mr_event *event) {
    cpu_stream *self = (cpu_stream *)stream;
    /* The cpu cannot defer work: callers must wait for inputs first. */
    if (!mr_event_done(event))
        return mr_fail(MR_ERROR_INTERNAL, "cpu: asked to wait for an event of %s that is not done",
                       mr_event_device(event)->name);
    if (mr_event_status(event))
        self->status = mr_event_status(event);
    return MR_OK;
}

static void cpu_destroy(mr_device *device) {
    mr_free(device);
}

static const mr_device_type cpu_type = {
    .kind = MR_DEVICE_CPU,
    .allocate = cpu_allocate,
    .free = cpu_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .submit = cpu_submit,
    .record = cpu_record,
    .wait = cpu_wait,
    .destroy = cpu_destroy,
};

mr_device *mr_device_cpu(void) {
    static mr_device cpu = {.type = &cpu_type, .name = "cpu"};
    return &cpu;
}

int mr_cpu_create(mr_device **device) {
    mr_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a device");
    made->type = &cpu_type;
    snprintf(made->name, sizeof made->name, "cpu");
    *device = made;
    return MR_OK;
}

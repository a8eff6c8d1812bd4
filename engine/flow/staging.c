/* Stages on several devices, or with a reserve, copy inputs to the call's device themselves, since the device is known
 * only when a call begins. The copies use separate streams, so that they run beside earlier calls' work. The call's own
 * stream, or the host, must then wait for them. */
#include "engine/flow/staging.h"

#include "engine/flow/copy.h"
#include "engine/flow/input.h"
#include "engine/flow/io.h"

static bool works_on_host(const mr_stage *self) {
    return self->device->type->kind == MR_DEVICE_CPU;
}

/* The stream that copies to the call's device. For a copy to the host it belongs to the device that holds the frame. */
static mr_stream *stream_for(const mr_io *io, const mr_frame *frame) {
    const mr_instance *instance = io->instance;
    const mr_stage *self = mr_parts_stage(&instance->parts, io->slot->device_number);
    size_t number = io->slot->device_number;
    for (size_t i = 0; works_on_host(self) && i < mr_parts_count(&instance->parts); i++)
        if (mr_parts_stage(&instance->parts, i)->device == mr_copy_device(frame))
            number = i;
    return io->entry->staging[number];
}

/* Ends one frame's copies with an event, and makes the call's stream or the host wait for it. */
static int join(mr_io *io, mr_stream *stream, mr_frame *copy) {
    mr_slot *slot = io->slot;
    const mr_stage *self = mr_parts_stage(&io->instance->parts, slot->device_number);
    mr_event *event = NULL;
    int status = mr_event_create(&event, stream->device, self);
    /* The slot keeps one event: the last must complete after the others. */
    if (!status && works_on_host(self) && slot->event)
        status = mr_stream_wait(stream, slot->event);
    if (!status)
        status = mr_stream_record(stream, event);
    if (!status && !works_on_host(self)) {
        status = mr_stream_wait(io->entry->streams[slot->device_number], event);
        /* If nothing waits for an event, the work has no known end. */
        stream->unrecorded += status != MR_OK;
    }
    if (!status && works_on_host(self)) {
        mr_event_unref(&slot->event);
        slot->event = mr_event_ref(event);
        mr_event_unref(&copy->ready);
        copy->ready = mr_event_ref(event);
    }
    mr_event_unref(&event);
    return status;
}

/* Replaces an input with a copy in the device's memory. */
static int bring_in(mr_io *io, size_t index, mr_device *device, size_t bytes) {
    mr_slot *slot = io->slot;
    mr_frame *frame = slot->frames[index], *copy = NULL;
    mr_stream *stream = stream_for(io, frame), *own = io->stream;
    mr_buffer *buffer = NULL, *bounce = NULL;
    int status = mr_io_staging(io, bytes, &buffer);
    if (!status)
        status = mr_io_bounce(io, frame, device, bytes, &bounce);
    if (!status)
        status = mr_hold_frame(&slot->holds, frame);
    stream->stage = own->stage;
    stream->frame = frame->identity;
    /* Even if it is done: the stream must learn whether it failed. */
    if (!status && frame->ready)
        status = mr_stream_wait(stream, frame->ready);
    io->stream = stream;
    if (!status)
        status = mr_copy_frame(io, frame, device, buffer, bounce, &copy);
    io->stream = own;
    if (!status)
        status = join(io, stream, copy);
    mr_buffer_unref(&bounce);
    mr_buffer_unref(&buffer);
    if (status) {
        mr_frame_unref(&copy);
        return status;
    }
    mr_frame_unref(&slot->frames[index]);
    slot->frames[index] = copy;
    slot->staged = true;
    return MR_OK;
}

/* Inputs that do not come through the call's stream must be ready first. */
static int await(mr_io *io) {
    mr_entry_task *entry = io->entry;
    int status = MR_OK;
    for (size_t i = 0; i < io->slot->frame_count && status >= 0; i++) {
        const mr_frame *frame = io->slot->frames[i];
        int ready = mr_input_ready(io->slot, frame, entry, entry->wait_count - 1);
        status = ready > 0 ? MR_OK : ready < 0 ? ready : MR_ERROR_AGAIN;
    }
    return status;
}

int mr_io_bring_in(mr_io *io) {
    const mr_instance *instance = io->instance;
    const mr_stage *self = mr_parts_stage(&instance->parts, io->slot->device_number);
    mr_device *device = works_on_host(self) ? NULL : self->device;
    int status = MR_OK;
    for (size_t i = 0; i < io->slot->frame_count && !status; i++) {
        size_t bytes = mr_copy_bytes(io->slot->frames[i], device);
        status = bytes ? bring_in(io, i, device, bytes) : MR_OK;
    }
    return status ? status : await(io);
}

/* Stages on several devices, or with one in reserve, bring their inputs in themselves: only when a call begins is it
 * known where its work goes. Copies go through streams of their own, so that they run beside the work of earlier
 * calls, which the call's own stream, or the host, is made to wait for. */
#include "engine/flow/copy.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance.h"

static bool on_host(const mr_stage *self) {
    return self->device->type->kind == MR_DEVICE_CPU;
}

/* The stream that copies to the call's device; home from a device it is one of that device. */
static mr_stream *stream_for(const mr_io *io, const mr_frame *frame) {
    const mr_instance *instance = io->instance;
    const mr_stage *self = &mr_slot_part(instance, io->slot)->self;
    size_t part = io->slot->part;
    for (size_t i = 0; on_host(self) && i < instance->part_count; i++)
        if (instance->parts[i].self.device == mr_copy_device(frame))
            part = i;
    return io->entry->staging[part];
}

/* Ends what was copied for one frame with an event, and makes whoever needs it wait for that. */
static int join(mr_io *io, mr_stream *stream, mr_frame *copy) {
    mr_slot *slot = io->slot;
    const mr_stage *self = &mr_slot_part(io->instance, slot)->self;
    mr_event *event = NULL;
    int status = mr_event_create(&event, stream->device, self);
    /* The slot keeps one event: the last is behind the others. */
    if (!status && on_host(self) && slot->event)
        status = mr_stream_wait(stream, slot->event);
    if (!status)
        status = mr_stream_record(stream, event);
    if (!status && !on_host(self)) {
        status = mr_stream_wait(io->entry->streams[slot->part], event);
        /* An event that nothing waits for ends nothing. */
        stream->unrecorded += status != MR_OK;
    }
    if (!status && on_host(self)) {
        mr_event_unref(&slot->event);
        slot->event = mr_event_ref(event);
        mr_event_unref(&copy->ready);
        copy->ready = mr_event_ref(event);
    }
    mr_event_unref(&event);
    return status;
}

/* Puts a copy in the memory of the call's device in the place of an input. */
static int bring_in(mr_io *io, size_t index, mr_device *device, size_t bytes) {
    mr_slot *slot = io->slot;
    mr_frame *frame = slot->frames[index], *copy = NULL;
    mr_stream *stream = stream_for(io, frame), *own = io->stream;
    mr_buffer *buffer = NULL, *passage = NULL;
    int status = mr_io_staging(io, bytes, &buffer);
    if (!status)
        status = mr_io_passage(io, frame, device, bytes, &passage);
    if (!status)
        status = mr_slot_keep(slot, frame);
    stream->stage = own->stage;
    stream->frame = frame->identity;
    /* Also of what is done the stream takes over whether it failed. */
    if (!status && frame->ready)
        status = mr_stream_wait(stream, frame->ready);
    io->stream = stream;
    if (!status)
        status = mr_copy_frame(io, frame, device, buffer, passage, &copy);
    io->stream = own;
    if (!status)
        status = join(io, stream, copy);
    mr_buffer_unref(&passage);
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

/* What does not come through the call's stream has to be there before. */
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
    const mr_stage *self = &mr_slot_part(instance, io->slot)->self;
    mr_device *device = on_host(self) ? NULL : self->device;
    int status = MR_OK;
    for (size_t i = 0; i < io->slot->frame_count && !status; i++) {
        size_t bytes = mr_copy_bytes(io->slot->frames[i], device);
        status = bytes ? bring_in(io, i, device, bytes) : MR_OK;
    }
    return status ? status : await(io);
}

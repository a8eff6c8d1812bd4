#include "engine/flow/input.h"

#include "engine/flow/copy.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/io.h"
#include "engine/flow/run/control.h"

bool mr_input_claim(void *context, uint32_t source) {
    mr_entry_task *entry = context;
    mr_instance *instance = entry->instance;
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (!mr_credit_is_needed(&instance->credit))
        return true;
    const uint32_t coming = mr_credit_of(&instance->credit, source);
    const bool drops_all = mr_control_is_cancelled(instance->run) ||
                           atomic_load_explicit(&instance->failed, memory_order_relaxed);
    const bool fits = !hooks || !hooks->has_room ||
                      hooks->has_room(mr_parts_stage(&instance->parts, 0), source, coming);
    const bool has_room =
        drops_all || (fits && mr_outlets_have_room(&instance->outlets, source, coming, &entry->task));
    if (has_room)
        mr_credit_give(&instance->credit, source);
    else
        mr_inlets_hold_up(&instance->inlets);
    return has_room;
}

int mr_input_await(const mr_slot *slot, const mr_frame *frame, mr_entry_task *entry, size_t place) {
    if (mr_event_done(frame->ready))
        return mr_event_status(frame->ready) < 0 ? mr_event_status(frame->ready) : 1;
    /* The same device orders the work itself; the host must wait for the device. */
    if (mr_event_device(frame->ready) == mr_parts_stage(&entry->instance->parts, slot->device_number)->device)
        return 1;
    mr_event_notify(frame->ready, &entry->waits[place], mr_task_waker, &entry->task);
    return 0;
}

/* ---- copies to the call's device --------------------------------------------------------------------------------- */

/* Stages on several devices, or with a reserve, copy inputs to the call's device themselves, since the device is known
 * only when a call begins. The copies use separate streams, so that they run beside earlier calls' work. The call's own
 * stream, or the host, must then wait for them. */

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
    mr_frame *frame = slot->inputs[index].frame, *copy = NULL;
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
    mr_frame_unref(&slot->inputs[index].frame);
    slot->inputs[index].frame = copy;
    slot->staged = true;
    return MR_OK;
}

/* Whether the input leaves without its payload (mr_io_pass). */
static bool leaves_bare(const mr_io *io, size_t index) {
    return io->slot->inputs[index].passed && io->instance->vertex->outputs[0].shares < 0;
}

static int bring_all_in(mr_io *io) {
    const mr_stage *self = mr_parts_stage(&io->instance->parts, io->slot->device_number);
    mr_device *device = works_on_host(self) ? NULL : self->device;
    int status = MR_OK;
    for (size_t i = 0; i < io->slot->frame_count && !status; i++) {
        size_t bytes = leaves_bare(io, i) ? 0 : mr_copy_bytes(io->slot->inputs[i].frame, device);
        status = bytes ? bring_in(io, i, device, bytes) : MR_OK;
    }
    /* Inputs that do not come through the call's stream must be ready first. */
    for (size_t i = 0; i < io->slot->frame_count && !status; i++) {
        int ready = mr_input_ready(io->slot, io->slot->inputs[i].frame, io->entry, io->entry->wait_count - 1);
        status = ready > 0 ? MR_OK : ready < 0 ? ready : MR_ERROR_AGAIN;
    }
    return status;
}

/* ---- all inputs of a call ---------------------------------------------------------------------------------------- */

/* Makes a device call's work wait for the inputs. */
static int await_on_stream(mr_entry_task *entry, const mr_slot *slot) {
    const mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    mr_stream *stream = entry->streams[slot->device_number];
    const mr_event *last = NULL;
    int status = MR_OK;
    stream->frame = slot->frame_count ? slot->inputs[0].frame->identity : (mr_identity){.source = self->source};
    for (size_t i = 0; i < slot->frame_count && !status; i++) {
        mr_event *ready = slot->inputs[i].frame->ready;
        /* A batch's frames often share one event. */
        if (ready && ready != last && mr_event_device(ready) == self->device)
            status = mr_stream_wait(stream, ready);
        last = ready;
        /* Another call will soon record the event. */
        if (status == MR_ERROR_AGAIN)
            mr_event_notify(ready, &entry->waits[entry->wait_count - 1], mr_task_waker, &entry->task);
    }
    return status;
}

/* Informs devices that check for misuse that the host reads a call's inputs. */
static int check_reads(const mr_stage *self, const mr_slot *slot) {
    int status = MR_OK;
    for (size_t i = 0; i < slot->frame_count && !status; i++) {
        const mr_frame *frame = slot->inputs[i].frame;
        const mr_buffer *buffer = frame->plane[0].buffer;
        if (buffer && buffer->device)
            status = mr_device_host_reads(buffer->device, buffer->data, self, &frame->identity);
    }
    return status;
}

int mr_input_provide_there(mr_entry_task *entry, const mr_slot *slot) {
    const mr_instance *instance = entry->instance;
    const bool on_host = mr_parts_are_on_host(&instance->parts, slot->device_number);
    int status = on_host ? MR_OK : await_on_stream(entry, slot);
    if (!status && mr_instance_brings_in(instance))
        status = bring_all_in(&entry->io);
    if (!status && on_host && instance->run->reads_checked)
        status = check_reads(mr_parts_stage(&instance->parts, slot->device_number), slot);
    return status;
}

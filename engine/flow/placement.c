/* Stages on several devices: chooses the device of the next call, and brings its inputs there. */
#include "engine/flow/placement.h"

#include "engine/flow/copy.h"
#include "engine/flow/input.h"
#include "engine/flow/io.h"
#include "engine/flow/pools.h"
#include "millrace/log.h"

/* ---- shares: the device of the next frames, by the cost of the last ones there ----------------------------------- */

/* Calls in a row that go elsewhere before an idle device is tried: it may have become faster. */
enum { PATIENCE = 256 };
/* The share of the difference to the last call that the known cost takes on. */
static const double NEWS = 0.25;
/* Calls that keep a device busy: it works on one while the next is brought in. */
enum { KEEPS_BUSY = 2 };

static bool is_usable(const mr_instance_state *state) {
    return !atomic_load_explicit(&state->failed, memory_order_relaxed) &&
           !atomic_load_explicit(&state->disabled, memory_order_relaxed);
}

/* ---- work and speed of a device -------------------------------------------------------------------------------- */

static double cost_here(const mr_instance *instance, size_t number) {
    int64_t cost = atomic_load_explicit(&instance->placement.states[number].cost_ns, memory_order_relaxed);
    return (double)cost / instance->self.batch;
}

/* Nanoseconds for a frame, here and in the stages behind on the same device; 0: not known yet of all of them. */
static double cost_of(const mr_instance *instance, size_t number) {
    double cost = cost_here(instance, number);
    for (size_t i = 0; i < instance->placement.follower_count && cost > 0; i++) {
        double more = cost_here(instance->placement.followers[i], number);
        cost = more > 0 ? cost + more : 0;
    }
    return cost;
}

static uint64_t calls_of(const mr_instance_state *state) {
    return atomic_load_explicit(&state->given, memory_order_relaxed) -
           atomic_load_explicit(&state->done, memory_order_relaxed);
}

/* Frames that are yet to be done there. If stages behind work on the same device, buffers in use there count too:
 * outputs of this stage stay in use until those are done. */
static uint64_t backlog(mr_instance *instance, size_t number) {
    const mr_instance_state *state = &instance->placement.states[number];
    uint64_t frames = calls_of(state) * (uint64_t)instance->self.batch, lying = 0;
    if (instance->placement.follower_count && instance->vertex->pools[0].memory == MR_MEMORY_DEVICE)
        lying = mr_instance_in_use(instance, state);
    return frames > lying ? frames : lying;
}

static bool has_room(const mr_instance *instance, uint64_t frames) {
    uint64_t calls =
        ((uint64_t)instance->vertex->calls.in_flight + instance->placement.working - 1) / instance->placement.working;
    uint64_t here = calls * (uint64_t)instance->self.batch,
             behind = KEEPS_BUSY * (uint64_t)instance->vertex->devices.turn;
    return frames < (here > behind ? here : behind);
}

/* ---- whose turn it is ------------------------------------------------------------------------------------------ */

typedef struct bid {
    bool room;
    double finish; /* when it would be done with another call, in nanoseconds from now */
    uint64_t given;
} bid;

static bid bid_of(mr_instance *instance, size_t number, double fastest) {
    double cost = cost_of(instance, number);
    uint64_t frames = backlog(instance, number);
    return (bid){has_room(instance, frames),
                 (double)(frames + (uint64_t)instance->self.batch) * (cost > 0 ? cost : fastest),
                 atomic_load_explicit(&instance->placement.states[number].given, memory_order_relaxed)};
}

static bool beats(const bid *one, const bid *other) {
    if (one->room != other->room)
        return one->room;
    return one->finish < other->finish || (one->finish == other->finish && one->given < other->given);
}

/* Frames per nanosecond of all of them together, and the cost on the fastest. */
typedef struct field {
    double frames_a_ns, fastest;
} field;

static field survey(const mr_instance *instance) {
    field all = {.fastest = 1};
    for (size_t i = 0; i < instance->placement.working; i++) {
        double cost = is_usable(&instance->placement.states[i]) ? cost_of(instance, i) : 0;
        if (cost > 0 && (all.frames_a_ns == 0 || cost < all.fastest))
            all.fastest = cost;
        all.frames_a_ns += cost > 0 ? 1 / cost : 0;
    }
    return all;
}

/* It has been idle for so long that it is tried again. */
static bool is_due(const mr_instance *instance, size_t number) {
    return atomic_load_explicit(&instance->placement.states[number].passed, memory_order_relaxed) >= PATIENCE;
}

/* While it does one frame the others do more than may wait for it to restore the order. */
static bool is_too_slow(const mr_instance *instance, size_t number, const field *all) {
    double cost = cost_of(instance, number);
    return cost > 0 && !is_due(instance, number) &&
           cost * all->frames_a_ns - 1 > (double)(MR_PLAN_REORDERED * instance->placement.working) / KEEPS_BUSY;
}

/* The best of the usable devices; `working` if there is none. */
static size_t best_part(mr_instance *instance, bool any_speed) {
    const field all = survey(instance);
    size_t best = instance->placement.working;
    bid highest = {0};
    for (size_t i = 0; i < instance->placement.working; i++) {
        if (!is_usable(&instance->placement.states[i]) || (!any_speed && is_too_slow(instance, i, &all)))
            continue;
        const bid made = bid_of(instance, i, all.fastest);
        if (is_due(instance, i) && made.room)
            return i;
        if (best == instance->placement.working || beats(&made, &highest)) {
            best = i;
            highest = made;
        }
    }
    return best == instance->placement.working && !any_speed ? best_part(instance, true) : best;
}

static size_t instead_of(mr_instance *instance, size_t number) {
    size_t best = best_part(instance, false);
    if (best < instance->placement.working)
        return best;
    if (instance->placement.working < instance->placement.state_count &&
        !atomic_load_explicit(&instance->placement.states[instance->placement.working].disabled, memory_order_relaxed))
        return instance->placement.working;
    return number;
}

size_t mr_instance_device_now(mr_instance *instance, size_t number) {
    const mr_placement *placement = &instance->placement;
    bool fixed = placement->state_count == 1 || instance->vertex->copy || number >= placement->working;
    return fixed || is_usable(&instance->placement.states[number]) ? number : instead_of(instance, number);
}

static uint64_t turn_now(const mr_instance *instance) {
    return instance->placement.spread / (uint64_t)instance->vertex->devices.turn + 1;
}

size_t mr_instance_choose_device(mr_instance *instance, const mr_frame *frame) {
    const mr_device *device = mr_copy_device(frame);
    size_t reserve = instance->placement.working, number = reserve;
    for (size_t i = 0; i < instance->placement.working && number == reserve; i++)
        number = instance->placement.states[i].self.device == device ? i : reserve;
    /* A copy goes to the device that has the frame. */
    if (instance->vertex->copy)
        return number < reserve || reserve < instance->placement.state_count ? number : 0;
    if (number < reserve)
        return mr_instance_device_now(instance, number);
    /* A batch behind stays whole if all of its frames went to one device. */
    if (instance->placement.turn == turn_now(instance) &&
        is_usable(&instance->placement.states[instance->placement.turn_number]))
        return instance->placement.turn_number;
    return instead_of(instance, 0);
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

static void count_passed(mr_instance *instance, size_t chosen) {
    for (size_t i = 0; i < instance->placement.working; i++) {
        mr_instance_state *state = &instance->placement.states[i];
        unsigned passed = atomic_load_explicit(&state->passed, memory_order_relaxed);
        passed = i == chosen || calls_of(state) ? 0 : passed + 1;
        atomic_store_explicit(&state->passed, passed, memory_order_relaxed);
    }
}

static void count_in(mr_instance_state *state, uint64_t calls, uint64_t frames) {
    atomic_fetch_add_explicit(&state->given, calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&state->frames, frames, memory_order_relaxed);
}

void mr_share_begin(mr_instance *instance, mr_slot *slot, int64_t now_ns) {
    slot->counted = true;
    slot->begun_ns = now_ns;
    if (slot->device_number < instance->placement.working)
        instance->placement.turn_number = slot->device_number;
    instance->placement.turn = slot->device_number < instance->placement.working ? turn_now(instance) : 0;
    count_passed(instance, slot->device_number);
    count_in(mr_slot_instance_state(instance, slot), 1, slot->frame_count);
}

void mr_share_move(mr_instance *instance, mr_slot *slot, size_t number) {
    if (number != slot->device_number && slot->counted) {
        count_in(mr_slot_instance_state(instance, slot), (uint64_t)-1, (uint64_t)-(int64_t)slot->frame_count);
        count_in(&instance->placement.states[number], 1, slot->frame_count);
    }
    slot->device_number = number;
}

/* When the device last finished work of this kind: copies run beside other work. */
static int64_t last_done(mr_instance *instance, mr_instance_state *state, int64_t now_ns) {
    _Atomic int64_t *done = instance->vertex->copy ? &state->done_ns : &state->self.device->done_ns;
    return atomic_exchange_explicit(done, now_ns, memory_order_relaxed);
}

void mr_share_end(mr_instance *instance, mr_slot *slot, int64_t now_ns) {
    mr_instance_state *state = mr_slot_instance_state(instance, slot);
    slot->counted = false;
    atomic_fetch_add_explicit(&state->done, 1, memory_order_relaxed);
    /* A failed call does not show the cost. */
    if (slot->event && mr_event_status(slot->event) < 0)
        return;
    int64_t last = last_done(instance, state, now_ns), from = last > slot->begun_ns ? last : slot->begun_ns;
    int64_t spent = now_ns > from ? now_ns - from : 0;
    int64_t known = atomic_load_explicit(&state->cost_ns, memory_order_relaxed);
    int64_t cost = known ? known + (int64_t)(NEWS * (double)(spent - known)) : spent;
    atomic_store_explicit(&state->cost_ns, cost, memory_order_relaxed);
    atomic_fetch_add_explicit(&state->busy_ns, spent, memory_order_relaxed);
}

/* ---- enabling devices ------------------------------------------------------------------------------------------ */

/* An input that had failed already is no sign of this device's failure. */
static bool came_failed(const mr_slot *slot) {
    for (size_t i = 0; i < slot->frame_count; i++) {
        const mr_event *ready = slot->frames[i] ? slot->frames[i]->ready : NULL;
        if (ready && mr_event_done(ready) && mr_event_status(ready) < 0)
            return true;
    }
    return false;
}

/* No device takes over: reports it once, if the call itself did not. */
static void tell_failure(mr_instance *instance, const mr_instance_state *state) {
    if (!atomic_exchange(&instance->complained, true))
        mr_log(MR_LOG_ERROR, "%s: %s: %s has failed; its frames are dropped", instance->self.place,
               instance->self.id, state->self.device->name);
}

void mr_instance_device_failed(mr_instance *instance, const mr_slot *slot) {
    mr_instance_state *state = mr_slot_instance_state(instance, slot);
    if (came_failed(slot))
        return;
    if (instance->placement.state_count == 1 || instance->vertex->copy) {
        tell_failure(instance, state);
        return;
    }
    if (slot->device_number >= instance->placement.working || atomic_exchange(&state->failed, true))
        return;
    size_t other = instead_of(instance, slot->device_number);
    if (other == slot->device_number)
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed, and no other device is left", instance->self.place,
               instance->self.id, state->self.device->name);
    else if (other >= instance->placement.working || instance->placement.working == 1)
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed; from now on %s does the work", instance->self.place,
               instance->self.id, state->self.device->name, instance->placement.states[other].self.device->name);
    else
        mr_log(MR_LOG_WARNING, "%s: %s: %s has failed; the other devices take over its share", instance->self.place,
               instance->self.id, state->self.device->name);
}

bool mr_instance_can_spare(const mr_instance *instance, const mr_device *device) {
    bool needed = false, other = false;
    for (size_t i = 0; i < instance->placement.state_count; i++) {
        const mr_instance_state *state = &instance->placement.states[i];
        if (state->self.device != device)
            other = other || is_usable(state);
        else if (i < instance->placement.working)
            needed = needed || is_usable(state);
    }
    return instance->vertex->copy || !needed || other;
}

void mr_instance_enable(mr_instance *instance, const mr_device *device, bool enabled) {
    for (size_t i = 0; i < instance->placement.state_count && !instance->vertex->copy; i++) {
        mr_instance_state *state = &instance->placement.states[i];
        if (state->self.device != device)
            continue;
        if (enabled)
            atomic_store(&state->failed, false);
        atomic_store(&state->disabled, !enabled);
    }
}

/* ---- staging ----------------------------------------------------------------------------------------------------- */

/* Stages on several devices, or with one in reserve, bring their inputs in themselves, since the device is known only
 * when a call begins. Copies go through streams of their own, so that they run beside the work of earlier calls; the
 * call's own stream, or the host, is made to wait for them. */
static bool works_on_host(const mr_stage *self) {
    return self->device->type->kind == MR_DEVICE_CPU;
}

/* The stream that copies to the call's device; from a device to the host it is one of that device. */
static mr_stream *stream_for(const mr_io *io, const mr_frame *frame) {
    const mr_instance *instance = io->instance;
    const mr_stage *self = &mr_slot_instance_state(instance, io->slot)->self;
    size_t number = io->slot->device_number;
    for (size_t i = 0; works_on_host(self) && i < instance->placement.state_count; i++)
        if (instance->placement.states[i].self.device == mr_copy_device(frame))
            number = i;
    return io->entry->staging[number];
}

/* Ends the copies for one frame with an event, and makes the call's stream or the host wait for it. */
static int join(mr_io *io, mr_stream *stream, mr_frame *copy) {
    mr_slot *slot = io->slot;
    const mr_stage *self = &mr_slot_instance_state(io->instance, slot)->self;
    mr_event *event = NULL;
    int status = mr_event_create(&event, stream->device, self);
    /* The slot keeps one event: the last is behind the others. */
    if (!status && works_on_host(self) && slot->event)
        status = mr_stream_wait(stream, slot->event);
    if (!status)
        status = mr_stream_record(stream, event);
    if (!status && !works_on_host(self)) {
        status = mr_stream_wait(io->entry->streams[slot->device_number], event);
        /* An event that nothing waits for ends nothing. */
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

/* Replaces an input by a copy in the memory of the call's device. */
static int bring_in(mr_io *io, size_t index, mr_device *device, size_t bytes) {
    mr_slot *slot = io->slot;
    mr_frame *frame = slot->frames[index], *copy = NULL;
    mr_stream *stream = stream_for(io, frame), *own = io->stream;
    mr_buffer *buffer = NULL, *bounce = NULL;
    int status = mr_io_staging(io, bytes, &buffer);
    if (!status)
        status = mr_io_bounce(io, frame, device, bytes, &bounce);
    if (!status)
        status = mr_slot_keep(slot, frame);
    stream->stage = own->stage;
    stream->frame = frame->identity;
    /* Even if that is done: the stream takes over whether it failed. */
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

/* Inputs that do not come through the call's stream must be ready before. */
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
    const mr_stage *self = &mr_slot_instance_state(instance, io->slot)->self;
    mr_device *device = works_on_host(self) ? NULL : self->device;
    int status = MR_OK;
    for (size_t i = 0; i < io->slot->frame_count && !status; i++) {
        size_t bytes = mr_copy_bytes(io->slot->frames[i], device);
        status = bytes ? bring_in(io, i, device, bytes) : MR_OK;
    }
    return status ? status : await(io);
}

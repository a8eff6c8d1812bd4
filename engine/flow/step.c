#include "engine/flow/step.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/openings.h"
#include "engine/flow/run/source_counts.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/gather.h"
#include "engine/flow/join.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/outputs.h"
#include "engine/flow/failure.h"
#include "engine/flow/staging.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/settle.h"
#include "engine/flow/tracing.h"
#include "millrace/log.h"

/* A task that has used this much time must let others run, so that the next stage runs while data are in cache. */
static const int64_t QUANTUM_NS = 100000;
/* Faster stages take several frames from the queue at once. */
static const int64_t FAST_NS = 5000;

static void lock(mr_instance *instance) {
    if (instance->shared)
        pthread_mutex_lock(&instance->lock);
}

static void unlock(mr_instance *instance) {
    if (instance->shared)
        pthread_mutex_unlock(&instance->lock);
}

static bool is_source(const mr_instance *instance) {
    return mr_inlets_count(&instance->inlets) == 0;
}

/* ---- claiming -------------------------------------------------------------------------------------------------- */

static bool gather(mr_instance *instance, mr_slot *slot, mr_entry_task *entry) {
    if (is_source(instance))
        return !mr_closing_has_ended(&instance->closing);
    if (mr_inlets_join(&instance->inlets))
        return mr_instance_join(instance, slot, entry);
    return mr_instance_gather(instance, slot, entry);
}

/* Returns the next slot with inputs. NULL: something is missing, and its supplier will wake the instance. */
static mr_slot *claim(mr_instance *instance, mr_entry_task *entry) {
    const mr_executor *executor = entry->task.executor;
    mr_slot *slot = mr_outlets_are_stuck(&instance->outlets) ? NULL : mr_ring_next(&instance->ring);
    if (!slot || !gather(instance, slot, entry))
        return NULL;
    mr_ring_claim(&instance->ring);
    if (mr_shedder_sheds(&instance->shedder))
        slot->begun_ns = mr_executor_now_ns(executor);
    if (slot->frame_count == 0) {
        slot->device_number = mr_shares_now(&instance->shares, 0);
    } else {
        if (mr_shares_count_calls(&instance->shares))
            mr_shares_begin(&instance->shares, slot, mr_executor_now_ns(executor));
        mr_shares_spread(&instance->shares);
    }
    return slot;
}

/* ---- calling the stage type ------------------------------------------------------------------------------------ */

static void complain(mr_instance *instance, int status) {
    mr_log_repeating(status == MR_ERROR_CLOSED ? MR_LOG_DEBUG : MR_LOG_ERROR, instance->self.id, "%s: %s: %s",
                     instance->self.place, instance->self.id, *mr_message() ? mr_message() : mr_status_words(status));
}

int mr_io_refuse(mr_io *io, int status) {
    complain(io->instance, status);
    mr_control_fail(io->instance->run, status, mr_message());
    mr_control_stop(io->instance->run, true);
    return mr_fail(MR_ERROR_CANCELLED, "the run cannot go on here");
}

/* Handles a failed call: a source ends, a sink takes no more frames, any other stage drops these inputs. */
static void fail_call(mr_instance *instance, mr_slot *slot, int status) {
    const mr_stage_type *type = instance->self.type;
    if (status == MR_ERROR_CANCELLED && mr_control_is_cancelled(instance->run)) {
        mr_instance_settle_all(instance, slot, MR_NOTE_DROPPED, MR_REASON_STOPPED);
        return;
    }
    if (!type->inputs) {
        mr_source_fail(instance->run, instance->self.source, status, mr_message());
        mr_closing_end_source(&instance->closing);
        return;
    }
    complain(instance, status);
    if (!type->outputs || instance->vertex->handling.on_error == MR_ON_ERROR_FAIL) {
        atomic_store(&instance->failed, !type->outputs);
        mr_control_fail(instance->run, status, mr_message());
    }
    if (status == MR_ERROR_DEVICE)
        mr_instance_device_failed(instance, slot);
    mr_instance_settle_all(instance, slot, MR_NOTE_DROPPED, mr_failure_reason(instance, slot, status));
}

static int call_map(mr_stage *self, mr_io *io) {
    mr_frame *input = mr_io_input(io), *output = NULL;
    mr_format format = self->outputs[0];
    int status = self->type->shape ? self->type->shape(self, input, &format) : MR_OK;
    if (!status)
        status = mr_io_acquire(io, 0, &format, input, &output);
    if (!status)
        status = self->type->map(self, mr_io_stream(io), input, output);
    if (status) {
        mr_frame_unref(&output);
        return status;
    }
    return mr_io_emit(io, 0, output);
}

/* Turns a frame that the program pushed into a source frame. */
static int call_external(mr_instance *instance, mr_io *io) {
    mr_frame *frame = mr_io_input(io);
    frame->identity = (mr_identity){
        .source = instance->self.source,
        .epoch = mr_source_epoch(instance->run->counts, instance->self.source, instance->first_epoch),
        .seq = mr_ring_calls(&instance->ring) - 1};
    frame->born_ns = io->now_ns;
    mr_io_set_due(io, frame, io->now_ns);
    int status = mr_ledger_open(instance->run->ledger, &frame->identity, &frame->receipt);
    return status ? status : mr_io_forward(io, 0);
}

/* Informs devices that check for misuse that the host reads a call's inputs. */
static int check_inputs(const mr_stage *self, const mr_slot *slot) {
    int status = MR_OK;
    for (size_t i = 0; i < slot->frame_count && !status; i++) {
        const mr_frame *frame = slot->frames[i];
        const mr_buffer *buffer = frame->plane[0].buffer;
        if (buffer && buffer->device)
            status = mr_device_host_reads(buffer->device, buffer->data, self, &frame->identity);
    }
    return status;
}

/* Makes a device call's work wait for the inputs, and copies inputs there that are elsewhere. */
static int await_inputs(mr_entry_task *entry, const mr_slot *slot) {
    const mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    mr_stream *stream = entry->streams[slot->device_number];
    const mr_event *last = NULL;
    int status = MR_OK;
    stream->frame = slot->frame_count ? slot->frames[0]->identity : (mr_identity){.source = self->source};
    for (size_t i = 0; i < slot->frame_count && !status; i++) {
        mr_event *ready = slot->frames[i]->ready;
        /* A batch's frames often share one event. */
        if (ready && ready != last && mr_event_device(ready) == self->device)
            status = mr_stream_wait(stream, ready);
        last = ready;
        /* Another call will soon record the event. */
        if (status == MR_ERROR_AGAIN)
            mr_event_notify(ready, &entry->waits[entry->wait_count - 1], mr_task_waker, &entry->task);
    }
    return status || !mr_instance_brings_in(entry->instance) ? status : mr_io_bring_in(&entry->io);
}

static int call_type(mr_entry_task *entry, mr_stage *self) {
    if (self->type->external)
        return call_external(entry->instance, &entry->io);
    return self->type->map ? call_map(self, &entry->io) : self->type->process(self, &entry->io);
}

static int call_in_range(mr_entry_task *entry, mr_stage *self) {
    const mr_device_type *device = self->device->type;
    if (device->range_begin)
        device->range_begin(self->id);
    int answer = call_type(entry, self);
    if (device->range_begin)
        device->range_end();
    return answer;
}

/* Makes the inputs available on the call's device. */
static int have_inputs(mr_entry_task *entry, const mr_slot *slot) {
    const mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    if (!mr_parts_are_on_host(&entry->instance->parts, slot->device_number))
        return await_inputs(entry, slot);
    int status = mr_instance_brings_in(entry->instance) ? mr_io_bring_in(&entry->io) : MR_OK;
    return status || !entry->instance->run->reads_checked ? status : check_inputs(self, slot);
}

static int call_process(mr_entry_task *entry, mr_slot *slot) {
    mr_instance *instance = entry->instance;
    size_t first = slot->output_count;
    /* The device may have failed since the inputs were gathered; work that has begun must stay there. */
    if (mr_parts_count(&instance->parts) > 1 && !first && !mr_holds_have_buffers(&slot->holds) && !slot->event) {
        mr_shares_move(&instance->shares, slot, mr_shares_now(&instance->shares, slot->device_number));
        entry->io.stream = entry->streams[slot->device_number];
    }
    mr_stage *self = mr_parts_stage(&instance->parts, slot->device_number);
    const bool on_host = mr_parts_are_on_host(&instance->parts, slot->device_number);
    int answer = have_inputs(entry, slot);
    const mr_holds_mark before = mr_holds_now(&slot->holds);
    if (!answer)
        answer = call_in_range(entry, self);
    if (answer == MR_ERROR_AGAIN)
        mr_holds_give_back(&slot->holds, before);
    return on_host && answer >= 0 ? answer : mr_instance_seal(entry, slot, first, answer);
}

/* Calls process; in a profiled run also measures the thread's processor time. */
static int measure_process(mr_entry_task *entry, mr_slot *slot) {
    if (!entry->instance->run->profiled || !mr_meter_measures(&entry->meter))
        return call_process(entry, slot);
    int64_t before = mr_thread_cpu_ns();
    int answer = call_process(entry, slot);
    mr_meter_add_cpu(&entry->meter, mr_thread_cpu_ns() - before);
    return answer;
}

/* Counts a finished call: frames, time and each frame's latency since it entered the queue. */
static void count_call(mr_entry_task *entry, const mr_slot *slot, int64_t now_ns) {
    mr_meter_count_in(&entry->meter, slot->frame_count, slot->entered_ns, now_ns);
    if (mr_shedder_sheds(&entry->instance->shedder))
        mr_shedder_note_call(&entry->instance->shedder, now_ns - slot->begun_ns);
}

/* Whether frames can end here, so that each must be timed. */
static bool ends_frames(const mr_instance *instance) {
    return !instance->vertex->output_count || mr_outlets_end_frames(&instance->outlets);
}

/* Whether each call must be timed alone: its time is needed, or it may wait. */
static bool is_timed_alone(const mr_entry_task *entry) {
    const mr_instance *instance = entry->instance;
    return entry->traced || mr_shedder_sheds(&instance->shedder) || instance->vertex->calls.blocking ||
           is_source(instance) || ends_frames(instance);
}

static void read_clock(mr_entry_task *entry, unsigned calls) {
    int64_t now = mr_executor_now_ns(entry->task.executor);
    int64_t each = mr_meter_time(&entry->meter, calls, now - entry->io.now_ns, now, is_timed_alone(entry));
    if (!entry->instance->shared)
        mr_inlets_set_burst(&entry->instance->inlets, each < FAST_NS ? MR_BURST : 1);
    entry->io.now_ns = now;
}

/* Counts a call and reads the clock if needed. */
static void clock_call(mr_entry_task *entry, const mr_slot *slot) {
    const unsigned calls = mr_meter_count_call(&entry->meter, slot->frame_count);
    if (calls)
        read_clock(entry, calls);
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

static int call_flush(mr_entry_task *entry, mr_slot *slot, uint32_t source) {
    mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    size_t first = slot->output_count;
    if (entry->traced)
        mr_tracing_begin_call(entry, NULL);
    int answer = mr_instance_seal(entry, slot, first, self->type->flush(self, &entry->io, source));
    clock_call(entry, slot);
    if (entry->traced)
        mr_tracing_end_call(entry, NULL, answer);
    return answer;
}

/* Passes the slot's marks on, and flushes frames that the stage still holds for ended sources. MR_MORE: call flush
 * again when its outputs are gone. MR_ERROR_AGAIN: when there is a buffer. MR_WAIT: at the time it has set. */
static int finish_marks(mr_entry_task *entry, mr_slot *slot) {
    mr_instance *instance = entry->instance;
    for (; slot->mark_next < slot->mark_count; slot->mark_next++) {
        mr_item *mark = &slot->marks[slot->mark_next];
        if (mark->kind == MR_ITEM_END && instance->self.type->flush && !atomic_load(&instance->failed)) {
            int answer = call_flush(entry, slot, mark->source);
            if (answer == MR_MORE || answer == MR_WAIT || answer == MR_ERROR_AGAIN)
                return answer;
            if (answer < 0)
                fail_call(instance, slot, answer);
        }
        const mr_stage_hooks *hooks = instance->self.type->hooks;
        int answer = hooks && hooks->mark ? hooks->mark(mr_parts_stage(&instance->parts, 0), mark) : MR_DONE;
        if (answer == MR_ERROR_AGAIN)
            return answer;
        mr_slot_add_mark_outputs(slot, instance->vertex->output_count, mark, instance->self.id);
    }
    return MR_DONE;
}

static int end_source(mr_instance *instance, mr_slot *slot, bool cut_short) {
    mr_item end = {.kind = MR_ITEM_END,
                   .source = instance->self.source,
                   .cut_short = cut_short,
                   .leaves = mr_plan_changes(instance->run->plan) && !mr_control_is_stopping(instance->run)};
    mr_closing_end_source(&instance->closing);
    int status = mr_slot_add_mark(slot, &end);
    return status ? status : MR_DONE;
}

static bool is_stopped(const mr_instance *instance) {
    return mr_control_is_stopping(instance->run) || mr_instance_leaves(instance);
}

/* ---- one step -------------------------------------------------------------------------------------------------- */

static int call_source(mr_entry_task *entry, mr_slot *slot) {
    mr_instance *instance = entry->instance;
    const bool over = mr_resume_over(instance->run->resume, instance->self.source);
    if (over || is_stopped(instance))
        return end_source(instance, slot, !over);
    if (atomic_load_explicit(&instance->failed, memory_order_relaxed))
        return end_source(instance, slot, false);
    int answer = measure_process(entry, slot);
    if (answer == MR_WAIT || answer == MR_ERROR_AGAIN)
        return answer;
    if (answer < 0) {
        fail_call(instance, slot, answer);
        return end_source(instance, slot, false);
    }
    if (answer != MR_END)
        return MR_DONE;
    const bool cut_short = is_stopped(instance);
    if (!cut_short)
        mr_resume_exhausted(instance->run->resume, instance->self.source);
    return end_source(instance, slot, cut_short);
}

/* Runs the slot as far as it can. MR_DONE: finished. MR_MORE: must be called again. MR_WAIT, MR_ERROR_AGAIN: must be
 * called again when the entry is woken. */
static int step(mr_entry_task *entry, mr_slot *slot) {
    mr_instance *instance = entry->instance;
    int answer = MR_DONE;
    entry->io.slot = slot;
    entry->io.stream = entry->streams[slot->device_number];
    if (entry->traced)
        mr_tracing_begin_call(entry, slot);
    if (is_source(instance)) {
        answer = slot->processed ? MR_DONE : call_source(entry, slot);
        clock_call(entry, slot);
        if (entry->traced)
            mr_tracing_end_call(entry, slot, answer);
    } else if (!slot->processed && slot->frame_count) {
        answer = measure_process(entry, slot);
        clock_call(entry, slot);
        if (entry->traced)
            mr_tracing_end_call(entry, slot, answer);
        if (answer < 0 && answer != MR_ERROR_AGAIN)
            fail_call(instance, slot, answer);
        if (answer == MR_DONE && !instance->self.type->outputs)
            mr_instance_deliver_all(instance, slot, entry->io.now_ns);
        if (answer == MR_DONE || (answer < 0 && answer != MR_ERROR_AGAIN))
            count_call(entry, slot, entry->io.now_ns);
    }
    if (answer == MR_MORE || answer == MR_WAIT || answer == MR_ERROR_AGAIN)
        return answer;
    slot->processed = true;
    return finish_marks(entry, slot);
}

/* Claims the entry's next call. False: it cannot continue now. */
static bool begin(mr_instance *instance, mr_entry_task *entry) {
    bool blocked = false;
    lock(instance);
    if (!mr_ring_is_empty(&instance->ring))
        mr_instance_retire(instance, entry);
    if (!entry->slot)
        entry->slot = claim(instance, entry);
    /* An unfinished call must push all outputs before it may add more. */
    blocked = mr_outlets_are_stuck(&instance->outlets) && !instance->shared;
    unlock(instance);
    return entry->slot && !blocked;
}

/* A call is done, so the oldest running one may be waiting for its turn. With the lock, before finished calls are
 * pushed. */
static void pass_turn(mr_instance *instance) {
    mr_slot *next = mr_ring_running(&instance->ring);
    if (next && next->awaits_turn) {
        mr_task_wake(&next->awaits_turn->task);
        next->awaits_turn = NULL;
    }
}

static void end(mr_instance *instance, mr_entry_task *entry, int answer) {
    lock(instance);
    if (answer == MR_DONE) {
        entry->slot->state = MR_SLOT_DONE;
        entry->slot = NULL;
        if (instance->vertex->calls.overlap)
            pass_turn(instance);
    }
    atomic_store_explicit(&entry->unfinished, entry->slot != NULL, memory_order_relaxed);
    mr_instance_retire(instance, entry);
    unlock(instance);
}

/* Opens an instance on its own thread. False if it cannot open. */
static bool open_itself(mr_instance *instance) {
    if (!mr_opening_try(&instance->opening))
        return false;
    int status = mr_instance_open(instance);
    if (!status)
        mr_instance_set_ready(instance);
    else
        mr_openings_fail(instance->run->openings, status, "%s: %s: %s", instance->self.place, instance->self.id,
                         mr_message());
    mr_openings_end(instance->run->openings);
    return !status;
}

/* A source that will not be read need not be opened. */
static bool is_needless(const mr_instance *instance) {
    return instance->vertex->role == MR_ROLE_SOURCE && (is_stopped(instance) ||
                                           mr_resume_over(instance->run->resume, instance->self.source));
}

static void fail_late(const mr_instance *instance, int status) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s: %s", instance->self.place, instance->self.id, mr_message());
    if (instance->vertex->role == MR_ROLE_SOURCE)
        mr_source_fail(instance->run, instance->self.source, status, mr_message());
    else
        mr_control_fail(instance->run, status, text);
}

/* Opens an instance that waited for its turn. If it cannot open, it drops its inputs. An interrupted source that cannot
 * open is not a failure. */
static void open_late(mr_instance *instance) {
    int status = is_needless(instance) ? MR_ERROR_CANCELLED : mr_instance_open(instance);
    if (status && is_needless(instance))
        status = MR_ERROR_CANCELLED;
    if (status) {
        atomic_store(&instance->failed, true);
        if (status != MR_ERROR_CANCELLED)
            fail_late(instance, status);
    }
    mr_instance_set_ready(instance);
}

/* False: it must not run yet. */
static bool get_ready(mr_instance *instance) {
    if (!mr_opening_waits(&instance->opening))
        return open_itself(instance);
    if (!mr_opening_has_begun(&instance->opening))
        return false;
    open_late(instance);
    return true;
}

void mr_instance_run(void *context) {
    mr_entry_task *entry = context;
    mr_instance *instance = entry->instance;
    if (!mr_opening_is_ready(&instance->opening) && !get_ready(instance))
        return;
    int64_t begun = mr_executor_now_ns(entry->task.executor);
    entry->io.now_ns = begun;
    bool again = true;
    while (again && begin(instance, entry)) {
        int answer = step(entry, entry->slot);
        if (answer == MR_WAIT)
            mr_task_wake_at(&entry->task, entry->io.wake_ns);
        end(instance, entry, answer);
        again = answer != MR_WAIT && answer != MR_ERROR_AGAIN;
        if (again && entry->io.now_ns - begun > QUANTUM_NS) {
            mr_task_wake(&entry->task);
            again = false;
        }
    }
    if (mr_meter_unclocked(&entry->meter))
        read_clock(entry, mr_meter_unclocked(&entry->meter));
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    if (hooks && hooks->idle)
        hooks->idle(mr_parts_stage(&instance->parts, 0));
}

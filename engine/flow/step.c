#include "engine/flow/step.h"

#include "engine/base/thread.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/intact.h"
#include "engine/flow/run/source_counts.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/gather.h"
#include "engine/flow/input.h"
#include "engine/flow/join.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/outputs.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/settle.h"
#include "engine/flow/tracing.h"

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
    mr_ring_claim(&instance->ring, slot);
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

/* ---- one call ---------------------------------------------------------------------------------------------------- */

/* Whether the stage must be called again for the same slot: at once, at its time, or when there is a buffer. */
static bool must_repeat(int answer) {
    return answer == MR_MORE || answer == MR_WAIT || answer == MR_ERROR_AGAIN;
}

/* Whether a source must give no more frames. */
static bool must_end(const mr_instance *instance) {
    return mr_instance_is_stopped(instance) || atomic_load_explicit(&instance->failed, memory_order_relaxed) ||
           mr_resume_over(instance->run->resume, instance->self.source);
}

static int call_map(mr_stage *self, mr_io *io) {
    mr_frame *input = mr_io_input(io), *output = NULL;
    mr_format format = self->outputs[0];
    int status = self->type->shape ? self->type->shape(self, input, &format) : MR_OK;
    if (!status)
        status = mr_io_acquire(io, 0, &format, input, &output);
    if (!status)
        status = self->type->map(self, mr_io_stream(io), input, output);
    return mr_io_finish(io, 0, output, status);
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

static void begin_check(mr_intact *intact, const mr_slot *slot) {
    mr_intact_begin(intact);
    for (size_t i = 0; i < slot->frame_count; i++)
        if (slot->inputs[i].frame)
            mr_intact_add(intact, slot->inputs[i].frame);
}

/* Stops the run if the call has changed its inputs. */
static int end_check(mr_intact *intact, mr_io *io, int answer) {
    const mr_intact_change change = mr_intact_end(intact);
    return change ? mr_io_refuse_change(io, change) : answer;
}

static int call_process(mr_entry_task *entry, mr_slot *slot) {
    mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    mr_intact *intact = entry->instance->run->intact;
    int answer = mr_input_provide(entry, slot);
    const bool checks = intact && !answer && !is_source(entry->instance);
    mr_slot_begin_call(slot);
    if (checks)
        begin_check(intact, slot);
    if (!answer)
        answer = call_in_range(entry, self);
    if (checks)
        answer = end_check(intact, &entry->io, answer);
    return mr_instance_seal(entry, slot, answer);
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

/* Calls a source's type, which may hang in a driver or library. A cut's input is no source. */
static int call_source(mr_entry_task *entry, mr_slot *slot) {
    const mr_instance *instance = entry->instance;
    if (must_end(instance))
        return MR_END;
    if (instance->vertex->role != MR_ROLE_SOURCE)
        return measure_process(entry, slot);
    mr_source_begin_call(instance->run, instance->self.source, entry->io.now_ns);
    int answer = measure_process(entry, slot);
    mr_source_end_call(instance->run, instance->self.source);
    return answer;
}

/* Calls the stage type once for the slot, unless it needs no call. */
static int step(mr_entry_task *entry, mr_slot *slot) {
    const bool source = is_source(entry->instance);
    if (slot->processed || (!source && !slot->frame_count))
        return MR_DONE;
    if (entry->traced)
        mr_tracing_begin_call(entry, slot);
    if (entry->spans)
        mr_tracing_begin_span(entry, slot);
    int answer = source ? call_source(entry, slot) : measure_process(entry, slot);
    clock_call(entry, slot);
    if (entry->traced)
        mr_tracing_end_call(entry, slot, answer);
    if (entry->spans)
        mr_tracing_end_span(entry, slot, must_repeat(answer));
    return source && answer == MR_MORE ? MR_DONE : answer;
}

/* ---- the end of a call ------------------------------------------------------------------------------------------- */

static int call_flush(mr_entry_task *entry, mr_slot *slot, uint32_t source) {
    mr_stage *self = mr_parts_stage(&entry->instance->parts, slot->device_number);
    if (entry->traced)
        mr_tracing_begin_call(entry, NULL);
    mr_slot_begin_call(slot);
    int answer = mr_instance_seal(entry, slot, self->type->flush(self, &entry->io, source));
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
            if (must_repeat(answer))
                return answer;
            if (answer < 0)
                mr_settle_failure(instance, slot, answer);
        }
        const mr_stage_hooks *hooks = instance->self.type->hooks;
        int answer = hooks && hooks->mark ? hooks->mark(mr_parts_stage(&instance->parts, 0), mark) : MR_DONE;
        if (answer == MR_ERROR_AGAIN)
            return answer;
        mr_slot_add_mark_outputs(slot, instance->vertex->output_count, mark, instance->self.id);
    }
    return MR_DONE;
}

/* The source gives no more frames. It is cut short if it would have given more. */
static void end_source(mr_instance *instance, mr_slot *slot, int answer) {
    const bool over = mr_resume_over(instance->run->resume, instance->self.source);
    const bool cut_short = answer >= 0 && !over && mr_instance_is_stopped(instance);
    if (answer >= 0 && !cut_short && !atomic_load(&instance->failed))
        mr_resume_exhausted(instance->run->resume, instance->self.source);
    mr_closing_end_source(&instance->closing);
    mr_slot_add_mark(slot, &(mr_item){
        .kind = MR_ITEM_END,
        .source = instance->self.source,
        .cut_short = cut_short,
        .leaves = mr_plan_changes(instance->run->plan) && !mr_control_is_stopping(instance->run)});
}

/* Accounts for a call that returned `answer`, and passes the slot's marks on. MR_DONE: the slot is finished. MR_MORE:
 * it must be called again. MR_WAIT, MR_ERROR_AGAIN: it must be called again when the entry is woken. */
static int finish(mr_entry_task *entry, mr_slot *slot, int answer) {
    if (must_repeat(answer))
        return answer;
    if (!slot->processed) {
        slot->processed = true;
        mr_settle_call(entry, slot, answer, entry->io.now_ns);
        if (answer != MR_DONE && is_source(entry->instance))
            end_source(entry->instance, slot, answer);
    }
    return finish_marks(entry, slot);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* The device may have failed since the inputs were gathered; work that has begun must stay there. */
static void choose_device(mr_entry_task *entry, mr_slot *slot) {
    mr_shares *shares = &entry->instance->shares;
    if (mr_parts_count(&entry->instance->parts) > 1 && !slot->processed && !slot->output_count && !slot->event &&
        !mr_holds_have_buffers(&slot->holds))
        mr_shares_move(shares, slot, mr_shares_now(shares, slot->device_number));
    entry->io.slot = slot;
    entry->io.stream = entry->streams[slot->device_number];
}

/* Claims the entry's next call. False: it cannot continue now. */
static bool begin(mr_instance *instance, mr_entry_task *entry) {
    bool blocked = false;
    lock(instance);
    if (!mr_ring_is_empty(&instance->ring))
        mr_instance_retire(instance, entry);
    if (!entry->slot)
        entry->slot = claim(instance, entry);
    if (entry->slot)
        choose_device(entry, entry->slot);
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
    if (answer == MR_ERROR_AGAIN)
        mr_holds_give_back(&entry->slot->holds);
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

void mr_instance_run(void *context) {
    mr_entry_task *entry = context;
    mr_instance *instance = entry->instance;
    if (!mr_instance_get_ready(instance))
        return;
    int64_t begun = mr_executor_now_ns(entry->task.executor);
    entry->io.now_ns = begun;
    bool again = true;
    while (again && begin(instance, entry)) {
        int answer = finish(entry, entry->slot, step(entry, entry->slot));
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

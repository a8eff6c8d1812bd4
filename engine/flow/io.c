/* Engine services for a running stage type: mr_io_* and mr_stage_* in stage.h. Those about frames that stop here are in
 * settle.c. */
#include "engine/flow/io.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/log/repeats.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/references.h"
#include "engine/data/kinds.h"
#include "engine/flow/copy.h"
#include "engine/flow/lifecycle.h"
#include "engine/flow/pools.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/run/run_states.h"
#include "engine/flow/run/services.h"
#include "engine/flow/run/source_counts.h"
#include "engine/flow/run/sources.h"
#include "engine/flow/settle.h"
#include "millrace/log.h"
#include "millrace/objects.h"

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

mr_frame *mr_io_input(const mr_io *io) {
    return io->slot->frame_count ? io->slot->inputs[0].frame : NULL;
}

mr_frame *mr_io_input_at(const mr_io *io, size_t port, size_t index) {
    size_t at = mr_inlets_join(&io->instance->inlets) ? port : index;
    return at < io->slot->frame_count ? io->slot->inputs[at].frame : NULL;
}

size_t mr_io_count(const mr_io *io) {
    return mr_inlets_join(&io->instance->inlets) ? io->slot->frame_count > 0 : io->slot->frame_count;
}

int mr_io_entry(const mr_io *io) {
    return (int)(io->entry - io->instance->entries);
}

mr_stream *mr_io_stream(const mr_io *io) {
    return io->stream;
}

int64_t mr_io_now_ns(const mr_io *io) {
    return mr_executor_now_ns(io->entry->task.executor);
}

/* ---- buffers --------------------------------------------------------------------------------------------------- */

int mr_io_await_turn(mr_io *io) {
    mr_instance *instance = io->instance;
    if (!instance->shared)
        return MR_OK;
    pthread_mutex_lock(&instance->lock);
    const bool first = mr_ring_running(&instance->ring) == io->slot;
    io->slot->awaits_turn = first ? NULL : io->entry;
    pthread_mutex_unlock(&instance->lock);
    return first ? MR_OK : MR_ERROR_AGAIN;
}

int mr_io_refuse(mr_io *io, int status) {
    mr_settle_complain(io->instance, status);
    mr_control_fail(io->instance->run, status, mr_message());
    mr_control_stop(io->instance->run, true);
    return mr_fail(MR_ERROR_CANCELLED, "the run cannot go on here");
}

/* An error that only the stage's author can correct stops the run: every later frame would fail too. */
static int refuse(mr_io *io, const char *deed, const char *change) {
    const mr_stage *self = &io->instance->self;
    return mr_io_refuse(io, mr_fail(MR_ERROR_INTERNAL, "the stage type \"%s\" %s; its author must %s",
                                    self->type->name, deed, change));
}

static int refuse_output(mr_io *io, size_t port) {
    const mr_plan_vertex *vertex = io->instance->vertex;
    char deed[160];
    if (port >= vertex->output_count)
        return refuse(io, "takes a buffer for an output that it does not have", "name one of its outputs");
    snprintf(deed, sizeof deed, "takes a buffer for its output \"%.64s\", for which %s",
             vertex->type->outputs[port].name,
             vertex->outputs[port].shares < 0 ? "the plan has none" : "it plans to share those of its input");
    return refuse(io, deed, vertex->outputs[port].shares < 0
                                ? "set `buffer_bytes` of that output in negotiate"
                                : "leave `shares` of that output at -1 in negotiate, or set `buffer_bytes`");
}

int mr_io_refuse_answer(mr_io *io, int answer) {
    char deed[64];
    snprintf(deed, sizeof deed, "returned %d", answer);
    return refuse(io, deed, "return a value of mr_answer or a negative status");
}

int mr_io_refuse_change(mr_io *io, mr_intact_change change) {
    if (change == MR_INTACT_RESULTS)
        return refuse(io, "changes a result of its input, which other stages may read",
                      "make another: mr_io_share or mr_io_derive, and mr_result_copy");
    if (change == MR_INTACT_MEMBERS)
        return refuse(io, "changes its input, which other stages may read",
                      "change a frame that it makes with mr_io_share or mr_io_derive");
    return refuse(io, "changes the picture or data of its input, which other stages may read",
                  "call mr_promise_changes in negotiate, and mr_io_change before it writes");
}

static inline bool is_planned(const mr_io *io, size_t port) {
    const mr_plan_vertex *vertex = io->instance->vertex;
    return port < vertex->output_count && vertex->pools[port].count > 0;
}

/* Whether work that writes to memory may still run when the call has failed and the frame is released. */
static inline bool works_late(const mr_io *io) {
    return io->stream && io->stream->device->type->kind != MR_DEVICE_CPU;
}

/* Takes a buffer that the slot holds until the device work is done. */
static int take(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer) {
    mr_buffer *taken = NULL;
    int status = mr_io_take_buffer(io, which, bytes, &taken);
    if (status)
        return status;
    if (mr_hold_buffer(&io->slot->holds, taken)) {
        mr_buffer_unref(&taken);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a buffer of %s", io->instance->self.id);
    }
    *buffer = taken;
    return MR_OK;
}

int mr_io_buffer(mr_io *io, size_t port, size_t bytes, mr_buffer **buffer) {
    return is_planned(io, port) ? take(io, port, bytes, buffer) : refuse_output(io, port);
}

int mr_io_scratch(mr_io *io, size_t bytes, mr_buffer **buffer) {
    if (!io->instance->vertex->memory.scratch.bytes)
        return refuse(io, "takes working memory that the plan does not have", "set `scratch_bytes` in negotiate");
    return take(io, io->instance->vertex->output_count + MR_SCRATCH_POOL, bytes, buffer);
}

int mr_io_results(mr_io *io, size_t bytes, mr_buffer **buffer) {
    if (!io->instance->vertex->memory.results.bytes)
        return refuse(io, "takes memory for results that the plan does not have", "set `result_bytes` in negotiate");
    return take(io, io->instance->vertex->output_count + MR_RESULTS_POOL, bytes, buffer);
}

int mr_io_staging(mr_io *io, size_t bytes, mr_buffer **buffer) {
    return take(io, io->instance->vertex->output_count + MR_STAGING_POOL, bytes, buffer);
}

int mr_io_pinned(mr_io *io, size_t bytes, mr_buffer **buffer) {
    if (!io->instance->vertex->memory.pinned.bytes)
        return refuse(io, "takes pinned memory that the plan does not have", "set `pinned_bytes` in negotiate");
    return mr_io_take_buffer(io, io->instance->vertex->output_count + MR_PINNED_POOL, bytes, buffer);
}

/* Like take, from one of a copy's pools; NULL if no buffer is free. */
static int try(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer) {
    mr_buffer *taken = NULL;
    int status = mr_io_try_buffer(io, io->instance->vertex->output_count + which, bytes, &taken);
    if (status)
        return status == MR_ERROR_AGAIN ? MR_OK : status;
    if (mr_hold_buffer(&io->slot->holds, taken)) {
        mr_buffer_unref(&taken);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a buffer of %s", io->instance->self.id);
    }
    *buffer = taken;
    return MR_OK;
}

int mr_io_gather(mr_io *io, size_t bytes, mr_buffer **buffer, mr_buffer **block) {
    const mr_plan_vertex *vertex = io->instance->vertex;
    bool uploads = vertex->memory.block.count;
    *buffer = *block = NULL;
    if (!vertex->memory.batches.count || bytes > vertex->memory.batches.bytes)
        return MR_OK;
    int status = try(io, MR_BATCHES_POOL, bytes, buffer);
    if (!status && *buffer && uploads)
        status = try(io, MR_BLOCK_POOL, bytes, block);
    if (status || (uploads && !*block))
        mr_buffer_unref(buffer);
    return status;
}

int mr_io_bounce(mr_io *io, const mr_frame *frame, mr_device *device, size_t bytes, mr_buffer **buffer) {
    bool needed = device && io->instance->vertex->memory.pinned.count && mr_copy_is_external(frame, device);
    *buffer = NULL;
    return needed ? take(io, io->instance->vertex->output_count + MR_PINNED_POOL, bytes, buffer) : MR_OK;
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

int mr_io_derive(mr_io *io, const mr_frame *from, mr_frame **frame) {
    mr_frame *made = NULL;
    int status = mr_store_frame(io->instance->run->store, &made);
    if (status)
        return status;
    made->identity = from->identity;
    made->pts_ns = from->pts_ns;
    made->duration_ns = from->duration_ns;
    made->born_ns = from->born_ns;
    made->captured_ns = from->captured_ns;
    made->flags = from->flags & (MR_FRAME_CORRUPT | MR_FRAME_AWAY);
    made->geometry = from->geometry;
    made->deadline_ns = from->deadline_ns;
    made->format.payload = MR_PAYLOAD_RESULTS;
    if (from->names)
        made->names = mr_buffer_ref(from->names);
    if (from->media)
        made->media = mr_media_ref(from->media);
    if (from->results)
        made->results = mr_result_ref(from->results);
    if (from->receipt)
        made->receipt = mr_receipt_ref(from->receipt);
    *frame = made;
    return MR_OK;
}

int mr_io_acquire(mr_io *io, size_t port, const mr_format *format, const mr_frame *from, mr_frame **frame) {
    size_t bytes = mr_format_bytes(format);
    if (!bytes)
        return mr_fail(MR_ERROR_INTERNAL, "%s asks for a frame of unknown size", io->instance->self.id);
    if (!is_planned(io, port))
        return refuse_output(io, port);
    mr_buffer *buffer = NULL;
    mr_frame *made = NULL;
    int status = works_late(io) ? take(io, port, mr_aligned_bytes(bytes), &buffer)
                                : mr_io_take_buffer(io, port, mr_aligned_bytes(bytes), &buffer);
    if (!status)
        status = mr_io_derive(io, from, &made);
    if (status) {
        mr_buffer_unref(&buffer);
        return status;
    }
    mr_frame_place(made, format, buffer, 0, MR_ROW_ALIGNMENT);
    mr_buffer_unref(&buffer);
    *frame = made;
    return MR_OK;
}

int mr_io_originate(mr_io *io, const mr_identity *identity, mr_frame **frame) {
    mr_instance *instance = io->instance;
    mr_frame *made = NULL;
    int status = mr_store_frame(instance->run->store, &made);
    if (!status) {
        made->identity = *identity;
        made->identity.source = instance->self.source;
        made->identity.epoch = mr_source_epoch(instance->run->counts, instance->self.source, identity->epoch);
        status = mr_ledger_open(instance->run->ledger, &made->identity, &made->receipt);
    }
    if (status) {
        mr_frame_unref(&made);
        return status;
    }
    /* A source that waits inside the call, for example for a camera, has the frame long after the call began. */
    made->born_ns = instance->vertex->calls.blocking ? mr_io_now_ns(io) : io->now_ns;
    mr_io_set_due(io, made, made->born_ns);
    made->format.payload = MR_PAYLOAD_RESULTS;
    *frame = made;
    return MR_OK;
}

void mr_io_set_due(mr_io *io, mr_frame *frame, int64_t due_ns) {
    int64_t deadline_ns = io->instance->vertex->offer.deadline_ns;
    frame->deadline_ns = deadline_ns ? due_ns + deadline_ns : 0;
}

int mr_io_add_result(mr_io *io, mr_frame *frame, const mr_result_kind *kind, size_t capacity,
                     mr_result **result) {
    mr_result *made = NULL;
    int status = mr_store_result(io->instance->run->store, kind, capacity, &made);
    if (status)
        return status;
    if (works_late(io) && mr_hold_result(&io->slot->holds, made)) {
        mr_result_unref(&made);
        return MR_ERROR_MEMORY;
    }
    made->stage = io->instance->self.id;
    made->next = frame->results;
    frame->results = made;
    *result = made;
    return MR_OK;
}

int mr_io_add_like(mr_io *io, mr_frame *frame, const mr_result *from, mr_result **result) {
    const bool own = from->data == from->room;
    const size_t each = from->kind->fields ? from->kind->element_bytes : 1;
    int status = mr_io_add_result(io, frame, from->kind, own ? from->capacity / each : 0, result);
    if (status)
        return status;
    (*result)->stage = from->stage;
    (*result)->name = from->name;
    (*result)->format = from->format;
    (*result)->buffer = from->buffer ? mr_buffer_ref(from->buffer) : NULL;
    if (!own)
        (*result)->data = from->data;
    return MR_OK;
}

int mr_io_renew_objects(mr_io *io, mr_frame *frame, const mr_result *from, size_t extra, mr_result **to) {
    int status = mr_io_add_result(io, frame, mr_kind_objects(), from->count + extra, to);
    return status ? status : mr_result_copy(*to, from);
}

/* Whether a frame may leave with the input's buffers. */
static inline bool may_share(const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->output_count; i++)
        if (vertex->outputs[i].shares >= 0)
            return true;
    return vertex->role != MR_ROLE_STAGE;
}

static int refuse_sharing(mr_io *io) {
    return refuse(io, "passes on the buffers of its input, which the plan does not know",
                  "set `shares` of the output in negotiate");
}

int mr_io_share(mr_io *io, const mr_frame *from, mr_frame **frame) {
    mr_frame *made = NULL;
    if (from->plane[0].buffer && !may_share(io->instance->vertex))
        return refuse_sharing(io);
    int status = mr_io_derive(io, from, &made);
    if (status)
        return status;
    made->format = from->format;
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        made->plane[i] = from->plane[i];
        if (made->plane[i].buffer)
            mr_buffer_ref(made->plane[i].buffer);
    }
    *frame = made;
    return MR_OK;
}

/* Whether no one else can read or write the picture: a decoder may keep a reference, and memory from another process or
 * library must not be written. */
static bool is_sole(const mr_frame *frame) {
    bool sole = mr_references_alone(&frame->references);
    for (int i = 0; i < MR_MAX_PLANES && sole; i++) {
        const mr_buffer *buffer = frame->plane[i].buffer;
        int held = 0;
        for (int k = 0; k < MR_MAX_PLANES; k++)
            held += frame->plane[k].buffer == buffer;
        sole = !buffer || (buffer->pool && buffer->memory != MR_MEMORY_SHARED &&
                           mr_references_are(&buffer->references, held));
    }
    return sole;
}

/* The caller will write there. */
static void forget_contents(const mr_frame *frame) {
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (frame->plane[i].buffer)
            frame->plane[i].buffer->contents = 0;
}

static int copy_picture(mr_io *io, const mr_frame *from, mr_frame *to) {
    int status = MR_OK;
    if (!io->stream)
        mr_copy_rows(&from->format, to->plane, from->plane);
    for (mr_row row = {0}; io->stream && !status && mr_next_plane(&from->format, &row);)
        status = mr_stream_copy_rows(io->stream, to->plane[row.plane].data, to->plane[row.plane].stride,
                                     from->plane[row.plane].data, from->plane[row.plane].stride, row.bytes,
                                     (size_t)row.rows);
    return status;
}

int mr_io_change(mr_io *io, size_t port, const mr_frame *from, mr_frame **frame) {
    mr_frame *made = NULL;
    if (may_share(io->instance->vertex) && is_sole(from)) {
        forget_contents(from);
        return mr_io_share(io, from, frame);
    }
    int status = mr_io_acquire(io, port, &from->format, from, &made);
    if (!status)
        status = copy_picture(io, from, made);
    if (status)
        mr_frame_unref(&made);
    else
        *frame = made;
    return status;
}

int mr_io_add_tensor(mr_io *io, mr_frame *frame, const char *name, const mr_format *format, void **data) {
    mr_result *result = NULL;
    int status = mr_io_add_result(io, frame, mr_kind_tensor(), mr_tensor_bytes(format), &result);
    if (status)
        return status;
    result->name = name;
    result->format = *format;
    *data = result->data;
    return MR_OK;
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

static void note_original(mr_instance *instance, mr_frame *frame) {
    if (frame->format.payload == MR_PAYLOAD_PICTURE && !frame->geometry.width)
        frame->geometry = mr_geometry_of(&frame->format);
    if (frame->media && frame->media->frames)
        mr_source_expect_frames(instance->run->counts, frame->identity.source, frame->media->frames);
    if (instance->vertex->role == MR_ROLE_SOURCE && frame->flags & MR_FRAME_SEAM)
        mr_source_count_seam(instance->run->counts, frame->identity.source);
}

/* Must not read a frame that only passes through: it may have left the cache. */
static inline int emit(mr_io *io, size_t port, mr_frame *frame, uint32_t source, bool made) {
    mr_instance *instance = io->instance;
    mr_entry_task *entry = io->entry;
    if (!instance->self.type->inputs)
        note_original(instance, frame);
    mr_meter_count_out(&entry->meter);
    mr_slot_output *output = mr_slot_next_output(io->slot, instance->self.id);
    if (!output) {
        mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, instance->self.id, "out of memory");
        mr_frame_unref(&frame);
        return MR_ERROR_MEMORY;
    }
    output->port = (uint32_t)port;
    output->next = 0;
    output->made = made;
    output->dropped = false;
    output->item = (mr_item){.kind = MR_ITEM_FRAME, .source = source, .frame = frame};
    /* Work may still write to the frame when a full queue has dropped it. */
    if (made && works_late(io) && mr_hold_frame(&io->slot->holds, frame)) {
        mr_abandon_frame(&instance->abandoned, frame);
        return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* What only a fault in the stage type can cause; NULL: nothing. Results of this stage are the frame's first. */
static const char *find_misuse(const mr_io *io, size_t port, mr_frame *frame) {
    const mr_instance *instance = io->instance;
    if (!frame)
        return "emits NULL";
    if (port >= instance->vertex->output_count)
        return "emits on an output that it does not have";
    const bool late = works_late(io); /* the device's work may not have written the elements yet */
    for (mr_result *result = frame->results; result && result->stage == instance->self.id; result = result->next) {
        const bool over = result->kind->fields && result->data == result->room &&
                          result->count > result->capacity / result->kind->element_bytes;
        if (!over && (late || mr_result_items_fit(result)))
            continue;
        result->count = 0;
        return over ? "says that a result has more elements than it asked room for"
                    : "gives an element items that are not among those of its result";
    }
    return NULL;
}

/* If the picture's size differs from the geometry's, the geometry does not describe these pixels. */
int mr_io_emit(mr_io *io, size_t port, mr_frame *frame) {
    const char *misuse = find_misuse(io, port, frame);
    if (misuse) {
        mr_frame_unref(&frame);
        return refuse(io, misuse, "correct it");
    }
    const mr_geometry *known = &frame->geometry;
    if (frame->format.payload == MR_PAYLOAD_PICTURE &&
        (known->width != frame->format.width || known->height != frame->format.height))
        frame->geometry = (mr_geometry){0};
    return emit(io, port, frame, frame->identity.source, true);
}

int mr_io_finish(mr_io *io, size_t port, mr_frame *frame, int status) {
    if (!status)
        return mr_io_emit(io, port, frame);
    mr_frame_unref(&frame);
    return status;
}

mr_frame *mr_io_take(mr_io *io, size_t index) {
    mr_slot *slot = io->slot;
    mr_frame *frame = slot->inputs[index].frame;
    slot->inputs[index].settled = true;
    slot->inputs[index].frame = NULL;
    return frame;
}

int mr_io_forward(mr_io *io, size_t index) {
    const mr_slot_input *input = &io->slot->inputs[index];
    if (index >= io->slot->frame_count || !input->frame)
        return refuse(io, "forwards an input that it does not have", "forward each input of a call once");
    if (input->frame->plane[0].buffer && !may_share(io->instance->vertex))
        return refuse_sharing(io);
    bool made = io->slot->staged;
    uint32_t source = input->source;
    return emit(io, 0, mr_io_take(io, index), source, made);
}

bool mr_io_passes(const mr_io *io, size_t index) {
    return index < io->slot->frame_count && io->slot->inputs[index].passed;
}

int mr_io_pass(mr_io *io, size_t index) {
    const mr_frame *input = io->slot->inputs[index].frame;
    mr_frame *frame = NULL;
    if (!input->plane[0].buffer || (may_share(io->instance->vertex) && !io->instance->vertex->copy))
        return mr_io_forward(io, index);
    int status = mr_io_derive(io, input, &frame);
    return status ? status : mr_io_emit(io, 0, frame);
}

int mr_io_pass_unchanged(mr_io *io) {
    mr_frame *frame = NULL;
    if (may_share(io->instance->vertex))
        return mr_io_forward(io, 0);
    int status = mr_io_change(io, 0, mr_io_input(io), &frame);
    return status ? status : mr_io_emit(io, 0, frame);
}

int mr_io_set_object(mr_io *io, mr_frame *frame, uint32_t number) {
    mr_identity identity = frame->identity;
    mr_receipt *own = NULL;
    identity.sub = number;
    int status = frame->receipt ? mr_ledger_derive(frame->receipt, &identity, &own) : MR_OK;
    if (status)
        return status;
    frame->identity = identity;
    mr_receipt_unref(&frame->receipt);
    frame->receipt = own;
    if (frame->results)
        mr_result_unref(&frame->results);
    return MR_OK;
}

bool mr_io_lost_objects(const mr_io *io) {
    return io->slot->lost && io->instance->self.type->cascade == MR_CASCADE_GATHER;
}

bool mr_io_cut_short(const mr_io *io) {
    const mr_slot *slot = io->slot;
    return slot->mark_next < slot->mark_count && slot->marks[slot->mark_next].cut_short;
}

mr_release mr_io_must_release(const mr_io *io) {
    const mr_instance *instance = io->instance;
    if (io->slot->marks[io->slot->mark_next].leaves)
        return MR_RELEASE_SOURCE;
    /* Earlier calls' ends are counted only when they are pushed. */
    size_t left = mr_closing_ends_left(&instance->closing) - mr_ring_ends_before(&instance->ring, io->slot);
    return left == 1 ? MR_RELEASE_ALL : MR_RELEASE_NONE;
}

void mr_io_wake_at(mr_io *io, int64_t time_ns) {
    io->wake_ns = time_ns;
}

void mr_io_fail_source(mr_io *io, uint32_t source, int status) {
    mr_source_fail(io->instance->run, source, status, mr_message());
}

/* ---- the stage itself ------------------------------------------------------------------------------------------ */

static const mr_instance *instance_of(const mr_stage *self) {
    return self->flow;
}

static const mr_run *run_of(const mr_stage *self) {
    return instance_of(self)->run;
}

bool mr_stage_cancelled(const mr_stage *self) {
    if (mr_control_is_cancelled(run_of(self)))
        return true;
    return !self->type->inputs && mr_instance_is_stopped(instance_of(self));
}

bool mr_stage_gives_up(const mr_stage *self) {
    const mr_run *run = run_of(self);
    if (mr_stage_cancelled(self))
        return true;
    int64_t asked_ns = mr_control_stop_ns(run);
    /* Short enough that a run on several nodes, which are asked one after the other, can end in time. */
    if (!asked_ns || mr_now_ns() - asked_ns < run->plan->grace_ns / 10 * 3)
        return false;
    mr_stage_warn(self, "is still waiting after the run was asked to end: frames in flight are dropped");
    mr_control_stop(run, true);
    return true;
}

bool mr_stage_reliable(const mr_stage *self) {
    const mr_instance *instance = instance_of(self);
    return mr_plan_is_reliable(instance->run->plan, (int)(instance->vertex - instance->run->plan->vertices));
}

double mr_stage_shrink(const mr_stage *self, const mr_format *picture) {
    const mr_instance *instance = instance_of(self);
    const mr_plan *plan = instance->run->plan;
    return mr_plan_shrink(plan, (int)(instance->vertex - plan->vertices), picture);
}

void mr_stage_miss_frames(const mr_stage *self, uint64_t frames) {
    const mr_instance *instance = instance_of(self);
    mr_source_miss_frames(instance->run->counts, instance->self.source, frames);
}

bool mr_stage_checkpoints(const mr_stage *self) {
    return run_of(self)->resume != NULL;
}

bool mr_stage_continues(const mr_stage *self) {
    return mr_resume_continues(run_of(self)->resume);
}

mr_run_state mr_stage_run_state(const mr_stage *self) {
    const mr_instance *instance = instance_of(self);
    return mr_run_state_of(instance->run, (int)(instance->vertex - instance->run->plan->vertices));
}

bool mr_stage_settled(const mr_stage *self, const mr_identity *frame) {
    return mr_resume_settled(run_of(self)->resume, frame);
}

bool mr_stage_comes_again(const mr_stage *self, const mr_identity *frame) {
    const mr_plan *plan = run_of(self)->plan;
    return mr_stage_continues(self) && !mr_stage_settled(self, frame) &&
           mr_plan_is_here(plan, &plan->vertices[frame->source]);
}

uint32_t mr_stage_resume_epoch(const mr_stage *self, uint32_t source) {
    return mr_resume_epoch(run_of(self)->resume, source);
}

static uint32_t tenths_since_2026(void) {
    enum { UNTIL_2026_S = 1767225600, TENTH_NS = 100000000 };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t tenths = ((int64_t)now.tv_sec - UNTIL_2026_S) * 10 + now.tv_nsec / TENTH_NS;
    return tenths < 1 ? 1 : tenths > UINT32_MAX ? UINT32_MAX : (uint32_t)tenths;
}

uint32_t mr_stage_first_epoch(const mr_stage *self) {
    const char *given = getenv("MILLRACE_EPOCH");
    bool alone = !given && run_of(self)->plan->node_count > 0;
    return alone || mr_stage_continues(self) ? tenths_since_2026() : given ? (uint32_t)strtoul(given, NULL, 10) : 0;
}

uint32_t mr_stage_find_source(const mr_stage *self, const char *id) {
    const mr_plan *plan = run_of(self)->plan;
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (strcmp(plan->vertices[s].id, id) == 0)
            return s;
    return MR_SOURCE_NONE;
}

const char *mr_stage_source_id(const mr_stage *self, uint32_t source) {
    return run_of(self)->plan->vertices[source].id;
}

const char *mr_stage_source_at(const mr_stage *self, uint32_t source) {
    const mr_run *run = run_of(self);
    if (source >= run->plan->source_count)
        return NULL;
    mr_sources_lock(run->sources);
    const char *id = run->plan->vertices[source].id;
    mr_sources_unlock(run->sources);
    return id ? id : "";
}

bool mr_stage_has_source(const mr_stage *self, uint32_t source, const char *id) {
    return source < run_of(self)->plan->source_count && mr_source_is_there(run_of(self), source, id);
}

uint64_t mr_stage_reopenings(const mr_stage *self) {
    return mr_control_reopenings(run_of(self));
}

const char *mr_stage_pipeline(const mr_stage *self) {
    return run_of(self)->plan->name;
}

const char *mr_stage_run(const mr_stage *self) {
    const mr_run *run = run_of(self);
    const char *kept = mr_resume_run(run->resume);
    const bool alone = run->plan->node_count == 0 && mr_stage_run_state(self) != MR_RUN_GOES_ON;
    return kept ? kept : run->id.given || alone ? run->id.text : NULL;
}

static size_t vertex_of(const mr_instance *instance) {
    return (size_t)(instance->vertex - instance->run->plan->vertices);
}

void mr_stage_report_service(const mr_stage *self, const mr_service_report *report) {
    const mr_instance *instance = instance_of(self);
    if (mr_services_note(instance->run->services, vertex_of(instance), report))
        mr_control_note_change(instance->run);
}

void mr_stage_count_untaken(const mr_stage *self, int64_t change) {
    const mr_instance *instance = instance_of(self);
    mr_services_count_untaken(instance->run->services, vertex_of(instance), change);
}

void mr_stage_report(const mr_stage *self, const mr_source_report *report) {
    if (self->source != MR_SOURCE_NONE)
        mr_source_report_state(run_of(self), self->source, report);
}

static void __attribute__((format(printf, 3, 0))) say(mr_log_level level, const mr_stage *self, const char *format,
                                                      va_list arguments) {
    char text[1280];
    if (level > mr_log_get_level())
        return;
    size_t length = mr_print_into(text, sizeof text, "%s: ", self->id);
    if (length < sizeof text)
        mr_vprint_into(text + length, sizeof text - length, format, arguments);
    mr_log_of_kind(level, mr_log_kind(self->id, self->source_id ? self->source_id : "", format), text);
}

void mr_stage_warn(const mr_stage *self, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(MR_LOG_WARNING, self, format, arguments);
    va_end(arguments);
}

void mr_stage_info(const mr_stage *self, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(MR_LOG_INFO, self, format, arguments);
    va_end(arguments);
}

void mr_stage_deliver(const mr_stage *self, const mr_frame *frame) {
    const mr_instance *instance = instance_of(self);
    mr_deliveries_show(instance->run, instance->vertex, frame);
}

#include "tests/support/flow_stages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "tests/support/worker_counts.h"

collected collection[COLLECT_ROOM];
size_t collection_count, largest_batch, smallest_batch, batch_count, block_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int overtaken; /* frames for which `laggard` has an output */

void flow_stages_reset(void) {
    collection_count = largest_batch = batch_count = block_count = 0;
    smallest_batch = SIZE_MAX;
    atomic_store(&overtaken, 0);
}

typedef struct options {
    int64_t frames, fail_at, every, period_ns, gop, loop;
} options;

static const mr_option option_table[] = {
    {.name = "frames", .kind = MR_OPTION_INT, .offset = offsetof(options, frames), .fallback = "10", .help = "Frames."},
    {.name = "fail_at", .kind = MR_OPTION_INT, .offset = offsetof(options, fail_at), .fallback = "-1", .help = "Seq."},
    {.name = "every", .kind = MR_OPTION_INT, .offset = offsetof(options, every), .fallback = "2", .help = "One of."},
    {.name = "period", .kind = MR_OPTION_DURATION, .offset = offsetof(options, period_ns), .fallback = "0ms",
     .help = "Time a frame."},
    {.name = "loop", .kind = MR_OPTION_INT, .offset = offsetof(options, loop), .fallback = "1", .help = "Epochs."},
    {.name = "gop", .kind = MR_OPTION_INT, .offset = offsetof(options, gop), .fallback = "0", .help = "Packets."},
    MR_OPTIONS_END,
};

static const mr_format_set results_only = {.payload = MR_PAYLOAD_RESULTS};
static const mr_port one_input[] = {{.name = "in", .help = "frames"}, {0}};
static const mr_port many_inputs[] = {{.name = "in", .help = "frames", .many = true}, {0}};
static const mr_port one_output[] = {{.name = "out", .help = "frames"}, {0}};

/* ---- count: a source ---- */
typedef struct count_state {
    uint64_t next;
    uint32_t epoch;
    int64_t due_ns;
} count_state;

static int count_negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->outputs[0].set = results_only;
    if (given->gop)
        negotiation->outputs[0].set.payload = MR_PAYLOAD_PACKET;
    negotiation->paced = given->period_ns > 0;
    negotiation->rate = negotiation->paced ? 1e9 / (double)given->period_ns : 0;
    negotiation->frames = given->frames < 0 ? given->frames : given->frames * given->loop;
    return MR_OK;
}

static uint32_t packet_flags(int64_t gop, uint64_t seq) {
    int64_t at = (int64_t)seq % gop;
    return at == 0 ? MR_FRAME_KEY : at % 2 ? MR_FRAME_DISPOSABLE : 0;
}

static int count_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    count_state *state = self->state;
    if ((int64_t)state->next == given->frames && state->next && state->epoch + 1 < given->loop) {
        state->next = 0;
        state->epoch++;
    }
    if ((int64_t)state->next == given->frames)
        return MR_END;
    if ((int64_t)state->next == given->fail_at)
        return mr_fail(MR_ERROR_DATA, "frame %d cannot be read", (int)state->next);
    if (state->next == 0 && state->epoch == 0)
        state->due_ns = mr_io_now_ns(io);
    if (mr_io_now_ns(io) < state->due_ns) {
        mr_io_wake_at(io, state->due_ns);
        return MR_WAIT;
    }
    mr_frame *frame;
    int status = mr_io_originate(io, &(mr_identity){.epoch = state->epoch, .seq = state->next}, &frame);
    if (status)
        return status;
    mr_io_set_due(io, frame, state->due_ns);
    if (given->gop) {
        frame->format.payload = MR_PAYLOAD_PACKET;
        frame->flags = packet_flags(given->gop, state->next);
    }
    state->due_ns += given->period_ns;
    state->next++;
    return mr_io_emit(io, 0, frame);
}

/* ---- filters ---- */
static int pass_process(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

static int gate_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    mr_frame *frame = mr_io_input(io);
    if ((int64_t)frame->identity.seq % given->every == 0)
        return mr_io_forward(io, 0);
    mr_io_absorb(io, frame, "gate");
    return MR_DONE;
}

static int twice_process(mr_stage *self, mr_io *io) {
    for (uint32_t sub = 0; sub < 2; sub++) {
        mr_frame *frame;
        int status = mr_io_derive(io, mr_io_input(io), &frame);
        if (status)
            return status;
        frame->identity.sub = sub;
        mr_io_emit(io, 0, frame);
    }
    return MR_DONE;
}

static int scale_negotiate(mr_negotiation *negotiation) {
    const mr_format number = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1});
    negotiation->outputs[0].set = mr_format_set_of(&number);
    return MR_OK;
}

/* Work must only touch memory on the same device, and the host only host memory. */
static int check_reach(const mr_stage *self, const mr_buffer *buffer) {
    bool host = self->device->type->kind == MR_DEVICE_CPU;
    if (!buffer || (host ? buffer->memory != MR_MEMORY_DEVICE
                         : buffer->memory == MR_MEMORY_DEVICE && buffer->device == self->device))
        return MR_OK;
    return mr_fail(MR_ERROR_INTERNAL, "%s: its memory is of another device", self->id);
}

typedef struct scale_work {
    int64_t *to;
    const int64_t *from;
    int64_t seq;
} scale_work;

/* Adds one to the previous stage's value; the first stage writes the frame number. */
static int scale_work_run(void *arguments) {
    scale_work *work = arguments;
    *work->to = work->from ? *work->from + 1 : work->seq;
    return MR_OK;
}

static int scale_map(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output) {
    if (check_reach(self, input->plane[0].buffer) || check_reach(self, output->plane[0].buffer))
        return MR_ERROR_INTERNAL;
    scale_work work = {.to = (int64_t *)(void *)output->plane[0].data,
                       .from = (const int64_t *)(const void *)input->plane[0].data,
                       .seq = (int64_t)input->identity.seq};
    return mr_stream_submit(stream, scale_work_run, &work, sizeof work);
}

/* ---- block: as scale, for a batch, whose outputs share a buffer; note: as infer, the payload continues and a tensor
 * with a thousand more is added ---- */
static int block_negotiate(mr_negotiation *negotiation) {
    scale_negotiate(negotiation);
    negotiation->outputs[0].buffer_bytes = (size_t)negotiation->batch * sizeof(int64_t);
    negotiation->scratch_bytes = 100;
    return MR_OK;
}

static int block_emit(mr_stage *self, mr_io *io, size_t index, mr_buffer *buffer, size_t at) {
    const mr_frame *input = mr_io_input_at(io, 0, index);
    mr_frame *frame;
    int status = mr_io_derive(io, input, &frame);
    if (status)
        return status;
    scale_work work = {.to = (int64_t *)(void *)buffer->data + at,
                       .from = (const int64_t *)(const void *)input->plane[0].data,
                       .seq = (int64_t)input->identity.seq};
    frame->format = self->outputs[0];
    frame->plane[0] =
        (mr_plane){.buffer = mr_buffer_ref(buffer), .data = (uint8_t *)work.to, .bytes = sizeof(int64_t)};
    status = check_reach(self, input->plane[0].buffer);
    if (!status)
        status = mr_stream_submit(mr_io_stream(io), scale_work_run, &work, sizeof work);
    return mr_io_finish(io, 0, frame, status);
}

static int block_process(mr_stage *self, mr_io *io) {
    mr_buffer *buffer = NULL, *scratch = NULL;
    size_t count = mr_io_count(io), made = 0;
    int status = mr_io_buffer(io, 0, (size_t)self->batch * sizeof(int64_t), &buffer);
    if (!status)
        status = mr_io_scratch(io, 100, &scratch);
    for (size_t i = 0; i < count && !status; i++)
        status = mr_io_passes(io, i) ? mr_io_pass(io, i) : block_emit(self, io, i, buffer, made++);
    pthread_mutex_lock(&lock);
    block_count += made;
    largest_batch = made > largest_batch ? made : largest_batch;
    pthread_mutex_unlock(&lock);
    mr_buffer_unref(&scratch);
    mr_buffer_unref(&buffer);
    return status;
}

static int note_negotiate(mr_negotiation *negotiation) {
    const mr_format number = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1});
    const mr_format_set set = mr_format_set_of(&number);
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    negotiation->outputs[0].buffer_bytes = sizeof(int64_t);
    return mr_promise_result(negotiation, 0, mr_kind_tensor(), "note", &set);
}

static int note_work_run(void *arguments) {
    scale_work *work = arguments;
    *work->to = (work->from ? *work->from : work->seq) + 1000;
    return MR_OK;
}

static int note_add(mr_stage *self, mr_io *io, mr_frame *frame, mr_buffer *buffer) {
    mr_result *result;
    int status = mr_io_add_result(io, frame, mr_kind_tensor(), 0, &result);
    if (status)
        return status;
    const mr_frame *input = mr_io_input(io);
    scale_work work = {.to = (int64_t *)(void *)buffer->data,
                       .from = (const int64_t *)(const void *)input->plane[0].data,
                       .seq = (int64_t)input->identity.seq};
    result->name = "note";
    result->format = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1});
    result->buffer = mr_buffer_ref(buffer);
    result->data = buffer->data;
    return check_reach(self, input->plane[0].buffer)
               ? MR_ERROR_INTERNAL
               : mr_stream_submit(mr_io_stream(io), note_work_run, &work, sizeof work);
}

static int note_process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    mr_buffer *buffer = NULL;
    mr_frame *frame = NULL;
    int status = mr_io_buffer(io, 0, sizeof(int64_t), &buffer);
    if (!status)
        status = mr_io_derive(io, input, &frame);
    if (!status) {
        frame->format = input->format;
        frame->plane[0] = input->plane[0];
        if (frame->plane[0].buffer)
            mr_buffer_ref(frame->plane[0].buffer);
        status = note_add(self, io, frame, buffer);
    }
    mr_buffer_unref(&buffer);
    return mr_io_finish(io, 0, frame, status);
}

static int batcher_process(mr_stage *self, mr_io *io) {
    size_t count = mr_io_count(io);
    pthread_mutex_lock(&lock);
    largest_batch = count > largest_batch ? count : largest_batch;
    smallest_batch = count < smallest_batch ? count : smallest_batch;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++)
        mr_io_forward(io, i);
    return MR_DONE;
}

static int sampler_negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    negotiation->every = given->period_ns ? (mr_every){.time_ns = given->period_ns} : (mr_every){given->every, 0};
    return MR_OK;
}

static int sampler_process(mr_stage *self, mr_io *io) {
    size_t count = 0;
    for (size_t i = 0; i < mr_io_count(io); i++)
        count += !mr_io_passes(io, i);
    pthread_mutex_lock(&lock);
    largest_batch = count > largest_batch ? count : largest_batch;
    smallest_batch = count && count < smallest_batch ? count : smallest_batch;
    batch_count += count > 0;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < mr_io_count(io); i++)
        mr_io_forward(io, i);
    return MR_DONE;
}

static int broken_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    if ((int64_t)mr_io_input(io)->identity.seq == given->fail_at)
        return mr_fail(MR_ERROR_DATA, "frame %d does not fit", (int)given->fail_at);
    return mr_io_forward(io, 0);
}

static int meet_process(mr_stage *self, mr_io *io) {
    const mr_frame *first = mr_io_input_at(io, 0, 0);
    for (size_t port = 1; port < self->input_count; port++)
        if (mr_identity_compare(&first->identity, &mr_io_input_at(io, port, 0)->identity))
            return mr_fail(MR_ERROR_INTERNAL, "frames of different identities were joined");
    mr_frame *frame;
    int status = mr_io_derive(io, first, &frame);
    return status ? status : mr_io_emit(io, 0, frame);
}

static int forgetful_process(mr_stage *self, mr_io *io) {
    return MR_DONE;
}

/* ---- slow: holds each frame until its time has passed, as a stage with delay does ---- */
typedef struct slow_state {
    int64_t until_ns;
} slow_state;

static int slow_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    slow_state *state = self->state;
    int64_t now = mr_io_now_ns(io);
    if (!state->until_ns)
        state->until_ns = now + given->period_ns;
    if (now < state->until_ns) {
        mr_io_wake_at(io, state->until_ns);
        return MR_WAIT;
    }
    state->until_ns = 0;
    return mr_io_forward(io, 0);
}

/* ---- laggard: the first frame gets its output only after others, which other workers are in, have got theirs --- */
static int laggard_process(mr_stage *self, mr_io *io) {
    mr_frame *input = mr_io_input(io), *output;
    if (input->identity.seq == 0)
        for (int i = 0; i < 100 && atomic_load(&overtaken) < 2; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    int status = mr_io_acquire(io, 0, &self->outputs[0], input, &output);
    if (status)
        return status;
    atomic_fetch_add(&overtaken, 1);
    return mr_io_emit(io, 0, output);
}

/* ---- recount: calls overlap, and number the frames that they let through in turn ---- */
typedef struct recount_state {
    atomic_int begun;          /* calls */
    int done;
    uint64_t next;
    bool begins[MOST_WORKERS]; /* by entry: the call has begun */
} recount_state;

static int recount_negotiate(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = results_only;
    negotiation->overlap = negotiation->workers;
    return MR_OK;
}

/* The first source's first call waits until others have begun. If each source's call did, they could hold all
 * workers. */
static void begin_recount(const mr_stage *self, recount_state *state, const mr_frame *frame) {
    const int beside = self->entries > 1 ? 2 : 1;
    const bool waits = frame->identity.source == 0 && frame->identity.seq == 0;
    atomic_fetch_add(&state->begun, 1);
    for (int i = 0; waits && i < 60000 && atomic_load(&state->begun) < beside; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (frame->identity.seq % 3 == 0)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

static int recount_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    recount_state *state = self->state;
    mr_frame *input = mr_io_input(io), *output;
    if (!state->begins[mr_io_entry(io)])
        begin_recount(self, state, input);
    state->begins[mr_io_entry(io)] = true;
    int status = mr_io_await_turn(io);
    if (status)
        return status;
    state->begins[mr_io_entry(io)] = false;
    state->done++;
    if ((int64_t)input->identity.seq == given->fail_at)
        return mr_fail(MR_ERROR_DATA, "frame %d is broken", (int)given->fail_at);
    if ((int64_t)input->identity.seq % given->every == 0) {
        mr_io_absorb(io, input, "gate");
        return MR_DONE;
    }
    status = mr_io_share(io, input, &output);
    if (status)
        return status;
    output->identity.seq = state->next++;
    return mr_io_emit(io, 0, output);
}

static int recount_flush(mr_stage *self, mr_io *io, uint32_t source) {
    recount_state *state = self->state;
    int status = mr_io_await_turn(io);
    if (!status && state->done != atomic_load(&state->begun))
        return mr_fail(MR_ERROR_INTERNAL, "a call goes on at the end");
    return status;
}

/* ---- collect: a sink ---- */
static int collect_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    const mr_frame *frame = mr_io_input(io);
    if ((int64_t)frame->identity.seq == given->fail_at)
        return mr_fail(MR_ERROR_IO, "no space left");
    const mr_result *note = frame->results ? mr_frame_result(frame, mr_kind_tensor(), NULL) : NULL;
    if (check_reach(self, frame->plane[0].buffer) || (note && check_reach(self, note->buffer)))
        return MR_ERROR_INTERNAL;
    pthread_mutex_lock(&lock);
    if (collection_count < COLLECT_ROOM) {
        collected *entry = &collection[collection_count++];
        *entry = (collected){.identity = frame->identity, .first = strcmp(self->id, "first") == 0,
                             .late_ns = frame->deadline_ns ? mr_io_now_ns(io) - frame->deadline_ns : 0,
                             .flags = frame->flags};
        if (frame->format.payload == MR_PAYLOAD_TENSOR)
            entry->value = *(const uint64_t *)(const void *)frame->plane[0].data;
        if (note)
            entry->noted = *(const uint64_t *)(const void *)note->data;
    }
    pthread_mutex_unlock(&lock);
    return MR_DONE;
}

static int list_negotiate(mr_negotiation *negotiation) {
    negotiation->shows = 0;
    return MR_OK;
}

#define TYPE(name_, ...)                                                                                               \
    static const mr_stage_type name_##_type = {.name = #name_, .summary = "for tests", .options = option_table,        \
                                               .options_bytes = sizeof(options), __VA_ARGS__}
#define FILTER(name_, ...) TYPE(name_, .inputs = one_input, .outputs = one_output, __VA_ARGS__)
TYPE(count, .outputs = one_output, .negotiate = count_negotiate, .state_bytes = sizeof(count_state),
     .process = count_process);
TYPE(meet, .inputs = many_inputs, .outputs = one_output, .entry = MR_ENTRY_SHARED, .process = meet_process);
TYPE(collect, .inputs = one_input, .entry = MR_ENTRY_SHARED, .process = collect_process);
TYPE(peek, .inputs = one_input, .entry = MR_ENTRY_SHARED, .negotiate = list_negotiate, .process = collect_process);
TYPE(list, .inputs = one_input, .entry = MR_ENTRY_SHARED, .blind = true, .negotiate = list_negotiate,
     .process = collect_process);
FILTER(pass, .process = pass_process);
FILTER(look, .blind = true, .process = pass_process);
FILTER(gate, .process = gate_process);
FILTER(twice, .process = twice_process);
FILTER(broken, .process = broken_process);
FILTER(forgetful, .process = forgetful_process);
FILTER(scale, .negotiate = scale_negotiate, .map = scale_map);
FILTER(laggard, .negotiate = scale_negotiate, .process = laggard_process);
FILTER(block, .batches = true, .spares = true, .streams = true, .negotiate = block_negotiate, .process = block_process);
FILTER(note, .streams = true, .negotiate = note_negotiate, .process = note_process);
FILTER(batcher, .batches = true, .entry = MR_ENTRY_SHARED, .process = batcher_process);
FILTER(gatherer, .batches = true, .gathers = 4, .process = batcher_process);
FILTER(sampler, .batches = true, .passes = true, .streams = true, .negotiate = sampler_negotiate,
       .process = sampler_process);
FILTER(slow, .entry = MR_ENTRY_SHARED, .state_bytes = sizeof(slow_state), .process = slow_process);
FILTER(recount, .entry = MR_ENTRY_PER_SOURCE, .state_bytes = sizeof(recount_state), .negotiate = recount_negotiate,
       .process = recount_process, .flush = recount_flush);

int flow_split(mr_io *io, uint32_t count) {
    const mr_frame *input = mr_io_input(io);
    for (uint32_t i = 1; i <= count; i++) {
        mr_frame *frame;
        int status = mr_io_share(io, input, &frame);
        if (!status && !(status = mr_io_set_object(io, frame, i)))
            status = mr_io_emit(io, 0, frame);
        if (status)
            return status;
    }
    mr_io_end_objects(io, input, count, "split");
    return MR_DONE;
}

const mr_stage_type *const *flow_stage_types(void) {
    static const mr_stage_type *const types[] = {
        &count_type, &pass_type, &gate_type, &twice_type, &scale_type, &block_type, &note_type, &batcher_type,
        &gatherer_type, &sampler_type, &slow_type, &broken_type, &meet_type, &forgetful_type, &laggard_type,
        &recount_type, &collect_type, &list_type, &peek_type, &look_type, NULL,
    };
    return types;
}

#include "tests/support/opening_stages.h"

#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "millrace/millrace.h"
#include "millrace/status.h"

typedef struct options {
    bool fail, blocking, paced, last, stuck;
    int64_t takes_ns, await_calls, frames;
} options;

typedef struct state {
    bool open;
    uint64_t next;
} state;

struct opening_seen opening_seen;

void opening_forget(int all) {
    memset(&opening_seen, 0, sizeof opening_seen);
    atomic_store(&opening_seen.all, all);
}

void opening_rest(int64_t ns) {
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static void note_call(const mr_stage *self, bool waits) {
    const state *at = self->state;
    atomic_fetch_add(&opening_seen.unopened, !at->open);
    atomic_fetch_add(&opening_seen.early, waits && atomic_load(&opening_seen.opens) < atomic_load(&opening_seen.all));
}

static int open_stage(mr_stage *self) {
    const options *given = self->options;
    atomic_fetch_add(&opening_seen.tried, 1);
    atomic_fetch_add(&opening_seen.sinks_tried, !self->type->outputs);
    for (int i = 0; i < 60000 && atomic_load(&opening_seen.calls) < given->await_calls; i++)
        opening_rest(1000000);
    if (atomic_load(&opening_seen.calls) < given->await_calls)
        return mr_fail(MR_ERROR_INTERNAL, "nothing works while this is opened");
    while (given->stuck && !mr_stage_cancelled(self))
        opening_rest(100000);
    /* Interrupted libraries need not report it. */
    if (given->stuck)
        return mr_fail(MR_ERROR_IO, "cannot be read");
    opening_rest(given->takes_ns);
    if (given->fail)
        return mr_fail(MR_ERROR_DATA, "this one cannot be opened");
    ((state *)self->state)->open = true;
    atomic_fetch_add(&opening_seen.opens, 1);
    return MR_OK;
}

static void close_stage(mr_stage *self) {
    state *at = self->state;
    at->open = false;
    atomic_fetch_add(&opening_seen.closes, 1);
}

static int negotiate_source(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    const mr_format results = {.payload = MR_PAYLOAD_RESULTS};
    negotiation->outputs[0].set = mr_format_set_of(&results);
    negotiation->blocking = given->blocking;
    negotiation->paced = given->paced;
    return MR_OK;
}

static int negotiate_work(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    const mr_format number = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1});
    negotiation->outputs[0].set = mr_format_set_of(&number);
    negotiation->blocking = given->blocking;
    return MR_OK;
}

static int negotiate_sink(mr_negotiation *negotiation) {
    negotiation->blocking = ((const options *)negotiation->options)->blocking;
    return MR_OK;
}

static int read_source(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    state *at = self->state;
    note_call(self, given->last);
    if ((int64_t)at->next == given->frames)
        return MR_END;
    mr_frame *frame;
    int status = mr_io_originate(io, &(mr_identity){.seq = at->next}, &frame);
    if (status)
        return status;
    at->next++;
    return mr_io_emit(io, 0, frame);
}

static int write_number(void *arguments) {
    **(int64_t **)arguments = 7;
    return MR_OK;
}

static int map_work(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output) {
    note_call(self, false);
    atomic_fetch_add(&opening_seen.calls, 1);
    int64_t *number = (int64_t *)(void *)output->plane[0].data;
    return mr_stream_submit(stream, write_number, &number, sizeof number);
}

static int flush_work(mr_stage *self, mr_io *io, uint32_t source) {
    note_call(self, false);
    return MR_DONE;
}

static int take(mr_stage *self, mr_io *io) {
    note_call(self, true);
    atomic_fetch_add(&opening_seen.taken, 1);
    if (self->type->outputs)
        return mr_io_forward(io, 0);
    mr_stage_deliver(self, mr_io_input(io));
    return MR_DONE;
}

static int flush_sink(mr_stage *self, mr_io *io, uint32_t source) {
    note_call(self, true);
    return MR_DONE;
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field), .help = "for tests"
static const mr_option table[] = {
    {FIELD(fail), .kind = MR_OPTION_BOOL, .fallback = "false"},
    {FIELD(blocking), .kind = MR_OPTION_BOOL, .fallback = "false"},
    {FIELD(paced), .kind = MR_OPTION_BOOL, .fallback = "false"},
    {FIELD(last), .kind = MR_OPTION_BOOL, .fallback = "false"},
    {FIELD(stuck), .kind = MR_OPTION_BOOL, .fallback = "false"},
    {FIELD(takes_ns), .kind = MR_OPTION_INT, .fallback = "0"},
    {FIELD(await_calls), .kind = MR_OPTION_INT, .fallback = "0"},
    {FIELD(frames), .kind = MR_OPTION_INT, .fallback = "60"},
    MR_OPTIONS_END,
};
static const mr_port in[] = {{.name = "in", .help = "frames"}, {0}};
static const mr_port out[] = {{.name = "out", .help = "frames"}, {0}};
static const mr_port maybe_out[] = {{.name = "out", .help = "frames", .optional = true}, {0}};

#define COMMON .summary = "for tests", .options = table, .options_bytes = sizeof(options), \
               .state_bytes = sizeof(state), .open = open_stage, .close = close_stage
static const mr_stage_type read_type = {.name = "read", COMMON, .outputs = out, .negotiate = negotiate_source,
                                        .process = read_source};
static const mr_stage_type work_type = {.name = "work", COMMON, .inputs = in, .outputs = out,
                                        .negotiate = negotiate_work, .map = map_work, .flush = flush_work};
static const mr_stage_type last_type = {.name = "last", COMMON, .inputs = in, .outputs = maybe_out, .process = take,
                                        .flush = flush_sink};
static const mr_stage_type take_type = {.name = "take", COMMON, .inputs = in, .entry = MR_ENTRY_SHARED,
                                        .negotiate = negotiate_sink, .process = take, .flush = flush_sink};

/* These types, and the source that programs push into. */
const mr_stage_type *const *opening_stage_types(void) {
    static const mr_stage_type *list[6] = {&read_type, &work_type, &last_type, &take_type};
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        if ((*type)->external)
            list[4] = *type;
    return list;
}

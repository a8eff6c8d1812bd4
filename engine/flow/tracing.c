#include "engine/flow/tracing.h"

#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/flow/link/link.h"
#include "millrace/log.h"

/* A device's streams can work at the same time: overlapping work is shown in separate rows, up to ROWS. Reports may
 * come out of order, so each row remembers the latest pieces. */
enum { ROWS = 16, KNOWN = 16 };

typedef struct device_row {
    mr_track *track;
    int64_t busy_ns; /* pieces that ended before this are forgotten */
    size_t count;    /* pieces so far */
    struct {
        int64_t begin_ns, end_ns;
    } known[KNOWN];
} device_row;

typedef struct engine_rows {
    size_t count;
    device_row row[ROWS];
} engine_rows;

/* Written by the device's reporting thread. */
typedef struct device_trace {
    struct mr_tracing *tracing;
    engine_rows engines[MR_ENGINES];
} device_trace;

static const char waiting[] = "waiting", queues[] = "queues";

struct mr_tracing {
    const mr_run *run;
    mr_trace *trace;
    mr_track *drops;
    mr_track **workers;
    const char **sources;         /* source ids */
    char **rooms;                 /* by vertex: "room in decode" */
    mr_instance_trace *instances; /* in the wiring's order */
    device_trace *devices;        /* in the plan's order */
    bool branches;                /* some frames take several paths */
    atomic_bool reported;             /* a failure to write it was logged */
};

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* One arrow for each source frame, however many frames derive from it. */
static void note_frame(mr_call_trace *traced, const mr_frame *frame) {
    if (traced->frame_count++ == 0)
        traced->first = frame->identity;
    if (!frame->receipt)
        return;
    const mr_identity *origin = &frame->receipt->frame;
    if (!traced->arrow_count || mr_identity_compare(&traced->arrows[traced->arrow_count - 1], origin) != 0)
        traced->arrows[traced->arrow_count++] = *origin;
}

void mr_tracing_begin_call(mr_entry_task *entry, const mr_slot *slot) {
    mr_call_trace *traced = entry->traced;
    traced->begun_ns = mr_entry_now_ns(entry);
    traced->called_ns = mr_trace_now_ns(traced->trace);
    traced->frame_count = traced->arrow_count = 0;
    for (size_t i = 0; slot && entry->instance->vertex->role != MR_ROLE_SOURCE && i < slot->frame_count; i++)
        if (slot->inputs[i].frame)
            note_frame(traced, slot->inputs[i].frame);
}

/* Notes what a source emitted in this call. One arrow is enough: a source emits one frame a call; otherwise the first
 * stands for all. */
static void note_given(mr_call_trace *traced, const mr_slot *slot) {
    for (size_t i = slot->output_next; i < slot->output_count; i++) {
        const mr_frame *frame = slot->outputs[i].item.frame;
        if (frame && traced->arrow_count == 0)
            note_frame(traced, frame);
        else if (frame)
            traced->frame_count++;
    }
}

static mr_track *track_here(const mr_entry_task *entry) {
    const mr_instance *instance = entry->instance;
    mr_track *own = entry->task.thread ? instance->traced->thread : NULL;
    return own ? own : instance->run->tracing->workers[mr_executor_worker_here()];
}

static const char *outcome_of(const mr_slot *slot, int answer) {
    if (!slot)
        return "flush";
    if (answer == MR_ERROR_AGAIN)
        return "no buffer";
    return answer < 0 ? "error" : answer == MR_WAIT ? "not yet" : NULL;
}

/* If frames take several paths, their arrows have no single end, and follow the order in time. */
static mr_trace_step step_of(const mr_instance *instance) {
    if (instance->vertex->role == MR_ROLE_SOURCE)
        return MR_TRACE_FIRST;
    return mr_instance_delivers(instance) && !instance->run->tracing->branches ? MR_TRACE_LAST : MR_TRACE_NEXT;
}

void mr_tracing_end_call(mr_entry_task *entry, const mr_slot *slot, int answer) {
    const mr_instance *instance = entry->instance;
    mr_call_trace *traced = entry->traced;
    mr_track *track = track_here(entry);
    if (slot && instance->vertex->role == MR_ROLE_SOURCE)
        note_given(traced, slot);
    const mr_trace_about about = {
        .source = traced->frame_count ? instance->run->tracing->sources[traced->first.source] : NULL,
        .frame = traced->first,
        .frames = (uint32_t)traced->frame_count,
        .reason = outcome_of(slot, answer),
    };
    mr_trace_span(traced->trace, track, instance->self.id, traced->begun_ns, mr_entry_now_ns(entry), &about);
    atomic_store_explicit(&instance->traced->starved, answer == MR_ERROR_AGAIN, memory_order_relaxed);
    if (answer == MR_MORE || answer == MR_WAIT || answer == MR_ERROR_AGAIN)
        return;
    for (size_t i = 0; i < traced->arrow_count; i++)
        mr_trace_arrow(traced->trace, track, step_of(instance), traced->called_ns, &traced->arrows[i]);
}

/* ---- spans of followed frames ------------------------------------------------------------------------------------ */

static bool is_source(const mr_entry_task *entry) {
    return entry->instance->vertex->role == MR_ROLE_SOURCE;
}

/* A receipt is noted once, even if several frames of the call have it. */
static void note(mr_call_spans *call, const mr_frame *frame, int64_t entered_ns) {
    const mr_receipt *receipt = frame->receipt;
    call->frames++;
    if (!receipt || !receipt->context.span)
        return;
    if (!call->count || call->followed[call->count - 1].within.span != receipt->context.span)
        call->followed[call->count++] = (mr_followed){
            receipt->context, receipt->frame, entered_ns > receipt->opened_ns ? entered_ns : receipt->opened_ns};
}

void mr_tracing_begin_span(mr_entry_task *entry, const mr_slot *slot) {
    mr_call_spans *call = entry->spans;
    if (call->slot == slot)
        return;
    call->slot = slot;
    call->frames = 0;
    call->count = 0;
    for (size_t i = 0; !is_source(entry) && i < slot->frame_count; i++)
        if (slot->inputs[i].frame)
            note(call, slot->inputs[i].frame, slot->inputs[i].entered_ns);
    if (call->count || is_source(entry))
        call->begun_ns = mr_spans_now_ns(call->spans);
}

/* A source gives one frame a call; if it gives several, the first stands for all. The frame begins with the call, if
 * the call cannot have waited for it. */
static void note_source(mr_entry_task *entry, const mr_slot *slot) {
    mr_call_spans *call = entry->spans;
    for (size_t i = slot->output_first; i < slot->output_count && !call->count; i++) {
        const mr_frame *frame = slot->outputs[i].item.frame;
        if (frame)
            note(call, frame, 0);
        if (call->count && entry->instance->vertex->calls.blocking)
            call->begun_ns = frame->receipt->opened_ns;
        else if (call->count)
            frame->receipt->opened_ns = call->begun_ns;
    }
}

void mr_tracing_end_span(mr_entry_task *entry, const mr_slot *slot, bool repeats) {
    mr_call_spans *call = entry->spans;
    mr_instance *instance = entry->instance;
    if (is_source(entry))
        note_source(entry, slot);
    else if (repeats)
        return;
    call->slot = NULL;
    if (!call->count)
        return;
    const int64_t now_ns = mr_spans_now_ns(call->spans);
    const mr_device *device = mr_parts_stage(&instance->parts, slot->device_number)->device;
    for (size_t i = 0; i < call->count; i++) {
        const mr_followed *one = &call->followed[i];
        mr_span span = {.own = mr_spans_within(call->spans, &one->within), .parent = one->within.span,
                        .kind = MR_SPAN_WAIT, .stage = instance->self.id, .frame = one->frame,
                        .frames = 1, .begin_ns = one->entered_ns, .end_ns = call->begun_ns};
        if (one->entered_ns && one->entered_ns < call->begun_ns)
            mr_spans_add(call->spans, &span);
        span.own = mr_spans_within(call->spans, &one->within);
        span.kind = MR_SPAN_STAGE;
        span.device = device ? device->name : NULL;
        span.frames = call->frames;
        span.begin_ns = call->begun_ns;
        span.end_ns = now_ns;
        mr_spans_add(call->spans, &span);
    }
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* The queue that has no room for the next output. */
static const char *full_queue(mr_instance *instance) {
    const mr_slot *slot = mr_ring_unpushed(&instance->ring);
    return mr_link_awaited(mr_outlets_full_link(&instance->outlets, &slot->outputs[slot->output_next]));
}

/* What the instance waits for: room downstream, a buffer, or a device that may not get more work. */
static const char *awaited(mr_instance *instance) {
    if (mr_outlets_are_stuck(&instance->outlets))
        return full_queue(instance);
    if (atomic_load_explicit(&instance->traced->starved, memory_order_relaxed))
        return "a buffer";
    const mr_slot *oldest = mr_ring_holding(&instance->ring);
    return oldest && oldest->event ? mr_event_device(oldest->event)->name : NULL;
}

void mr_tracing_note_wait(mr_instance *instance) {
    mr_instance_trace *traced = instance->traced;
    const char *now = awaited(instance);
    if (now == traced->awaited)
        return;
    int64_t now_ns = mr_trace_now_ns(traced->trace);
    if (traced->awaited)
        mr_trace_span(traced->trace, traced->waits, traced->awaited, traced->since_ns, now_ns, NULL);
    traced->awaited = now;
    traced->since_ns = now_ns;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static mr_track *add_row(mr_trace *trace, const mr_device *device, mr_engine engine, engine_rows *rows) {
    char name[64];
    mr_track *track = NULL;
    snprintf(name, sizeof name, rows->count ? "%s %zu" : "%s", mr_engine_name(engine), rows->count + 1);
    if (mr_trace_add_track(trace, device->name, name, &track))
        return NULL;
    rows->row[rows->count].busy_ns = INT64_MIN;
    rows->row[rows->count++].track = track;
    return track;
}

static bool has_room(const device_row *row, const mr_work_note *note) {
    size_t known = row->count < KNOWN ? row->count : KNOWN;
    for (size_t i = 0; i < known; i++)
        if (note->begin_ns < row->known[i].end_ns && row->known[i].begin_ns < note->end_ns)
            return false;
    return note->begin_ns >= row->busy_ns;
}

static void fill(device_row *row, const mr_work_note *note) {
    size_t at = row->count++ % KNOWN;
    if (row->count > KNOWN && row->known[at].end_ns > row->busy_ns)
        row->busy_ns = row->known[at].end_ns;
    row->known[at].begin_ns = note->begin_ns;
    row->known[at].end_ns = note->end_ns;
}

/* The first row that is free then. */
static mr_track *take_row(mr_trace *trace, const mr_device *device, const mr_work_note *note, engine_rows *rows) {
    size_t row = 0;
    while (row < rows->count && !has_room(&rows->row[row], note))
        row++;
    if (row == ROWS)
        row--;
    else if (row == rows->count && !add_row(trace, device, note->engine, rows))
        return NULL;
    fill(&rows->row[row], note);
    return rows->row[row].track;
}

static void note_work(void *context, const mr_device *device, const mr_work_note *note) {
    device_trace *traced = context;
    const mr_tracing *tracing = traced->tracing;
    bool framed = note->frame.source < tracing->run->plan->source_count;
    const mr_trace_about about = {
        .source = framed ? tracing->sources[note->frame.source] : NULL,
        .frame = note->frame,
        .bytes = note->bytes,
    };
    mr_track *track = take_row(tracing->trace, device, note, &traced->engines[note->engine]);
    const char *name = note->stage ? note->stage->id : "work";
    mr_trace_span(tracing->trace, track, name, note->begin_ns, note->end_ns, &about);
}

/* Rows follow a frame's path, whichever engine works first. */
int mr_tracing_watch_devices(const mr_run *run) {
    mr_tracing *tracing = run->tracing;
    for (size_t d = 0; tracing && d < run->plan->device_count; d++) {
        mr_device *device = run->devices[d];
        device_trace *traced = &tracing->devices[d];
        traced->tracing = tracing;
        for (int e = 0; device && device->type->kind != MR_DEVICE_CPU && e < MR_ENGINES; e++)
            if (!add_row(tracing->trace, device, (mr_engine)e, &traced->engines[e]))
                return MR_ERROR_MEMORY;
        if (device) {
            device->trace_context = traced;
            device->trace = note_work;
        }
    }
    return MR_OK;
}

static void leave_devices(const mr_run *run) {
    for (size_t d = 0; run->devices && d < run->plan->device_count; d++)
        if (run->devices[d])
            run->devices[d]->trace = NULL;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum { LABEL = 512 };

/* A unique name for the instance: the id, and the source's id if each source has a separate instance. */
static const char *label(const mr_instance *instance, char text[LABEL]) {
    bool many =
        instance->vertex->role != MR_ROLE_SOURCE && instance->self.source_id && instance->vertex->source_count > 1;
    snprintf(text, LABEL, "%s%s%s", instance->self.id, many ? " of " : "", many ? instance->self.source_id : "");
    return text;
}

static int add_threads(mr_tracing *made, const mr_wiring *wiring) {
    const mr_plan *plan = made->run->plan;
    char name[MR_THREAD_NAME], text[LABEL];
    int status = MR_OK;
    for (int i = 0; !status && i < plan->workers; i++)
        status = mr_trace_add_track(made->trace, plan->name, mr_worker_name(i, name), &made->workers[i]);
    for (size_t i = 0; !status && i < mr_wiring_count(wiring); i++)
        if (mr_wiring_at(wiring, i)->vertex->calls.blocking)
            status = mr_trace_add_track(made->trace, plan->name, label(mr_wiring_at(wiring, i), text),
                                        &made->instances[i].thread);
    return status ? status : mr_trace_add_track(made->trace, plan->name, "drops", &made->drops);
}

static int add_queues(mr_tracing *made, const mr_instance *instance) {
    const char *room = made->rooms[instance->vertex - made->run->plan->vertices];
    char text[LABEL], name[2 * LABEL];
    int status = MR_OK;
    for (size_t port = 0; !status && port < mr_inlets_count(&instance->inlets); port++) {
        const char *of = mr_inlets_join(&instance->inlets) ? instance->vertex->inputs[port].port : NULL;
        mr_track *queue;
        snprintf(name, sizeof name, "queue of %s%s%s", label(instance, text), of ? "." : "", of ? of : "");
        status = mr_trace_add_track(made->trace, queues, name, &queue);
        if (!status)
            mr_link_trace(mr_inlets_link(&instance->inlets, port), &(mr_link_tracing){made->trace, queue, room});
    }
    return status;
}

/* Allocates room for one call's frames. */
static int add_calls(mr_instance *instance, mr_trace *trace) {
    const size_t room = mr_instance_room(instance);
    for (size_t e = 0; e < instance->entry_count; e++) {
        mr_call_trace *traced = mr_calloc(1, sizeof *traced + room * sizeof traced->arrows[0]);
        if (!traced)
            return mr_fail(MR_ERROR_MEMORY, "no memory to trace %s", instance->self.id);
        traced->trace = trace;
        instance->entries[e].traced = traced;
    }
    return MR_OK;
}

static int add_instances(mr_tracing *made, const mr_wiring *wiring) {
    const mr_plan *plan = made->run->plan;
    char text[LABEL];
    int status = MR_OK;
    for (size_t e = 1; e < plan->edge_count; e++)
        for (size_t before = 0; before < e; before++)
            made->branches |= plan->edges[e].from == plan->edges[before].from;
    for (size_t i = 0; !status && i < mr_wiring_count(wiring); i++) {
        mr_instance *instance = mr_wiring_at(wiring, i);
        made->instances[i].trace = made->trace;
        status = mr_trace_add_track(made->trace, waiting, label(instance, text), &made->instances[i].waits);
        if (!status)
            status = add_queues(made, instance);
        if (!status)
            status = add_calls(instance, made->trace);
        if (!status)
            instance->traced = &made->instances[i];
    }
    return status;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int create_names(mr_tracing *made, const mr_wiring *wiring) {
    const mr_plan *plan = made->run->plan;
    char text[LABEL];
    made->workers = mr_calloc((size_t)plan->workers, sizeof(mr_track *));
    made->sources = mr_calloc(plan->source_count + 1, sizeof(char *));
    made->rooms = mr_calloc(plan->vertex_count + 1, sizeof(char *));
    made->devices = mr_calloc(plan->device_count, sizeof *made->devices);
    made->instances = mr_calloc(mr_wiring_count(wiring) + 1, sizeof *made->instances);
    if (!made->workers || !made->sources || !made->rooms || !made->devices || !made->instances)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the trace");
    for (size_t v = 0; v < plan->vertex_count; v++) {
        if (v < plan->source_count)
            made->sources[v] = plan->vertices[v].id;
        snprintf(text, sizeof text, "room in %s", plan->vertices[v].id);
        if (!(made->rooms[v] = mr_strdup(text)))
            return mr_fail(MR_ERROR_MEMORY, "no memory for the trace");
    }
    return MR_OK;
}

int mr_tracing_begin(mr_run *run, const mr_wiring *wiring, const char *path) {
    mr_tracing *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the trace");
    run->tracing = made;
    made->run = run;
    const mr_trace_params params = {
        .path = path, .clock = mr_executor_clock(run->executor), .lossy = !run->seed};
    int status = create_names(made, wiring);
    if (!status)
        status = mr_trace_create(&made->trace, &params);
    if (!status)
        status = add_threads(made, wiring);
    if (!status)
        status = add_instances(made, wiring);
    if (!status)
        mr_ledger_trace(run->ledger, &(mr_ledger_tracing){made->trace, made->drops, made->sources});
    return status;
}

void mr_tracing_rename(const mr_run *run, uint32_t source) {
    const char *id = run->plan->vertices[source].id;
    if (run->tracing && run->tracing->sources)
        run->tracing->sources[source] = id;
    if (run->spans)
        mr_spans_name(run->spans, source, id ? id : "");
}

int mr_tracing_end(const mr_run *run) {
    mr_tracing *tracing = run->tracing;
    int status = tracing && tracing->trace ? mr_trace_finish(tracing->trace) : MR_OK;
    if (status && !atomic_exchange(&tracing->reported, true))
        mr_log(MR_LOG_ERROR, "%s", mr_message());
    return status;
}

void mr_tracing_destroy(mr_run *run) {
    mr_tracing *gone = run->tracing;
    if (!gone)
        return;
    mr_ledger_trace(run->ledger, NULL);
    leave_devices(run);
    mr_trace_destroy(&gone->trace);
    for (size_t v = 0; gone->rooms && v < run->plan->vertex_count; v++)
        mr_free(gone->rooms[v]);
    mr_free(gone->rooms);
    mr_free(gone->workers);
    mr_free(gone->devices);
    mr_free(gone->sources);
    mr_free(gone->instances);
    mr_free(gone);
    run->tracing = NULL;
}

static int add_spans(mr_instance *instance, mr_spans *spans) {
    const size_t room = mr_instance_room(instance) + 1; /* a source has no inputs */
    for (size_t e = 0; e < instance->entry_count; e++) {
        mr_call_spans *made = mr_calloc(1, sizeof *made + room * sizeof made->followed[0]);
        if (!made)
            return mr_fail(MR_ERROR_MEMORY, "no memory for spans of %s", instance->self.id);
        made->spans = spans;
        instance->entries[e].spans = made;
    }
    return MR_OK;
}

int mr_tracing_follow(mr_run *run, const mr_wiring *wiring, double share) {
    const mr_plan *plan = run->plan;
    int status = mr_spans_create(&run->spans, &(mr_spans_params){.share = share, .run = mr_run_id_number(&run->id),
                                                                 .clock = mr_executor_clock(run->executor),
                                                                 .source_count = plan->source_count});
    for (uint32_t s = 0; !status && s < plan->source_count; s++)
        mr_tracing_rename(run, s);
    for (size_t i = 0; !status && i < mr_wiring_count(wiring); i++)
        status = add_spans(mr_wiring_at(wiring, i), run->spans);
    if (!status)
        mr_ledger_set_spans(run->ledger, run->spans);
    return status;
}

void mr_tracing_unfollow(mr_run *run) {
    if (run->spans)
        mr_ledger_set_spans(run->ledger, NULL);
    mr_spans_destroy(&run->spans);
}

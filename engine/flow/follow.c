#include "engine/flow/follow.h"

#include "engine/base/memory.h"

static bool is_source(const mr_entry_task *entry) {
    return entry->instance->vertex->role == MR_ROLE_SOURCE;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

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

void mr_follow_begin_call(mr_entry_task *entry, const mr_slot *slot) {
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

/* A source gives one frame a call; if it gives several, the first stands for all. The frame begins with the call, except
 * if the call may have waited for it. */
static void note_given(mr_entry_task *entry, const mr_slot *slot) {
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

void mr_follow_end_call(mr_entry_task *entry, const mr_slot *slot, bool repeats) {
    mr_call_spans *call = entry->spans;
    mr_instance *instance = entry->instance;
    if (is_source(entry))
        note_given(entry, slot);
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

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int add_calls(mr_instance *instance, mr_spans *spans) {
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

int mr_follow_begin(mr_run *run, const mr_wiring *wiring, double share) {
    const mr_plan *plan = run->plan;
    int status = mr_spans_create(&run->spans, &(mr_spans_params){.share = share, .run = run->id.number,
                                                                 .clock = mr_executor_clock(run->executor),
                                                                 .source_count = plan->source_count});
    for (uint32_t s = 0; !status && s < plan->source_count; s++)
        mr_follow_rename(run, s);
    for (size_t i = 0; !status && i < mr_wiring_count(wiring); i++)
        status = add_calls(mr_wiring_at(wiring, i), run->spans);
    if (!status)
        mr_ledger_set_spans(run->ledger, run->spans);
    return status;
}

void mr_follow_rename(const mr_run *run, uint32_t source) {
    const char *id = run->plan->vertices[source].id;
    if (run->spans)
        mr_spans_name(run->spans, source, id ? id : "");
}

void mr_follow_destroy(mr_run *run) {
    if (run->spans)
        mr_ledger_set_spans(run->ledger, NULL);
    mr_spans_destroy(&run->spans);
}

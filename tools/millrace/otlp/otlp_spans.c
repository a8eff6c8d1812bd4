#include "tools/millrace/otlp/otlp_spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/version.h"

/* Spans are sent at least this often. */
static const int64_t MOST_INTERVAL_NS = 1000000000;

/* Field numbers of ExportTraceServiceRequest, ResourceSpans, ScopeSpans, InstrumentationScope. */
enum { RESOURCE_SPANS = 1, RESOURCE = 1, SCOPE_SPANS, SCOPE = 1, SPANS, SCOPE_NAME = 1, SCOPE_VERSION };
/* Of Span and Status. */
enum { TRACE_ID = 1, SPAN_ID, PARENT_SPAN_ID = 4, NAME, KIND, START, END, ATTRIBUTES, STATUS = 15, FLAGS };
enum { MESSAGE = 2, CODE };
enum { KIND_INTERNAL = 1, KIND_CONSUMER = 5, CODE_ERROR = 2 };
/* Of FLAGS: sampled, with a random id; whether the parent is in another process is known, and so. */
enum { SAMPLED = 3, PLACE_KNOWN = 0x100, FROM_ELSEWHERE = 0x200 };

/* ---- one span ---------------------------------------------------------------------------------------------------- */

static void add_id(mr_otlp_bytes *to, int field, const uint64_t *words, size_t count) {
    uint8_t bytes[16];
    for (size_t i = 0; i < 8 * count; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> (56 - 8 * (i % 8)));
    mr_otlp_data(to, field, bytes, 8 * count);
}

static void add_name(mr_otlp_bytes *to, const mr_span *span) {
    char name[512];
    switch (span->kind) {
    case MR_SPAN_FRAME:
    case MR_SPAN_ARRIVED:
        mr_otlp_text(to, NAME, "frame");
        break;
    case MR_SPAN_OBJECT:
        mr_otlp_text(to, NAME, "object");
        break;
    case MR_SPAN_STAGE:
        mr_otlp_text(to, NAME, span->stage);
        break;
    case MR_SPAN_WAIT:
        snprintf(name, sizeof name, "queue of %s", span->stage);
        mr_otlp_text(to, NAME, name);
        break;
    }
}

static void add_attributes(mr_otlp_bytes *to, const mr_span *span) {
    mr_otlp_attribute(to, ATTRIBUTES, "millrace.source", span->source);
    mr_otlp_attribute_int(to, ATTRIBUTES, "millrace.epoch", span->frame.epoch);
    mr_otlp_attribute_int(to, ATTRIBUTES, "millrace.seq", (int64_t)span->frame.seq);
    if (span->frame.sub)
        mr_otlp_attribute_int(to, ATTRIBUTES, "millrace.sub", span->frame.sub);
    if (span->frames > 1)
        mr_otlp_attribute_int(to, ATTRIBUTES, "millrace.batch", span->frames);
    mr_otlp_attribute(to, ATTRIBUTES, "millrace.stage", span->stage);
    mr_otlp_attribute(to, ATTRIBUTES, "millrace.device", span->device);
    mr_otlp_attribute(to, ATTRIBUTES, "millrace.fate", span->fate);
    mr_otlp_attribute(to, ATTRIBUTES, "millrace.reason", span->reason);
}

static void add_span(mr_otlp_bytes *to, const mr_span *span) {
    const bool arrived = span->kind == MR_SPAN_ARRIVED;
    const size_t whole = mr_otlp_begin(to, SPANS);
    add_id(to, TRACE_ID, span->own.trace, 2);
    add_id(to, SPAN_ID, &span->own.span, 1);
    if (span->parent)
        add_id(to, PARENT_SPAN_ID, &span->parent, 1);
    add_name(to, span);
    mr_otlp_uint(to, KIND, arrived ? KIND_CONSUMER : KIND_INTERNAL);
    mr_otlp_fixed64(to, START, (uint64_t)span->begin_ns);
    mr_otlp_fixed64(to, END, (uint64_t)(span->end_ns > span->begin_ns ? span->end_ns : span->begin_ns));
    add_attributes(to, span);
    if (span->fate && strcmp(span->fate, "dropped") == 0) {
        const size_t status = mr_otlp_begin(to, STATUS);
        mr_otlp_text(to, MESSAGE, span->reason ? span->reason : "dropped");
        mr_otlp_uint(to, CODE, CODE_ERROR);
        mr_otlp_end(to, status);
    }
    mr_otlp_fixed32(to, FLAGS, SAMPLED | PLACE_KNOWN | (arrived ? FROM_ELSEWHERE : 0));
    mr_otlp_end(to, whole);
}

void mr_otlp_spans_encode(const mr_span *spans, size_t count, const mr_otlp_bytes *resource, mr_otlp_bytes *body) {
    const size_t whole = mr_otlp_begin(body, RESOURCE_SPANS);
    mr_otlp_data(body, RESOURCE, resource->data, resource->length);
    const size_t part = mr_otlp_begin(body, SCOPE_SPANS), scope = mr_otlp_begin(body, SCOPE);
    mr_otlp_text(body, SCOPE_NAME, "millrace");
    mr_otlp_text(body, SCOPE_VERSION, MILLRACE_VERSION);
    mr_otlp_end(body, scope);
    for (size_t i = 0; i < count; i++)
        add_span(body, &spans[i]);
    mr_otlp_end(body, part);
    mr_otlp_end(body, whole);
}

/* ---- the signal -------------------------------------------------------------------------------------------------- */

static size_t make(void *context, const mr_otlp_bytes *resource, mr_otlp_bytes *body, bool *more) {
    mr_otlp_spans *from = context;
    from->count = mr_pipeline_spans(from->pipeline, from->spans, MR_OTLP_MOST_SPANS);
    *more = from->count == MR_OTLP_MOST_SPANS;
    if (from->count)
        mr_otlp_spans_encode(from->spans, from->count, resource, body);
    return from->count;
}

static void done(void *context, size_t rejected) {
    mr_otlp_spans *from = context;
    mr_pipeline_forget_spans(from->pipeline, from->count, rejected);
}

int mr_otlp_spans_open(mr_otlp_spans **spans, mr_otlp *otlp, mr_pipeline *pipeline, const mr_plan_view *plan) {
    const mr_view_otlp *given = mr_plan_view_otlp(plan);
    *spans = NULL;
    if (!otlp || !(given->traces > 0))
        return MR_OK;
    mr_otlp_spans *made = calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for spans");
    made->pipeline = pipeline;
    *spans = made;
    bool sends;
    int status = mr_otlp_add_signal(otlp, &(mr_otlp_signal){
        .name = "traces", .items = "spans", .make = make, .done = done, .context = made,
        .interval_ns = given->interval_ns < MOST_INTERVAL_NS ? given->interval_ns : MOST_INTERVAL_NS}, &sends);
    if (!status && sends)
        mr_pipeline_follow(pipeline, given->traces);
    return status;
}

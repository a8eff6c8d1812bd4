/* The spans of frames that are followed (millrace/spans.h): which frames, their ids, and a buffer of fixed size for
 * spans that have ended.
 *
 * A pipeline that follows no frames has NULL instead. A frame that is not followed costs a hash at its source, and a
 * comparison later. Any thread may call all functions; take and forget: one at a time. Times are on the pipeline's
 * clock. All texts are kept by pointer and must outlive the spans. */
#pragma once

#include "engine/base/clock.h"
#include "millrace/spans.h"

typedef struct mr_spans mr_spans;

typedef struct mr_spans_params {
    double share;
    uint64_t run;           /* the run's number: all processes have the same one */
    const mr_clock *clock;
    size_t source_count;
} mr_spans_params;

/* MR_ERROR_MEMORY. */
int mr_spans_create(mr_spans **spans, const mr_spans_params *params);
void mr_spans_destroy(mr_spans **spans);
/* The source's id from now on. No frame from it may be under way. */
void mr_spans_name(mr_spans *spans, uint32_t source, const char *id);
int64_t mr_spans_now_ns(const mr_spans *spans);

/* Gives a source frame its trace and first span. False, and all zero: it is not followed. */
bool mr_spans_choose(mr_spans *spans, const mr_identity *frame, mr_span_context *own);
/* A new span in the trace. */
mr_span_context mr_spans_within(mr_spans *spans, const mr_span_context *trace);
/* Adds a span, whose source need not be set. */
void mr_spans_add(mr_spans *spans, const mr_span *span);

size_t mr_spans_take(mr_spans *spans, mr_span *to, size_t room);
void mr_spans_forget(mr_spans *spans, size_t count, size_t lost);
/* How many have ended and were lost so far. */
void mr_spans_count(mr_spans *spans, uint64_t *ended, uint64_t *lost);

/* The spans of a pipeline as OpenTelemetry's messages. The sender's thread, but open and close. */
#pragma once

#include "millrace/spans.h"
#include "tools/millrace/otlp/otlp.h"

enum { MR_OTLP_MOST_SPANS = 512 };

typedef struct mr_otlp_spans {
    mr_pipeline *pipeline;
    size_t count;                     /* in the last request */
    mr_span spans[MR_OTLP_MOST_SPANS];
} mr_otlp_spans;

/* If the plan says so and otlp is not NULL, lets the pipeline follow frames and adds the signal for traces. *spans,
 * which may stay NULL, is freed with free() once otlp is stopped. MR_ERROR_MEMORY. */
int mr_otlp_spans_open(mr_otlp_spans **spans, mr_otlp *otlp, mr_pipeline *pipeline, const mr_plan_view *plan);

/* Writes a request's body. */
void mr_otlp_spans_encode(const mr_span *spans, size_t count, const mr_otlp_bytes *resource, mr_otlp_bytes *body);

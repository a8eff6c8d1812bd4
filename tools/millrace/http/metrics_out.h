/* Writes samples: in Prometheus's text formats, or as OpenTelemetry's metrics. Errors show at the end: there is no text
 * then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"
#include "tools/millrace/otlp/otlp_bytes.h"

enum { MR_METRICS_LABELS = 2048 };

typedef struct mr_metrics_out mr_metrics_out;

/* A value: a whole number, or another. */
typedef struct mr_metrics_value {
    bool whole;
    uint64_t count;
    double number;
} mr_metrics_value;

/* How a format is written. */
typedef struct mr_metrics_format {
    void (*begin)(mr_metrics_out *out); /* the family's head, before its first sample */
    void (*label)(mr_metrics_out *out, const char *name, const char *value); /* not empty */
    void (*value)(mr_metrics_out *out, const mr_metrics_value *value);
    void (*durations)(mr_metrics_out *out, const mr_durations *durations);
    void (*end)(mr_metrics_out *out); /* Optional. Of a family with samples. */
} mr_metrics_format;
extern const mr_metrics_format mr_metrics_text, mr_metrics_otlp;

struct mr_metrics_out {
    const mr_metrics_format *format; /* NULL: mr_metrics_text */
    bool open;                       /* text: OpenMetrics */
    int64_t started_ns, now_ns;      /* OTLP: dates, of the run's start and of the values */
    mr_otlp_bytes bytes;
    char labels[MR_METRICS_LABELS];  /* of the samples that follow, as they are written */
    size_t labels_length, label_count;
    size_t samples;
    /* the family that is being written */
    const char *name, *kind, *help;
    bool begun;                      /* it has samples */
    size_t marks[2];                 /* OTLP: where its messages begin */
};

/* Begins a family: "source_frames", which gets millrace_ before it, and in text counters _total after it. The head is
 * written before the first sample. `kind`: "counter", "gauge", "histogram" or "info". */
void mr_metrics_family(mr_metrics_out *out, const char *name, const char *kind, const char *help);
/* Adds a label to those of the family's samples that follow; an empty one is left out. Returns the length before, to
 * which mr_metrics_unlabel goes back. */
size_t mr_metrics_label(mr_metrics_out *out, const char *name, const char *value);
void mr_metrics_unlabel(mr_metrics_out *out, size_t length);
void mr_metrics_count(mr_metrics_out *out, uint64_t value);
void mr_metrics_number(mr_metrics_out *out, double value);
void mr_metrics_durations(mr_metrics_out *out, const mr_durations *durations);
/* Ends what was written and returns it; the caller must free it. NULL: no memory. */
char *mr_metrics_finish(mr_metrics_out *out, size_t *bytes);

/* For formats: the family's kind. */
bool mr_metrics_is(const mr_metrics_out *out, const char *kind);

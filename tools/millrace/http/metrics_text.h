/* Writes samples in Prometheus's text formats. Errors show at the end: the text is then NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"

enum { MR_METRICS_LABELS = 2048 };

typedef struct mr_metrics_text {
    char *data;
    size_t length, room;
    bool failed;
    bool open;                       /* OpenMetrics */
    char labels[MR_METRICS_LABELS];  /* `source="lobby",` ... of the samples that follow */
    size_t labels_length;
    /* the family that is being written */
    const char *name, *kind, *help;
    bool begun;                      /* its head is written */
} mr_metrics_text;

/* Begins a family: "source_frames", which gets millrace_ before it, and counters _total after it. The head is written
 * before the first sample. `kind`: "counter", "gauge", "histogram" or "info". */
void mr_metrics_family(mr_metrics_text *text, const char *name, const char *kind, const char *help);
/* Adds a label to those of the samples that follow; an empty one is left out. Returns the length before, to which
 * mr_metrics_unlabel goes back. */
size_t mr_metrics_label(mr_metrics_text *text, const char *name, const char *value);
void mr_metrics_unlabel(mr_metrics_text *text, size_t length);
void mr_metrics_count(mr_metrics_text *text, uint64_t value);
void mr_metrics_number(mr_metrics_text *text, double value);
void mr_metrics_durations(mr_metrics_text *text, const mr_durations *durations);
/* Ends the text and returns it; the caller must free it. NULL: no memory. */
char *mr_metrics_finish(mr_metrics_text *text, size_t *bytes);

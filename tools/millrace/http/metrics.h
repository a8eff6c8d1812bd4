/* A run's numbers for Prometheus: its text format 0.0.4, or OpenMetrics 1.0.
 *
 * Fields of the summary that have a metric (millrace/summary_fields.h) are written by one walk over their table. Values
 * that follow from several fields are written beside that: frames by fate, sources and devices by state. Labels are
 * ids, states and reasons, so the pipeline bounds their number. Series of a removed source end; the frames of removed
 * sources are in millrace_removed_sources_frames_total, so that sums still equal the ledger. Stage metrics leave out
 * sources, which have their own. Any thread. */
#pragma once

#include "tools/millrace/http/observed.h"

typedef struct mr_metrics {
    const mr_observed *now;
    const char *pipeline, *digest;
    bool alive, ready;
    bool open; /* OpenMetrics */
} mr_metrics;

/* The whole text, which the caller must free with free(); NULL: no memory. */
char *mr_metrics_write(const mr_metrics *metrics, size_t *bytes);
/* The media type. */
const char *mr_metrics_type(bool open);

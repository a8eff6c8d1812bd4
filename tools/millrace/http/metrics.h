/* A run's numbers for Prometheus (its text format 0.0.4, or OpenMetrics 1.0) and for OpenTelemetry.
 *
 * Fields of the summary that have a metric (millrace/summary_fields.h) are written by one walk over their table. Values
 * that follow from several fields are written beside that: frames by fate, sources and devices by state. Labels are
 * ids, states and reasons, so the pipeline bounds their number. Series of a removed source end; the frames of removed
 * sources are in millrace_removed_sources_frames_total, so that sums still equal the ledger. Stage metrics leave out
 * sources, which have their own. Any thread. */
#pragma once

#include "tools/millrace/http/observed.h"
#include "tools/millrace/otlp/otlp.h"

typedef struct mr_metrics {
    const mr_observed *now;
    const char *pipeline, *digest;
    bool alive, ready;
    bool open; /* OpenMetrics */
    size_t otlp_count;
    mr_otlp_state otlp[MR_OTLP_SIGNALS]; /* what is sent to a collector */
} mr_metrics;

/* The whole text, which the caller must free with free(); NULL: no memory. */
char *mr_metrics_write(const mr_metrics *metrics, size_t *bytes);
/* The body of a request with the same numbers as OpenTelemetry's metrics. `resource`: the fields of its Resource;
 * `started_ns`: the date since which sums count. Returns how many points it has. */
size_t mr_metrics_encode(const mr_metrics *metrics, const mr_otlp_bytes *resource, int64_t started_ns,
                         mr_otlp_bytes *body);
/* The media type. */
const char *mr_metrics_type(bool open);

/* Metrics as OpenTelemetry's messages (opentelemetry/proto/metrics/v1). They have the names of Prometheus's text, but
 * counters without _total. */
#include <stdio.h>
#include <string.h>

#include "tools/millrace/http/metrics_out.h"

/* Field numbers. Sum, Gauge and Histogram have their points in field 1. */
enum { NAME = 1, DESCRIPTION, UNIT, GAUGE = 5, SUM = 7, HISTOGRAM = 9 };
enum { POINTS = 1, TEMPORALITY, MONOTONIC };
enum { START = 2, TIME, AS_DOUBLE, AS_INT = 6, ATTRIBUTES };
enum { COUNT = 4, TOTAL, BUCKETS, BOUNDS, HISTOGRAM_ATTRIBUTES = 9 };
enum { CUMULATIVE = 2 };
enum { LABEL_ROOM = MR_METRICS_LABELS / 8 };

static bool is_sum(const mr_metrics_out *out) {
    return mr_metrics_is(out, "counter");
}

static bool is_histogram(const mr_metrics_out *out) {
    return mr_metrics_is(out, "histogram");
}

static void begin_metric(mr_metrics_out *out) {
    mr_otlp_bytes *to = &out->bytes;
    char name[128];
    const size_t length = strlen(out->name);
    const bool seconds = length > 8 && strcmp(out->name + length - 8, "_seconds") == 0;
    const bool bytes = length > 6 && strcmp(out->name + length - 6, "_bytes") == 0;
    snprintf(name, sizeof name, "millrace_%s%s", out->name, mr_metrics_is(out, "info") ? "_info" : "");
    out->marks[0] = mr_otlp_begin(to, 2); /* ScopeMetrics.metrics */
    mr_otlp_text(to, NAME, name);
    mr_otlp_text(to, DESCRIPTION, out->help);
    if (seconds || bytes)
        mr_otlp_text(to, UNIT, seconds ? "s" : "By");
    out->marks[1] = mr_otlp_begin(to, is_sum(out) ? SUM : is_histogram(out) ? HISTOGRAM : GAUGE);
}

static void end_metric(mr_metrics_out *out) {
    mr_otlp_bytes *to = &out->bytes;
    if (is_sum(out) || is_histogram(out))
        mr_otlp_uint(to, TEMPORALITY, CUMULATIVE);
    if (is_sum(out))
        mr_otlp_uint(to, MONOTONIC, 1);
    mr_otlp_end(to, out->marks[1]);
    mr_otlp_end(to, out->marks[0]);
}

/* Kept as it is written. One that finds no room is left out, and a long value is cut. */
static void add_label(mr_metrics_out *out, const char *name, const char *value) {
    char cut[LABEL_ROOM];
    mr_otlp_bytes one = {.data = out->labels, .length = out->labels_length, .room = sizeof out->labels};
    if (sizeof out->labels - one.length < LABEL_ROOM + strlen(name) + 32)
        return;
    snprintf(cut, sizeof cut, "%s", value);
    mr_otlp_attribute(&one, is_histogram(out) ? HISTOGRAM_ATTRIBUTES : ATTRIBUTES, name, cut);
    out->labels_length = one.length;
}

static size_t begin_point(mr_metrics_out *out) {
    mr_otlp_bytes *to = &out->bytes;
    const size_t point = mr_otlp_begin(to, POINTS);
    if (is_sum(out) || is_histogram(out))
        mr_otlp_fixed64(to, START, (uint64_t)out->started_ns);
    mr_otlp_fixed64(to, TIME, (uint64_t)out->now_ns);
    mr_otlp_add(to, out->labels, out->labels_length);
    return point;
}

static void put_value(mr_metrics_out *out, const mr_metrics_value *value) {
    const size_t point = begin_point(out);
    if (value->whole)
        mr_otlp_fixed64(&out->bytes, AS_INT, value->count);
    else
        mr_otlp_double(&out->bytes, AS_DOUBLE, value->number);
    mr_otlp_end(&out->bytes, point);
}

static void put_durations(mr_metrics_out *out, const mr_durations *durations) {
    mr_otlp_bytes *to = &out->bytes;
    uint64_t counts[MR_DURATION_BUCKETS], all = 0;
    double bounds[MR_DURATION_BUCKETS - 1];
    for (int i = 0; i < MR_DURATION_BUCKETS; i++) {
        counts[i] = durations->bucket[i];
        all += counts[i];
        if (i < MR_DURATION_BUCKETS - 1)
            bounds[i] = (double)mr_duration_bound_ns(i) * 1e-9;
    }
    const size_t point = begin_point(out);
    mr_otlp_fixed64(to, COUNT, all);
    mr_otlp_double(to, TOTAL, (double)durations->sum_ns * 1e-9);
    mr_otlp_data(to, BUCKETS, counts, sizeof counts); /* packed, low byte first as this machine has them */
    mr_otlp_data(to, BOUNDS, bounds, sizeof bounds);
    mr_otlp_end(to, point);
}

const mr_metrics_format mr_metrics_otlp = {
    .begin = begin_metric, .label = add_label, .value = put_value, .durations = put_durations, .end = end_metric};

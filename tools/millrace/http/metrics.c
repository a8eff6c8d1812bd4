#include "tools/millrace/http/metrics.h"

#include <string.h>

#include "engine/base/clock.h"
#include "millrace/summary_fields.h"
#include "millrace/version.h"
#include "tools/millrace/http/metrics_out.h"

enum { MOST_DEPTH = 4, MOST_DEVICES = 256 };

const char *mr_metrics_type(bool open) {
    return open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- the fields of the summary ---------------------------------------------------------------------------------- */

/* A field with a metric, and the fields through which it is reached. */
typedef struct path {
    const mr_summary_field *field[MOST_DEPTH];
    int depth;
} path;

/* Sources that another process counts, or that were removed; stages that are sources. */
static bool is_left_out(const mr_summary_field *list, const void *element) {
    if (strcmp(list->label, "source") == 0)
        return !mr_observed_counts(element);
    return strcmp(list->label, "stage") == 0 && ((const mr_stage_summary *)element)->is_source;
}

/* The first text of an element. */
static const char *name_of(const mr_summary_field *list, const void *element) {
    const mr_summary_field *field = list->part->fields;
    return *(const char *const *)(const void *)((const char *)element + field->offset);
}

static void put_value(mr_metrics_out *out, const mr_summary_field *field, const void *base) {
    const void *at = (const char *)base + field->offset;
    switch (field->type) {
    case MR_SUMMARY_BOOL:
        mr_metrics_count(out, *(const bool *)at);
        break;
    case MR_SUMMARY_INT:
        mr_metrics_number(out, *(const int *)at);
        break;
    case MR_SUMMARY_U32:
        mr_metrics_count(out, *(const uint32_t *)at);
        break;
    case MR_SUMMARY_U64:
        mr_metrics_count(out, *(const uint64_t *)at);
        break;
    case MR_SUMMARY_F64:
        mr_metrics_number(out, *(const double *)at);
        break;
    case MR_SUMMARY_NS:
    case MR_SUMMARY_DATE:
        mr_metrics_number(out, (double)*(const int64_t *)at * 1e-9);
        break;
    case MR_SUMMARY_NS_F64:
        mr_metrics_number(out, *(const double *)at * 1e-9);
        break;
    case MR_SUMMARY_PART:
        mr_metrics_durations(out, at);
        break;
    default: /* has no number */
        break;
    }
}

static void put_samples(mr_metrics_out *out, const path *way, int level, const void *base) {
    const mr_summary_field *field = way->field[level];
    if (!mr_summary_is_list(field) && field->has && !field->has(base))
        return;
    if (level == way->depth - 1) {
        put_value(out, field, base);
        return;
    }
    if (!mr_summary_is_list(field)) {
        put_samples(out, way, level + 1, (const char *)base + field->offset);
        return;
    }
    const char *element = mr_summary_list(field, base);
    for (size_t i = 0; i < mr_summary_count(field, base); i++, element += field->part->bytes) {
        if (is_left_out(field, element))
            continue;
        const size_t before = mr_metrics_label(out, field->label, name_of(field, element));
        put_samples(out, way, level + 1, element);
        mr_metrics_unlabel(out, before);
    }
}

/* Does what follows once for each process, with its name as a label. */
#define EACH_PROCESS(out, now, process)                                                                              \
    for (const mr_observed_process *process = (now)->process; process < (now)->process + (now)->count; process++)     \
        for (size_t before_##process = mr_metrics_label(out, "node", process->name), once_##process = 1;             \
             once_##process; once_##process = (mr_metrics_unlabel(out, before_##process), 0))

static void put_field(mr_metrics_out *out, const mr_observed *now, const path *way) {
    const mr_summary_field *last = way->field[way->depth - 1];
    mr_metrics_family(out, last->metric,
                      last->type == MR_SUMMARY_PART ? "histogram" : last->rises ? "counter" : "gauge", last->help);
    EACH_PROCESS(out, now, process)
        if (process->summary)
            put_samples(out, way, 0, process->summary);
}

/* Walks the tables. */
static void put_fields(mr_metrics_out *out, const mr_observed *now, const mr_summary_part *part, path *way) {
    for (const mr_summary_field *field = part->fields; field->name && way->depth < MOST_DEPTH; field++) {
        way->field[way->depth++] = field;
        const bool inside = field->type == MR_SUMMARY_PART || field->type == MR_SUMMARY_INLINE ||
                            (field->type == MR_SUMMARY_LIST && field->label);
        if (field->metric)
            put_field(out, now, way);
        else if (inside)
            put_fields(out, now, field->part, way);
        way->depth--;
    }
}

/* ---- frames by fate --------------------------------------------------------------------------------------------- */

static void put_fate(mr_metrics_out *out, const char *fate, const char *stage, const char *reason, uint64_t frames) {
    const size_t before = mr_metrics_label(out, "fate", fate);
    mr_metrics_label(out, "stage", stage);
    mr_metrics_label(out, "reason", reason);
    mr_metrics_count(out, frames);
    mr_metrics_unlabel(out, before);
}

static void put_fates(mr_metrics_out *out, uint64_t delivered, const mr_ledger_line *lines, size_t count) {
    put_fate(out, "delivered", NULL, NULL, delivered);
    for (size_t i = 0; i < count; i++)
        put_fate(out, lines[i].outcome == MR_OUTCOME_DROPPED ? "dropped" : "absorbed", lines[i].stage,
                 lines[i].reason, lines[i].frames);
}

static void put_frames(mr_metrics_out *out, const mr_observed_process *process, const mr_source_summary *source) {
    put_fates(out, source->delivered, source->lines, source->line_count);
}

static void put_objects(mr_metrics_out *out, const mr_observed_process *process, const mr_source_summary *source) {
    if (source->objects.in)
        put_fates(out, source->objects.delivered, source->objects.lines, source->objects.line_count);
}

static void put_up(mr_metrics_out *out, const mr_observed_process *process, const mr_source_summary *source) {
    mr_metrics_count(out, mr_observed_is_up(process, source));
}

/* Sinks that deliver to a service. */
static void put_services(mr_metrics_out *out, const mr_observed *now) {
    mr_metrics_family(out, "service_up", "gauge", "1: the service that the stage delivers to is connected");
    EACH_PROCESS(out, now, process)
        for (size_t i = 0; process->summary && i < process->summary->stage_count; i++) {
            const mr_stage_summary *stage = &process->summary->stages[i];
            if (stage->service.phase == MR_LINK_UNREPORTED)
                continue;
            const size_t before = mr_metrics_label(out, "stage", stage->id);
            mr_metrics_count(out, stage->service.phase == MR_LINK_LIVE);
            mr_metrics_unlabel(out, before);
        }
}

typedef void put_source(mr_metrics_out *out, const mr_observed_process *process, const mr_source_summary *source);

static void put_sources(mr_metrics_out *out, const mr_observed *now, put_source *put) {
    EACH_PROCESS(out, now, process)
        for (size_t s = 0; process->summary && s < process->summary->source_count; s++) {
            const mr_source_summary *source = &process->summary->sources[s];
            if (!mr_observed_counts(source))
                continue;
            const size_t before = mr_metrics_label(out, "source", source->id);
            put(out, process, source);
            mr_metrics_unlabel(out, before);
        }
}

static void put_removed(mr_metrics_out *out, const mr_observed *now) {
    mr_observed_ledger sum = {0};
    for (size_t i = 0; i < now->count; i++) {
        const mr_summary *summary = now->process[i].summary;
        for (size_t s = 0; summary && s < summary->source_count; s++)
            if (summary->sources[s].stay.removed && !summary->sources[s].elsewhere) {
                sum.delivered += summary->sources[s].delivered;
                sum.dropped += summary->sources[s].dropped;
                sum.absorbed += summary->sources[s].absorbed;
            }
    }
    put_fate(out, "delivered", NULL, NULL, sum.delivered);
    put_fate(out, "dropped", NULL, NULL, sum.dropped);
    put_fate(out, "absorbed", NULL, NULL, sum.absorbed);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

/* A device of a process, over all its stages. */
typedef struct device {
    const char *name;
    bool in[MR_DEVICE_FAILED + 1]; /* a stage has it in that state */
    int64_t busy_ns;
} device;

static size_t add_share(device *devices, size_t count, const mr_share_summary *share) {
    size_t at = 0;
    while (at < count && strcmp(devices[at].name, share->device) != 0)
        at++;
    if (at == MOST_DEVICES)
        return count;
    if (at == count)
        devices[count++] = (device){.name = share->device};
    devices[at].in[share->state] = true;
    devices[at].busy_ns += share->busy_ns;
    return count;
}

static size_t find_devices(const mr_summary *summary, device devices[MOST_DEVICES]) {
    size_t count = 0;
    for (size_t i = 0; summary && i < summary->stage_count; i++)
        for (size_t k = 0; k < summary->stages[i].share_count; k++)
            count = add_share(devices, count, &summary->stages[i].shares[k]);
    return count;
}

/* A device that failed for one stage has failed, even if it works for another. */
static mr_device_state state_of(const device *one) {
    return one->in[MR_DEVICE_FAILED]     ? MR_DEVICE_FAILED
           : one->in[MR_DEVICE_DISABLED] ? MR_DEVICE_DISABLED
           : one->in[MR_DEVICE_WORKS]    ? MR_DEVICE_WORKS
                                         : MR_DEVICE_RESERVED;
}

static void put_busy(mr_metrics_out *out, const device *one) {
    mr_metrics_number(out, (double)one->busy_ns * 1e-9);
}

static void put_state(mr_metrics_out *out, const device *one) {
    for (int state = MR_DEVICE_WORKS; state <= MR_DEVICE_FAILED; state++) {
        const size_t before = mr_metrics_label(out, "state", mr_device_state_name((mr_device_state)state));
        mr_metrics_count(out, state_of(one) == (mr_device_state)state);
        mr_metrics_unlabel(out, before);
    }
}

static void put_devices(mr_metrics_out *out, const mr_observed *now,
                        void (*put)(mr_metrics_out *out, const device *one)) {
    device devices[MOST_DEVICES];
    EACH_PROCESS(out, now, process)
        for (size_t i = 0, count = find_devices(process->summary, devices); i < count; i++) {
            const size_t before = mr_metrics_label(out, "device", devices[i].name);
            put(out, &devices[i]);
            mr_metrics_unlabel(out, before);
        }
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void put_nodes(mr_metrics_out *out, const mr_observed *now) {
    mr_metrics_family(out, "node_up", "gauge", "1: the node's process runs and is ready");
    EACH_PROCESS(out, now, process)
        if (process->name)
            mr_metrics_count(out, process->pid && process->ready);
    mr_metrics_family(out, "node_restarts", "counter", "how often the node's process was started again");
    EACH_PROCESS(out, now, process)
        if (process->name)
            mr_metrics_count(out, (uint64_t)process->restarts);
}

static void put_run(mr_metrics_out *out, const mr_metrics *metrics) {
    mr_metrics_family(out, "build", "info", "the version of millrace");
    mr_metrics_label(out, "version", MILLRACE_VERSION);
    mr_metrics_count(out, 1);
    mr_metrics_unlabel(out, 0);
    mr_metrics_family(out, "run", "info", "the pipeline's name, and the SHA-256 of its content");
    mr_metrics_label(out, "pipeline", metrics->pipeline);
    mr_metrics_label(out, "digest", metrics->digest);
    mr_metrics_count(out, 1);
    mr_metrics_unlabel(out, 0);
    mr_metrics_family(out, "alive", "gauge", "1: /livez says ok");
    mr_metrics_count(out, metrics->alive);
    mr_metrics_family(out, "ready", "gauge", "1: /readyz says ok");
    mr_metrics_count(out, metrics->ready);
}

/* What is sent to a collector. */
static void put_otlp(mr_metrics_out *out, const mr_metrics *metrics, const char *name, const char *kind,
                     const char *help, uint64_t (*value)(const mr_otlp_state *state)) {
    mr_metrics_family(out, name, kind, help);
    for (size_t i = 0; i < metrics->otlp_count; i++) {
        const size_t before = mr_metrics_label(out, "signal", metrics->otlp[i].signal);
        mr_metrics_count(out, value(&metrics->otlp[i]));
        mr_metrics_unlabel(out, before);
    }
}

static uint64_t up_of(const mr_otlp_state *state) {
    return state->up;
}

static uint64_t sent_of(const mr_otlp_state *state) {
    return state->sent;
}

static uint64_t rejected_of(const mr_otlp_state *state) {
    return state->rejected;
}

static uint64_t failures_of(const mr_otlp_state *state) {
    return state->failures;
}

static void put_all(mr_metrics_out *out, const mr_metrics *metrics) {
    const mr_observed *now = metrics->now;
    path way = {0};
    put_run(out, metrics);
    mr_metrics_family(out, "frames", "counter",
                      "frames that were delivered, dropped or absorbed, by the source that they came from");
    put_sources(out, now, put_frames);
    mr_metrics_family(out, "objects", "counter", "objects for which a frame was made, likewise");
    put_sources(out, now, put_objects);
    mr_metrics_family(out, "removed_sources_frames", "counter", "the frames of sources that were removed");
    put_removed(out, now);
    mr_metrics_family(out, "source_up", "gauge",
                      "1: frames can come from the source; 0: it has ended, has failed or is away, or its node does "
                      "not run");
    put_sources(out, now, put_up);
    mr_metrics_family(out, "device_state", "gauge", "1 for the state that the device is in");
    put_devices(out, now, put_state);
    mr_metrics_family(out, "device_busy_seconds", "counter",
                      "time during which calls of stages were in progress, summed over the stages");
    put_devices(out, now, put_busy);
    put_services(out, now);
    put_nodes(out, now);
    put_otlp(out, metrics, "otlp_up", "gauge", "1: the OpenTelemetry collector took the last request", up_of);
    put_otlp(out, metrics, "otlp_items", "counter", "points and spans that the collector has taken", sent_of);
    put_otlp(out, metrics, "otlp_rejected_items", "counter", "points and spans that the collector has rejected",
             rejected_of);
    put_otlp(out, metrics, "otlp_failed_requests", "counter", "requests to the collector without success", failures_of);
    put_fields(out, now, mr_summary_fields(), &way);
}

char *mr_metrics_write(const mr_metrics *metrics, size_t *bytes) {
    mr_metrics_out out = {.format = &mr_metrics_text, .open = metrics->open};
    put_all(&out, metrics);
    return mr_metrics_finish(&out, bytes);
}

/* Field numbers of ExportMetricsServiceRequest, ResourceMetrics, ScopeMetrics and InstrumentationScope. */
enum { RESOURCE_METRICS = 1, RESOURCE = 1, SCOPE_METRICS, SCOPE = 1, NAME = 1, VERSION };

size_t mr_metrics_encode(const mr_metrics *metrics, const mr_otlp_bytes *resource, int64_t started_ns,
                         mr_otlp_bytes *body) {
    mr_metrics_out out = {.format = &mr_metrics_otlp, .started_ns = started_ns, .now_ns = mr_clock_date_ns(),
                          .bytes = *body};
    mr_otlp_bytes *to = &out.bytes;
    size_t bytes;
    const size_t whole = mr_otlp_begin(to, RESOURCE_METRICS);
    mr_otlp_data(to, RESOURCE, resource->data, resource->length);
    const size_t part = mr_otlp_begin(to, SCOPE_METRICS), scope = mr_otlp_begin(to, SCOPE);
    mr_otlp_text(to, NAME, "millrace");
    mr_otlp_text(to, VERSION, MILLRACE_VERSION);
    mr_otlp_end(to, scope);
    put_all(&out, metrics);
    mr_metrics_finish(&out, &bytes);
    mr_otlp_end(to, part);
    mr_otlp_end(to, whole);
    *body = out.bytes;
    return out.samples;
}

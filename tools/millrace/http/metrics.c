#include "tools/millrace/http/metrics.h"

#include <string.h>

#include "millrace/summary_fields.h"
#include "millrace/version.h"
#include "tools/millrace/http/metrics_text.h"

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

static void put_value(mr_metrics_text *text, const mr_summary_field *field, const void *base) {
    const void *at = (const char *)base + field->offset;
    switch (field->type) {
    case MR_SUMMARY_BOOL:
        mr_metrics_count(text, *(const bool *)at);
        break;
    case MR_SUMMARY_INT:
        mr_metrics_number(text, *(const int *)at);
        break;
    case MR_SUMMARY_U32:
        mr_metrics_count(text, *(const uint32_t *)at);
        break;
    case MR_SUMMARY_U64:
        mr_metrics_count(text, *(const uint64_t *)at);
        break;
    case MR_SUMMARY_F64:
        mr_metrics_number(text, *(const double *)at);
        break;
    case MR_SUMMARY_NS:
    case MR_SUMMARY_DATE:
        mr_metrics_number(text, (double)*(const int64_t *)at * 1e-9);
        break;
    case MR_SUMMARY_NS_F64:
        mr_metrics_number(text, *(const double *)at * 1e-9);
        break;
    case MR_SUMMARY_PART:
        mr_metrics_durations(text, at);
        break;
    default: /* has no number */
        break;
    }
}

static void put_samples(mr_metrics_text *text, const path *way, int level, const void *base) {
    const mr_summary_field *field = way->field[level];
    if (!mr_summary_is_list(field) && field->has && !field->has(base))
        return;
    if (level == way->depth - 1) {
        put_value(text, field, base);
        return;
    }
    if (!mr_summary_is_list(field)) {
        put_samples(text, way, level + 1, (const char *)base + field->offset);
        return;
    }
    const char *element = mr_summary_list(field, base);
    for (size_t i = 0; i < mr_summary_count(field, base); i++, element += field->part->bytes) {
        if (is_left_out(field, element))
            continue;
        const size_t before = mr_metrics_label(text, field->label, name_of(field, element));
        put_samples(text, way, level + 1, element);
        mr_metrics_unlabel(text, before);
    }
}

/* Does what follows once for each process, with its name as a label. */
#define EACH_PROCESS(text, now, process)                                                                              \
    for (const mr_observed_process *process = (now)->process; process < (now)->process + (now)->count; process++)     \
        for (size_t before_##process = mr_metrics_label(text, "node", process->name), once_##process = 1;             \
             once_##process; once_##process = (mr_metrics_unlabel(text, before_##process), 0))

static void put_field(mr_metrics_text *text, const mr_observed *now, const path *way) {
    const mr_summary_field *last = way->field[way->depth - 1];
    mr_metrics_family(text, last->metric,
                      last->type == MR_SUMMARY_PART ? "histogram" : last->rises ? "counter" : "gauge", last->help);
    EACH_PROCESS(text, now, process)
        if (process->summary)
            put_samples(text, way, 0, process->summary);
}

/* Walks the tables. */
static void put_fields(mr_metrics_text *text, const mr_observed *now, const mr_summary_part *part, path *way) {
    for (const mr_summary_field *field = part->fields; field->name && way->depth < MOST_DEPTH; field++) {
        way->field[way->depth++] = field;
        const bool inside = field->type == MR_SUMMARY_PART || field->type == MR_SUMMARY_INLINE ||
                            (field->type == MR_SUMMARY_LIST && field->label);
        if (field->metric)
            put_field(text, now, way);
        else if (inside)
            put_fields(text, now, field->part, way);
        way->depth--;
    }
}

/* ---- frames by fate --------------------------------------------------------------------------------------------- */

static void put_fate(mr_metrics_text *text, const char *fate, const char *stage, const char *reason, uint64_t frames) {
    const size_t before = mr_metrics_label(text, "fate", fate);
    mr_metrics_label(text, "stage", stage);
    mr_metrics_label(text, "reason", reason);
    mr_metrics_count(text, frames);
    mr_metrics_unlabel(text, before);
}

static void put_fates(mr_metrics_text *text, uint64_t delivered, const mr_ledger_line *lines, size_t count) {
    put_fate(text, "delivered", NULL, NULL, delivered);
    for (size_t i = 0; i < count; i++)
        put_fate(text, lines[i].outcome == MR_OUTCOME_DROPPED ? "dropped" : "absorbed", lines[i].stage,
                 lines[i].reason, lines[i].frames);
}

static void put_frames(mr_metrics_text *text, const mr_observed_process *process, const mr_source_summary *source) {
    put_fates(text, source->delivered, source->lines, source->line_count);
}

static void put_objects(mr_metrics_text *text, const mr_observed_process *process, const mr_source_summary *source) {
    if (source->objects.in)
        put_fates(text, source->objects.delivered, source->objects.lines, source->objects.line_count);
}

static void put_up(mr_metrics_text *text, const mr_observed_process *process, const mr_source_summary *source) {
    mr_metrics_count(text, mr_observed_is_up(process, source));
}

/* Sinks that deliver to a service. */
static void put_services(mr_metrics_text *text, const mr_observed *now) {
    mr_metrics_family(text, "service_up", "gauge", "1: the service that the stage delivers to is connected");
    EACH_PROCESS(text, now, process)
        for (size_t i = 0; process->summary && i < process->summary->stage_count; i++) {
            const mr_stage_summary *stage = &process->summary->stages[i];
            if (stage->service.phase == MR_LINK_UNREPORTED)
                continue;
            const size_t before = mr_metrics_label(text, "stage", stage->id);
            mr_metrics_count(text, stage->service.phase == MR_LINK_LIVE);
            mr_metrics_unlabel(text, before);
        }
}

typedef void put_source(mr_metrics_text *text, const mr_observed_process *process, const mr_source_summary *source);

static void put_sources(mr_metrics_text *text, const mr_observed *now, put_source *put) {
    EACH_PROCESS(text, now, process)
        for (size_t s = 0; process->summary && s < process->summary->source_count; s++) {
            const mr_source_summary *source = &process->summary->sources[s];
            if (!mr_observed_counts(source))
                continue;
            const size_t before = mr_metrics_label(text, "source", source->id);
            put(text, process, source);
            mr_metrics_unlabel(text, before);
        }
}

static void put_removed(mr_metrics_text *text, const mr_observed *now) {
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
    put_fate(text, "delivered", NULL, NULL, sum.delivered);
    put_fate(text, "dropped", NULL, NULL, sum.dropped);
    put_fate(text, "absorbed", NULL, NULL, sum.absorbed);
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

static void put_busy(mr_metrics_text *text, const device *one) {
    mr_metrics_number(text, (double)one->busy_ns * 1e-9);
}

static void put_state(mr_metrics_text *text, const device *one) {
    for (int state = MR_DEVICE_WORKS; state <= MR_DEVICE_FAILED; state++) {
        const size_t before = mr_metrics_label(text, "state", mr_device_state_name((mr_device_state)state));
        mr_metrics_count(text, state_of(one) == (mr_device_state)state);
        mr_metrics_unlabel(text, before);
    }
}

static void put_devices(mr_metrics_text *text, const mr_observed *now,
                        void (*put)(mr_metrics_text *text, const device *one)) {
    device devices[MOST_DEVICES];
    EACH_PROCESS(text, now, process)
        for (size_t i = 0, count = find_devices(process->summary, devices); i < count; i++) {
            const size_t before = mr_metrics_label(text, "device", devices[i].name);
            put(text, &devices[i]);
            mr_metrics_unlabel(text, before);
        }
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void put_nodes(mr_metrics_text *text, const mr_observed *now) {
    mr_metrics_family(text, "node_up", "gauge", "1: the node's process runs and is ready");
    EACH_PROCESS(text, now, process)
        if (process->name)
            mr_metrics_count(text, process->pid && process->ready);
    mr_metrics_family(text, "node_restarts", "counter", "how often the node's process was started again");
    EACH_PROCESS(text, now, process)
        if (process->name)
            mr_metrics_count(text, (uint64_t)process->restarts);
}

static void put_run(mr_metrics_text *text, const mr_metrics *metrics) {
    mr_metrics_family(text, "build", "info", "the version of millrace");
    mr_metrics_label(text, "version", MILLRACE_VERSION);
    mr_metrics_count(text, 1);
    mr_metrics_unlabel(text, 0);
    mr_metrics_family(text, "run", "info", "the pipeline's name, and the SHA-256 of its content");
    mr_metrics_label(text, "pipeline", metrics->pipeline);
    mr_metrics_label(text, "digest", metrics->digest);
    mr_metrics_count(text, 1);
    mr_metrics_unlabel(text, 0);
    mr_metrics_family(text, "alive", "gauge", "1: /livez says ok");
    mr_metrics_count(text, metrics->alive);
    mr_metrics_family(text, "ready", "gauge", "1: /readyz says ok");
    mr_metrics_count(text, metrics->ready);
}

char *mr_metrics_write(const mr_metrics *metrics, size_t *bytes) {
    mr_metrics_text text = {.open = metrics->open};
    const mr_observed *now = metrics->now;
    path way = {0};
    put_run(&text, metrics);
    mr_metrics_family(&text, "frames", "counter",
                      "frames that were delivered, dropped or absorbed, by the source that they came from");
    put_sources(&text, now, put_frames);
    mr_metrics_family(&text, "objects", "counter", "objects for which a frame was made, likewise");
    put_sources(&text, now, put_objects);
    mr_metrics_family(&text, "removed_sources_frames", "counter", "the frames of sources that were removed");
    put_removed(&text, now);
    mr_metrics_family(&text, "source_up", "gauge",
                      "1: frames can come from the source; 0: it has ended, has failed or is away, or its node does "
                      "not run");
    put_sources(&text, now, put_up);
    mr_metrics_family(&text, "device_state", "gauge", "1 for the state that the device is in");
    put_devices(&text, now, put_state);
    mr_metrics_family(&text, "device_busy_seconds", "counter",
                      "time during which calls of stages were in progress, summed over the stages");
    put_devices(&text, now, put_busy);
    put_services(&text, now);
    put_nodes(&text, now);
    put_fields(&text, now, mr_summary_fields(), &way);
    return mr_metrics_finish(&text, bytes);
}

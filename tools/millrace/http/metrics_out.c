#include "tools/millrace/http/metrics_out.h"

#include <stdlib.h>
#include <string.h>

static const mr_metrics_format *format_of(mr_metrics_out *out) {
    if (!out->format)
        out->format = &mr_metrics_text;
    return out->format;
}

bool mr_metrics_is(const mr_metrics_out *out, const char *kind) {
    return strcmp(out->kind, kind) == 0;
}

static void end_family(mr_metrics_out *out) {
    if (out->begun && format_of(out)->end)
        format_of(out)->end(out);
    out->begun = false;
}

void mr_metrics_family(mr_metrics_out *out, const char *name, const char *kind, const char *help) {
    end_family(out);
    out->name = name;
    out->kind = kind;
    out->help = help;
}

size_t mr_metrics_label(mr_metrics_out *out, const char *name, const char *value) {
    const size_t before = out->labels_length;
    if (value && *value)
        format_of(out)->label(out, name, value);
    return before;
}

void mr_metrics_unlabel(mr_metrics_out *out, size_t length) {
    out->labels_length = length;
}

static void begin_sample(mr_metrics_out *out) {
    if (!out->begun)
        format_of(out)->begin(out);
    out->begun = true;
    out->samples++;
}

void mr_metrics_count(mr_metrics_out *out, uint64_t value) {
    begin_sample(out);
    format_of(out)->value(out, &(mr_metrics_value){.whole = true, .count = value});
}

void mr_metrics_number(mr_metrics_out *out, double value) {
    begin_sample(out);
    format_of(out)->value(out, &(mr_metrics_value){.number = value});
}

void mr_metrics_durations(mr_metrics_out *out, const mr_durations *durations) {
    begin_sample(out);
    format_of(out)->durations(out, durations);
}

char *mr_metrics_finish(mr_metrics_out *out, size_t *bytes) {
    end_family(out);
    if (out->open)
        mr_otlp_add(&out->bytes, "# EOF\n", 6);
    *bytes = out->bytes.length;
    if (!out->bytes.failed)
        return out->bytes.data;
    free(out->bytes.data);
    return NULL;
}

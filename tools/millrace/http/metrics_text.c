#include "tools/millrace/http/metrics_out.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"

static const char PREFIX[] = "millrace_";

static void add(mr_metrics_out *text, const char *bytes, size_t count) {
    mr_otlp_add(&text->bytes, bytes, count);
}

static void put(mr_metrics_out *text, const char *word) {
    add(text, word, strlen(word));
}

static void put_count(mr_metrics_out *text, uint64_t value) {
    char digits[24], *first = digits + sizeof digits;
    do {
        *--first = (char)('0' + value % 10);
    } while (value /= 10);
    add(text, first, (size_t)(digits + sizeof digits - first));
}

static void put_number(mr_metrics_out *text, double value) {
    char digits[40];
    const uint64_t whole = value >= 0 && value < 1e15 ? (uint64_t)value : 0;
    if ((double)whole == value) {
        put_count(text, whole);
        return;
    }
    snprintf(digits, sizeof digits, "%.15g", value);
    put(text, digits);
}

/* ---- heads and labels ------------------------------------------------------------------------------------------- */

static const char *ending_of(const mr_metrics_out *text) {
    return mr_metrics_is(text, "counter") ? "_total" : mr_metrics_is(text, "info") ? "_info" : "";
}

static void put_head_line(mr_metrics_out *text, const char *what, const char *rest) {
    put(text, what);
    put(text, PREFIX);
    put(text, text->name);
    if (!text->open)
        put(text, ending_of(text));
    put(text, " ");
    put(text, rest);
    put(text, "\n");
}

static void begin_family(mr_metrics_out *text) {
    const bool info = mr_metrics_is(text, "info");
    put_head_line(text, "# HELP ", text->help);
    put_head_line(text, "# TYPE ", info && !text->open ? "gauge" : text->kind);
}

static void add_label(mr_metrics_out *text, const char *name, const char *value) {
    const size_t room = sizeof text->labels - 3;
    size_t at = text->labels_length;
    if (at + strlen(name) + 2 > room)
        return;
    at += (size_t)snprintf(text->labels + at, sizeof text->labels - at, "%s=\"", name);
    for (size_t left = strlen(value); left && at + 5 < room;) {
        const size_t bytes = mr_utf8_bytes(value, left);
        const char *mark = strchr("\\\"\n", *value);
        if (bytes == 1 && mark)
            text->labels[at++] = '\\';
        if (bytes)
            memcpy(text->labels + at, mark && *value == '\n' ? "n" : value, bytes);
        else
            text->labels[at] = '?';
        at += bytes ? bytes : 1;
        value += bytes ? bytes : 1;
        left -= bytes ? bytes : 1;
    }
    memcpy(text->labels + at, "\",", 2);
    text->labels_length = at + 2;
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

static void put_sample(mr_metrics_out *text, const char *ending, const char *bound) {
    put(text, PREFIX);
    put(text, text->name);
    put(text, ending);
    if (text->labels_length || bound) {
        put(text, "{");
        add(text, text->labels, bound || !text->labels_length ? text->labels_length : text->labels_length - 1);
        if (bound) {
            put(text, "le=\"");
            put(text, bound);
            put(text, "\"");
        }
        put(text, "}");
    }
    put(text, " ");
}

static void put_value(mr_metrics_out *text, const mr_metrics_value *value) {
    put_sample(text, ending_of(text), NULL);
    if (value->whole)
        put_count(text, value->count);
    else
        put_number(text, value->number);
    put(text, "\n");
}

static void put_durations(mr_metrics_out *text, const mr_durations *durations) {
    uint64_t below = 0;
    for (int i = 0; i < MR_DURATION_BUCKETS; i++) {
        char bound[40];
        const bool last = i == MR_DURATION_BUCKETS - 1;
        below += durations->bucket[i];
        snprintf(bound, sizeof bound, last ? "+Inf" : "%.12g", (double)mr_duration_bound_ns(i) * 1e-9);
        put_sample(text, "_bucket", bound);
        put_count(text, below);
        put(text, "\n");
    }
    put_sample(text, "_sum", NULL);
    put_number(text, (double)durations->sum_ns * 1e-9);
    put(text, "\n");
    put_sample(text, "_count", NULL);
    put_count(text, below);
    put(text, "\n");
}

const mr_metrics_format mr_metrics_text = {
    .begin = begin_family, .label = add_label, .value = put_value, .durations = put_durations};

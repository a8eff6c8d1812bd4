#include "tools/millrace/http/metrics_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"

static const char PREFIX[] = "millrace_";

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void add(mr_metrics_text *text, const char *bytes, size_t count) {
    if (text->room - text->length < count && !text->failed) {
        const size_t room = 2 * text->room + count + 4096;
        char *wider = realloc(text->data, room);
        text->failed = !wider;
        text->data = wider ? wider : text->data;
        text->room = wider ? room : text->room;
    }
    if (text->failed)
        return;
    memcpy(text->data + text->length, bytes, count);
    text->length += count;
}

static void put(mr_metrics_text *text, const char *word) {
    add(text, word, strlen(word));
}

static void put_count(mr_metrics_text *text, uint64_t value) {
    char digits[24], *first = digits + sizeof digits;
    do {
        *--first = (char)('0' + value % 10);
    } while (value /= 10);
    add(text, first, (size_t)(digits + sizeof digits - first));
}

static void put_number(mr_metrics_text *text, double value) {
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

void mr_metrics_family(mr_metrics_text *text, const char *name, const char *kind, const char *help) {
    text->name = name;
    text->kind = kind;
    text->help = help;
    text->begun = false;
}

static bool is(const mr_metrics_text *text, const char *kind) {
    return strcmp(text->kind, kind) == 0;
}

static const char *ending_of(const mr_metrics_text *text) {
    return is(text, "counter") ? "_total" : is(text, "info") ? "_info" : "";
}

static void put_head_line(mr_metrics_text *text, const char *what, const char *rest) {
    put(text, what);
    put(text, PREFIX);
    put(text, text->name);
    if (!text->open)
        put(text, ending_of(text));
    put(text, " ");
    put(text, rest);
    put(text, "\n");
}

static void begin_family(mr_metrics_text *text) {
    const bool info = is(text, "info");
    if (text->begun)
        return;
    text->begun = true;
    put_head_line(text, "# HELP ", text->help);
    put_head_line(text, "# TYPE ", info && !text->open ? "gauge" : text->kind);
}

size_t mr_metrics_label(mr_metrics_text *text, const char *name, const char *value) {
    const size_t before = text->labels_length, room = sizeof text->labels - 3;
    size_t at = before;
    if (!value || !*value || before + strlen(name) + 2 > room)
        return before;
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
    return before;
}

void mr_metrics_unlabel(mr_metrics_text *text, size_t length) {
    text->labels_length = length;
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

static void put_sample(mr_metrics_text *text, const char *ending, const char *bound) {
    begin_family(text);
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

void mr_metrics_count(mr_metrics_text *text, uint64_t value) {
    put_sample(text, ending_of(text), NULL);
    put_count(text, value);
    put(text, "\n");
}

void mr_metrics_number(mr_metrics_text *text, double value) {
    put_sample(text, ending_of(text), NULL);
    put_number(text, value);
    put(text, "\n");
}

void mr_metrics_durations(mr_metrics_text *text, const mr_durations *durations) {
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

char *mr_metrics_finish(mr_metrics_text *text, size_t *bytes) {
    if (text->open)
        put(text, "# EOF\n");
    *bytes = text->length;
    if (!text->failed)
        return text->data;
    free(text->data);
    return NULL;
}

#include "tests/support/suite.h"
#include "tests/support/transport/cut_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"

enum { MOST_LINES = 20000 };

char cut_file[128], cut_gate[128];

int cut_make_folder(void **state) {
    int failed = make_temporary_folder(state);
    snprintf(cut_file, sizeof cut_file, "%s/record", temporary_folder);
    snprintf(cut_gate, sizeof cut_gate, "%s/gate", temporary_folder);
    return failed;
}

void cut_open_gate(void) {
    FILE *gate = fopen(cut_gate, "w");
    assert_non_null(gate);
    fclose(gate);
}

const char *cut_pipeline(const char *sources, const char *stages, const char *last, const char *nodes) {
    static char text[CUT_TEXT];
    int bytes =
        snprintf(text, sizeof text,
                 "version: 1\npipeline: cuts\nsources:\n%sstages:\n%s  kept: {type: record, input: %s, path: %s}\n"
                 "nodes:\n%s",
                 sources, stages, last, cut_file, nodes);
    assert_true(bytes < CUT_TEXT);
    return text;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

typedef char line[64];

void cut_check_record(const char *source, int count, int step, int64_t noted, bool ordered) {
    static line got[MOST_LINES], wanted[MOST_LINES];
    FILE *stream = fopen(cut_file, "r");
    size_t lines = 0, expected = 0;
    assert_non_null(stream);
    while (lines < MOST_LINES && fgets(got[lines], sizeof(line), stream))
        lines++;
    fclose(stream);
    for (int seq = 0; seq < count; seq += step)
        snprintf(wanted[expected++], sizeof(line), "%s 0 %d 0 %lld\n", source, seq,
                 noted ? (long long)(seq + noted) : 0LL);
    if (!ordered) {
        qsort(got, lines, sizeof(line), by_text);
        qsort(wanted, expected, sizeof(line), by_text);
    }
    for (size_t i = 0; i < lines && i < expected; i++)
        assert_string_equal(got[i], wanted[i]);
    assert_int_equal(lines, expected);
}

void cut_check_ledger(const node_report *report, uint64_t in, uint64_t delivered, uint64_t absorbed,
                         uint64_t dropped) {
    assert_int_equal(report->status, MR_OK);
    assert_int_equal(report->in, in);
    assert_int_equal(report->delivered, delivered);
    assert_int_equal(report->absorbed, absorbed);
    assert_int_equal(report->dropped, dropped);
}

void cut_run_two(const char *text, node_report *a, node_report *b) {
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    *a = node_finish(&producer);
    *b = node_finish(&consumer);
}

void cut_pass_all(const char *text, uint64_t frames) {
    node_report a, b;
    cut_run_two(text, &a, &b);
    cut_check_ledger(&a, frames, frames, 0, 0);
    cut_check_ledger(&b, frames, frames, 0, 0);
    assert_int_equal(node_count_lines(cut_file), frames);
}

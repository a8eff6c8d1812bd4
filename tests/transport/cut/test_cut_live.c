/* Live cuts as one path to a join. Whatever they drop, and whoever is missing, the other path continues, and every
 * frame is accounted for. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/support/transport/cut_record.h"

/* More than all queues on the path can hold, so nothing can be held up. */
enum { FAR = 400 };

static char seen[160];

/* Frames from two sources reach a join both directly and through another node, `there`; the direct path is also
 * recorded, as `seen`. */
static const char *there_and_back(const char *sources, const char *there, const char *back) {
    static char text[CUT_TEXT];
    snprintf(seen, sizeof seen, "%s/seen", temporary_folder);
    int bytes = snprintf(text, sizeof text,
                         "version: 1\npipeline: cuts\nsources:\n%sstages:\n"
                         "  first: {type: pass, input: sources.*}\n  seen: {type: record, input: first, path: %s}\n"
                         "  there: {%s}\n  both: {type: meet, join: {x: first, y: there}, cut: %s}\n"
                         "  kept: {type: record, input: both, path: %s}\n"
                         "nodes:\n  a: {stages: [first, seen, both, kept]}\n  b: {stages: [there]}\n",
                         sources, seen, there, back, cut_file);
    assert_true(bytes < CUT_TEXT);
    return text;
}

static void await_more(const char *path, size_t lines) {
    node_await_lines(path, node_count_lines(path) + lines);
}

static void check_balance(const node_report *report) {
    assert_int_equal(report->status, 0);
    assert_int_equal(report->in, report->delivered + report->absorbed + report->dropped);
}

/* The other node is not there yet, then killed, then stopped, while frames keep coming on the direct path. */
static void trouble(const char *text) {
    node_process a = node_start(text, "a", temporary_folder);
    node_await_lines(seen, FAR);
    node_process b = node_start(text, "b", temporary_folder);
    await_more(cut_file, FAR);
    node_kill(&b);
    await_more(seen, FAR);
    b = node_start(text, "b", temporary_folder);
    await_more(cut_file, FAR);
    kill(b.pid, SIGSTOP);
    await_more(seen, FAR);
    kill(b.pid, SIGCONT);
    await_more(cut_file, FAR);
    kill(a.pid, SIGTERM);
    kill(b.pid, SIGTERM);
    node_report of_a = node_finish(&a), of_b = node_finish(&b);
    check_balance(&of_a);
    check_balance(&of_b);
    assert_non_null(strstr(of_a.lines, "first->b no consumer "));
    assert_true(node_count_lines(seen) >= of_a.delivered);
}

static const char endless[] = "  n: {type: count, frames: 100000000, period: 1ms}\n"
                              "  m: {type: count, frames: 100000000, period: 1ms}\n";

TEST_WITH(test_nobody_is_waited_for, cut_make_folder, remove_temporary_folder) {
    trouble(there_and_back(endless, "type: pass, input: first, cut: {mode: live, heartbeat: 100ms}",
                           "{mode: live, heartbeat: 100ms}"));
}

/* If it is unknown how many frames are missing, the remote batch leaves with what it has. */
TEST_WITH(test_no_batch_is_waited_for, cut_make_folder, remove_temporary_folder) {
    trouble(there_and_back(endless, "type: batcher, input: first, batch: 8, cut: {mode: live, heartbeat: 100ms}",
                           "{mode: live, heartbeat: 100ms}"));
}

/* Frames for which the other node is too slow are dropped before it and find no partner; everything ends by itself. */
TEST_WITH(test_slow_ways_lose_and_end, cut_make_folder, remove_temporary_folder) {
    const char *text =
        there_and_back("  n: {type: count, frames: 1500}\n",
                       "type: slow, input: first, period: 3ms, cut: {mode: live, window: 8}", "reliable");
    node_process a = node_start(text, "a", temporary_folder), b = node_start(text, "b", temporary_folder);
    node_report of_a = node_finish(&a), of_b = node_finish(&b);
    check_balance(&of_a);
    check_balance(&of_b);
    assert_int_equal(of_a.in, 1500);
    assert_true(node_count_lines(seen) >= of_a.delivered);
}

int main(void) {
    cmocka_set_test_filter(getenv("ONLY"));
    return run_suite(NULL, NULL);
}

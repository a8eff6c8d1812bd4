/* Cuts whose other side is slow, is shared by several processes, or dies from the input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/transport/cut_record.h"

enum { REPLICAS = 3 };

/* ---- several processes ------------------------------------------------------------------------------------------- */

static const char *shared_work(int frames, const char *stages) {
    char source[64];
    snprintf(source, sizeof source, "  n: {type: count, frames: %d}\n", frames);
    return cut_pipeline(source, stages, "work",
                        "  a: {stages: [first]}\n  b: {stages: [work], replicas: 3}\n  c: {stages: [kept]}\n");
}

static const char plain_work[] = "  first: {type: pass, input: n}\n  work: {type: chew, input: first, uneven: true}\n";

/* Like plain_work, but the run continues until the gate is open. */
static const char *held_work(int frames) {
    char stages[256];
    snprintf(stages, sizeof stages,
             "  first: {type: hold, input: n, at: 1000, file: %s}\n  work: {type: chew, input: first, uneven: true}\n",
             cut_gate);
    return shared_work(frames, stages);
}

static void start_workers(const char *text, node_process workers[REPLICAS]) {
    for (int i = 0; i < REPLICAS; i++)
        workers[i] = node_start_replica(text, "b", i, temporary_folder);
}

/* Frames that one process finishes earlier than another are put in order again; dropped frames are not waited for. A
 * process that was silent too long has done some work in vain, which counts only there. */
TEST_WITH(test_replicas_keep_order, cut_make_folder, remove_temporary_folder) {
    node_process workers[REPLICAS];
    const char *text = shared_work(1500, plain_work);
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "c", temporary_folder);
    start_workers(text, workers);
    node_report a = node_finish(&producer), c = node_finish(&consumer);
    uint64_t worked = 0;
    for (int i = 0; i < REPLICAS; i++)
        worked += node_finish(&workers[i]).delivered;
    assert_true(worked >= 1500);
    cut_check_record("n", 1500, 1, 0, true);
    cut_check_ledger(&a, 1500, 1500, 0, 0);
    cut_check_ledger(&c, 1500, 1500, 0, 0);
}

TEST_WITH(test_replicas_are_killed, cut_make_folder, remove_temporary_folder) {
    node_process workers[REPLICAS];
    const char *text = held_work(2000);
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "c", temporary_folder);
    start_workers(text, workers);
    for (int i = 0; i < REPLICAS; i++) {
        node_await_lines(cut_file, 100 + 200 * (size_t)i);
        node_kill(&workers[i]);
        workers[i] = node_start_replica(text, "b", i, temporary_folder);
    }
    cut_open_gate();
    node_report a = node_finish(&producer), c = node_finish(&consumer);
    for (int i = 0; i < REPLICAS; i++)
        assert_int_equal(node_finish(&workers[i]).status, 0);
    cut_check_record("n", 2000, 1, 0, false);
    cut_check_ledger(&a, 2000, 2000, 0, 0);
    assert_int_equal(c.status, 0);
}

/* ---- a frame that kills ------------------------------------------------------------------------------------------ */

/* Reads a file from the test's folder with dead letters. */
static size_t read_letter(const char *name, char *bytes, size_t room) {
    char path[256];
    snprintf(path, sizeof path, "%s/dead/%s", temporary_folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(bytes, 1, room, file);
    fclose(file);
    return got;
}

static yajl_val member(yajl_val letter, const char *name) {
    yajl_val value = yajl_tree_get(letter, (const char *[]){name, NULL}, yajl_t_any);
    assert_non_null(value);
    return value;
}

static void check_letter(const char *reason) {
    char text[4096] = {0}, payload[300];
    read_letter("n-0-50-0.json", text, sizeof text - 1);
    yajl_val letter = yajl_tree_parse(text, NULL, 0);
    assert_non_null(letter);
    const char *const texts[][2] = {{"pipeline", "cuts"}, {"cut", "big->b"}, {"source", "n"}, {"reason", reason},
                                    {"payload", "n-0-50-0.payload"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(YAJL_GET_STRING(member(letter, texts[i][0])), texts[i][1]);
    assert_int_equal(YAJL_GET_INTEGER(member(letter, "epoch")), 0);
    assert_int_equal(YAJL_GET_INTEGER(member(letter, "seq")), 50);
    assert_int_equal(YAJL_GET_INTEGER(member(letter, "sub")), 0);
    yajl_tree_free(letter);
    assert_int_equal(read_letter("n-0-50-0.payload", payload, sizeof payload), 200);
    for (int i = 0; i < 200; i++)
        assert_int_equal(payload[i], 50);
}

TEST_WITH(test_poison_is_set_aside, cut_make_folder, remove_temporary_folder) {
    char stages[256];
    int deaths = 0;
    snprintf(stages, sizeof stages,
             "  big: {type: bulk, input: n, bytes: 200}\n"
             "  frail: {type: chew, input: big, fatal_at: 50, cut: {dead_letters: %s/dead, heartbeat: 100s}}\n",
             temporary_folder);
    const char *text = cut_pipeline("  n: {type: count, frames: 300}\n", stages, "frail",
                                    "  a: {stages: [big]}\n  b: {stages: [frail, kept]}\n");
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    while (node_await_death(&consumer)) {
        deaths++;
        consumer = node_start(text, "b", temporary_folder);
    }
    node_report a = node_finish(&producer), b = node_finish(&consumer);
    assert_true(deaths >= 2);
    assert_int_equal(b.status, 0);
    cut_check_ledger(&a, 300, 299, 0, 1);
    assert_non_null(strstr(a.lines, "dropped big->b set aside 1;"));
    assert_int_equal(node_count_lines(cut_file), 299);
    check_letter("set aside");
}

/* A frame that the consumer cannot read is the only one lost, and becomes a dead letter; without a folder it is only
 * dropped. */
TEST_WITH(test_what_cannot_be_read_is_set_aside, cut_make_folder, remove_temporary_folder) {
    char stages[256], letters[128] = "";
    for (int folder = 0; folder < 2; folder++) {
        if (folder)
            snprintf(letters, sizeof letters, ", dead_letters: %s/dead", temporary_folder);
        snprintf(stages, sizeof stages,
                 "  big: {type: bulk, input: n, bytes: 200, unreadable_at: 50}\n"
                 "  frail: {type: chew, input: big, cut: {heartbeat: 100ms%s}}\n", letters);
        const char *text = cut_pipeline("  n: {type: count, frames: 300}\n", stages, "frail",
                                        "  a: {stages: [big]}\n  b: {stages: [frail, kept]}\n");
        unlink(cut_file);
        node_report a, b;
        cut_run_two(text, &a, &b);
        assert_int_equal(b.status, 0);
        cut_check_ledger(&a, 300, 299, 0, 1);
        assert_non_null(strstr(a.lines, "dropped big->b refused 1;"));
        assert_int_equal(node_count_lines(cut_file), 299);
    }
    check_letter("refused");
}

/* ---- objects that take more room than their frames --------------------------------------------------------------- */

static const char *with_masks(int frames, const char *bulk, const char *cut) {
    char source[64], stages[512];
    snprintf(source, sizeof source, "  n: {type: count, frames: %d}\n", frames);
    snprintf(stages, sizeof stages,
             "  big: {type: bulk, input: n, bytes: 200, %s}\n"
             "  all: {type: batcher, input: big, cut: {heartbeat: 100ms%s}, batch: 32}\n", bulk, cut);
    return cut_pipeline(source, stages, "all", "  a: {stages: [big]}\n  b: {stages: [all, kept]}\n");
}

/* The thread sanitizer takes minutes for megabytes that came from libzmq, which it does not know. */
static const char *const masks = UNDER_TSAN("mask: 500", "mask: 50000");

/* The batch waits for the whole window, whatever is known about the frames. */
TEST_WITH(test_masks_close_no_window, cut_make_folder, remove_temporary_folder) {
    cut_pass_all(with_masks(320, masks, ", window: 32"), 320);
    unlink(cut_file);
    cut_pass_all(with_masks(320, masks, ", window: 32, inline: true"), 320);
}

/* Only the frame that no message can hold is lost, and becomes a dead letter. Any other fits, alone if it must. */
TEST_WITH(test_masks_that_are_too_large, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    char cut[192];
    if (UNDER_TSAN(true, false))
        skip();
    snprintf(cut, sizeof cut, ", window: 32, dead_letters: %s/dead", temporary_folder);
    cut_run_two(with_masks(80, "mask: 4000000, large_at: 50", cut), &a, &b);
    assert_int_equal(b.status, 0);
    cut_check_ledger(&a, 80, 79, 0, 1);
    assert_non_null(strstr(a.lines, "dropped big->b too large 1;"));
    assert_int_equal(node_count_lines(cut_file), 79);
    check_letter("too large");
}

/* ---- a slow consumer --------------------------------------------------------------------------------------------- */

static const char *slow_work(int frames, const char *mode) {
    char source[64], stages[256];
    snprintf(source, sizeof source, "  n: {type: count, frames: %d}\n", frames);
    snprintf(stages, sizeof stages,
             "  big: {type: bulk, input: n, bytes: 300000}\n"
             "  slow: {type: slow, input: big, period: 10ms, cut: %s}\n", mode);
    return cut_pipeline(source, stages, "slow", "  a: {stages: [big]}\n  b: {stages: [slow, kept]}\n");
}

static void check_memory(const node_report *report, uint64_t least) {
    assert_true(report->planned_bytes > 0);
    assert_true(report->pool_bytes <= report->planned_bytes);
    assert_true(report->pool_bytes >= least);
}

/* The producer waits, and no more frames are in flight than planned. */
TEST_WITH(test_slow_consumer, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    cut_run_two(slow_work(300, "{window: 8}"), &a, &b);
    cut_check_record("n", 300, 1, 0, true);
    cut_check_ledger(&a, 300, 300, 0, 0);
    check_memory(&a, 300000);
    assert_true(a.planned_bytes < 300 * 300000);
}

/* It does not wait: frames not taken in time are dropped and counted. */
TEST_WITH(test_slow_consumer_of_a_live_cut, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    cut_run_two(slow_work(2000, "{mode: live, window: 8}"), &a, &b);
    assert_int_equal(a.in, 2000);
    assert_int_equal(a.delivered + a.dropped, 2000);
    assert_true(a.dropped > 0);
    assert_true(node_count_lines(cut_file) >= a.delivered);
    check_memory(&a, 300000);
}

int main(void) {
    cmocka_set_test_filter(getenv("ONLY"));
    return run_suite(NULL, NULL);
}

/* Objects in the ledger: accounts apart from frames, and the outcomes that one has from the other. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/flow/ledger/ledger.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

static mr_ledger *ledger;
static mr_receipt *frame;

static int set_up(void **state) {
    assert_int_equal(mr_ledger_create(&ledger, 2), MR_OK);
    assert_int_equal(mr_ledger_open(ledger, &(mr_identity){.source = 1, .seq = 5}, &frame), MR_OK);
    return 0;
}

static int tear_down(void **state) {
    mr_ledger_release(&ledger);
    return 0;
}

static mr_receipt *object_of(mr_receipt *parent, uint32_t number) {
    mr_receipt *made;
    assert_int_equal(mr_ledger_derive(parent, &(mr_identity){.source = 1, .seq = 5, .sub = number}, &made), MR_OK);
    return made;
}

static void expect(mr_ledger_page page, uint64_t in, uint64_t delivered, uint64_t dropped, uint64_t absorbed) {
    mr_ledger_account account;
    mr_ledger_read(ledger, 1, page, &account);
    assert_int_equal(account.in, in);
    assert_int_equal(account.delivered, delivered);
    assert_int_equal(account.dropped, dropped);
    assert_int_equal(account.absorbed, absorbed);
    assert_int_equal(account.unaccounted, 0);
    mr_free(account.lines);
}

/* The frame stays open as long as an object is. */
TEST_WITH(gathered_objects_share_the_outcome, set_up, tear_down) {
    mr_receipt *one = object_of(frame, 1), *other = object_of(frame, 2), *lost = object_of(frame, 3);
    mr_receipt_note(frame, MR_NOTE_ABSORBED, "crop", "cropped");
    mr_receipt_gather(frame, one, 0);
    mr_receipt_gather(frame, other, 0);
    mr_receipt_note(lost, MR_NOTE_DROPPED, "classify", "queue full");
    mr_receipt_note(frame, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&frame);
    mr_receipt_unref(&one);
    mr_receipt_unref(&lost);
    expect(MR_LEDGER_FRAMES, 1, 0, 0, 0);
    expect(MR_LEDGER_OBJECTS, 3, 0, 1, 0);
    mr_receipt_unref(&other);
    expect(MR_LEDGER_FRAMES, 1, 1, 0, 0);
    expect(MR_LEDGER_OBJECTS, 3, 2, 1, 0);
}

/* Of a run that continues: its objects may have gone to another node and come back. */
TEST_WITH(what_was_done_before_counts_as_that, set_up, tear_down) {
    mr_receipt *one = object_of(frame, 1), *other = object_of(frame, 2);
    mr_ledger_account account;
    mr_receipt_note(frame, MR_NOTE_ABSORBED, "crop", "cropped");
    mr_receipt_note(one, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&one);
    mr_receipt_note(frame, MR_NOTE_ABSORBED, "gather", MR_REASON_DONE_BEFORE);
    mr_receipt_gather(frame, other, 0);
    mr_receipt_unref(&other);
    mr_receipt_unref(&frame);
    expect(MR_LEDGER_FRAMES, 1, 0, 0, 1);
    expect(MR_LEDGER_OBJECTS, 2, 1, 0, 1);
    mr_ledger_read(ledger, 1, MR_LEDGER_FRAMES, &account);
    assert_int_equal(account.line_count, 1);
    assert_string_equal(account.lines[0].stage, "gather");
    assert_string_equal(account.lines[0].reason, MR_REASON_DONE_BEFORE);
    mr_free(account.lines);
}

TEST_WITH(a_frame_is_dropped_with_its_objects, set_up, tear_down) {
    mr_receipt *one = object_of(frame, 1);
    mr_receipt_gather(frame, one, 0);
    mr_receipt_unref(&one);
    mr_receipt_note(frame, MR_NOTE_DROPPED, "jsonl", "queue full");
    mr_receipt_unref(&frame);
    expect(MR_LEDGER_FRAMES, 1, 0, 1, 0);
    expect(MR_LEDGER_OBJECTS, 1, 0, 1, 0);
}

/* Without a stage that gathers: a frame is delivered through an object. */
TEST_WITH(an_object_delivers_its_frame, set_up, tear_down) {
    mr_receipt *one = object_of(frame, 1), *other = object_of(frame, 2);
    mr_receipt_note(frame, MR_NOTE_ABSORBED, "crop", "cropped");
    mr_receipt_unref(&frame);
    mr_receipt_note(one, MR_NOTE_ABSORBED, "filter", "filtered");
    mr_receipt_note(other, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&other);
    mr_receipt_unref(&one);
    expect(MR_LEDGER_FRAMES, 1, 1, 0, 0);
    expect(MR_LEDGER_OBJECTS, 2, 1, 0, 1);
}

/* The run ends: a later run must get the frame again, for the object's sake. */
TEST_WITH(a_stopped_object_leaves_its_frame_unsettled, set_up, tear_down) {
    mr_receipt *one = object_of(frame, 1);
    mr_receipt_note(frame, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&frame);
    mr_receipt_note(one, MR_NOTE_DROPPED, "classify", MR_REASON_STOPPED);
    mr_receipt_unref(&one);
    expect(MR_LEDGER_FRAMES, 1, 0, 1, 0);
}

typedef struct report {
    mr_receipt_watcher watcher;
    mr_note note;
    const char *reason;
} report;

static void closed(mr_receipt_watcher *watcher, mr_note note, const char *stage, const char *reason) {
    report *of = (report *)watcher;
    of->note = note;
    of->reason = reason;
}

/* An object that came from another node is reported there with its frame, never before. */
static void report_arrived(mr_note note, const char *reason) {
    mr_receipt *arrived;
    report of = {.watcher = {.closed = closed}};
    assert_int_equal(mr_ledger_arrive(ledger, &(mr_identity){.source = 1, .seq = 5, .sub = 1}, &(mr_span_context){0},
                                      &of.watcher, &arrived), MR_OK);
    mr_receipt_gather(frame, arrived, 1);
    mr_receipt_gather(frame, arrived, 1); /* by another stage */
    mr_receipt_unref(&arrived);
    assert_int_equal(of.note, MR_NOTE_NONE);
    mr_receipt_note(frame, note, reason ? "jsonl" : NULL, reason);
    mr_receipt_unref(&frame);
    assert_int_equal(of.note, note);
    assert_true(!reason || strcmp(of.reason, reason) == 0);
    expect(MR_LEDGER_ARRIVED_OBJECTS, 1, note == MR_NOTE_DELIVERED, note == MR_NOTE_DROPPED, 0);
    expect(MR_LEDGER_OBJECTS, 0, 0, 0, 0);
}

TEST_WITH(arrived_objects_are_reported_with_their_frame, set_up, tear_down) {
    report_arrived(MR_NOTE_DELIVERED, NULL);
}

TEST_WITH(arrived_objects_of_a_stopped_run_come_again, set_up, tear_down) {
    report_arrived(MR_NOTE_DROPPED, MR_REASON_STOPPED);
}

/* Producers keep only so many: others do not wait for their frame. */
TEST_WITH(few_arrived_objects_wait, set_up, tear_down) {
    report of[3] = {{.note = MR_NOTE_NONE}};
    for (uint32_t i = 0; i < 3; i++) {
        mr_receipt *arrived;
        of[i].watcher.closed = closed;
        assert_int_equal(mr_ledger_arrive(ledger, &(mr_identity){.source = 1, .seq = 5, .sub = i + 1},
                                          &(mr_span_context){0}, &of[i].watcher, &arrived), MR_OK);
        mr_receipt_gather(frame, arrived, 2);
        mr_receipt_unref(&arrived);
        assert_int_equal(of[i].note, i < 2 ? MR_NOTE_NONE : MR_NOTE_DELIVERED);
    }
    mr_receipt_note(frame, MR_NOTE_ABSORBED, "filter", "filtered");
    mr_receipt_unref(&frame);
    assert_int_equal(of[0].note, MR_NOTE_ABSORBED);
    expect(MR_LEDGER_ARRIVED_OBJECTS, 3, 1, 0, 2);
}

RUN_TESTS(NULL, NULL)

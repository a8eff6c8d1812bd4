/* Frames that come again, since the process that makes them was replaced, while the former ones may still be open. */
#include "engine/flow/instance/again.h"
#include "engine/flow/ledger/ledger.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { PERIOD = 3 };

static mr_ledger *ledger;

typedef struct watched {
    mr_receipt_watcher watcher;
    int closed;
    mr_note note;
    const char *reason;
} watched;

static void note_closed(mr_receipt_watcher *watcher, mr_note note, const char *stage, const char *reason) {
    watched *at = (watched *)(void *)watcher;
    at->closed++;
    at->note = note;
    at->reason = reason;
}

static int set_up(void **state) {
    assert_int_equal(mr_ledger_create(&ledger, 2), MR_OK);
    return 0;
}

static int tear_down(void **state) {
    mr_ledger_release(&ledger);
    return 0;
}

static mr_receipt *arrive(watched *at, int returned) {
    mr_receipt *receipt;
    const mr_identity frame = {.source = 1, .seq = 5};
    *at = (watched){.watcher = {.closed = note_closed, .returned = returned}};
    assert_int_equal(mr_ledger_arrive(ledger, &frame, NULL, &at->watcher, &receipt), MR_OK);
    return receipt;
}

/* The producer must not take a frame for settled whose first copy would be lost with this process. */
TEST_WITH(a_frame_is_settled_after_the_former_one, set_up, tear_down) {
    watched first, second, third;
    mr_receipt *former = arrive(&first, 0), *again = arrive(&second, PERIOD), *more = arrive(&third, 2 * PERIOD);
    mr_receipt_note(again, MR_NOTE_ABSORBED, "rows", MR_REASON_DONE_BEFORE);
    mr_receipt_note(more, MR_NOTE_ABSORBED, "rows", MR_REASON_DONE_BEFORE);
    mr_receipt_await_former(more, PERIOD);
    mr_receipt_await_former(again, PERIOD);
    mr_receipt_await_former(again, PERIOD);
    mr_receipt_await_former(former, PERIOD);
    mr_receipt_await_former(NULL, PERIOD);
    mr_receipt_unref(&more);
    mr_receipt_unref(&again);
    assert_int_equal(second.closed + third.closed, 0);
    mr_receipt_note(former, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&former);
    assert_int_equal(first.closed, 1);
    assert_int_equal(second.closed, 1);
    assert_int_equal(third.closed, 1);
    assert_int_equal(first.note, MR_NOTE_DELIVERED);
    assert_int_equal(second.note, MR_NOTE_ABSORBED);
    assert_int_equal(third.note, MR_NOTE_ABSORBED);
}

/* It comes once more. */
TEST_WITH(a_frame_is_lost_with_the_former_one, set_up, tear_down) {
    watched first, second;
    mr_receipt *former = arrive(&first, 0), *again = arrive(&second, PERIOD);
    mr_receipt_note(again, MR_NOTE_ABSORBED, "rows", MR_REASON_DONE_BEFORE);
    mr_receipt_await_former(again, PERIOD);
    mr_receipt_unref(&again);
    mr_receipt_note(former, MR_NOTE_DROPPED, "rows", MR_REASON_STOPPED);
    mr_receipt_unref(&former);
    assert_int_equal(second.closed, 1);
    assert_int_equal(second.note, MR_NOTE_DROPPED);
    assert_string_equal(second.reason, MR_REASON_STOPPED);
}

/* A frame that passes this process twice is settled the other way round: the second time first. */
TEST_WITH(a_frame_that_came_back_waits_for_nothing, set_up, tear_down) {
    watched first, second;
    mr_receipt *out = arrive(&first, 0), *back = arrive(&second, 1);
    mr_receipt_note(back, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_await_former(back, PERIOD);
    mr_receipt_unref(&back);
    assert_int_equal(second.closed, 1);
    mr_receipt_note(out, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&out);
    assert_int_equal(first.closed, 1);
}

/* The parent is what the producer waits for. */
TEST_WITH(the_frame_of_an_object_waits, set_up, tear_down) {
    watched first, second;
    mr_receipt *former = arrive(&first, 0), *again = arrive(&second, PERIOD), *object;
    const mr_identity own = {.source = 1, .seq = 5, .sub = 1};
    assert_int_equal(mr_ledger_derive(again, &own, &object), MR_OK);
    mr_receipt_note(object, MR_NOTE_ABSORBED, "rows", MR_REASON_DONE_BEFORE);
    mr_receipt_note(again, MR_NOTE_ABSORBED, "crop", "cropped");
    mr_receipt_await_former(object, PERIOD);
    mr_receipt_unref(&object);
    mr_receipt_unref(&again);
    assert_int_equal(second.closed, 0);
    mr_receipt_note(former, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&former);
    assert_int_equal(second.closed, 1);
}

TEST(what_follows_is_new) {
    mr_again_filter filter = {0};
    mr_frame frame = {.identity = {.source = 1, .epoch = 1, .seq = 5, .sub = 2}};
    mr_again_note(&filter, &frame);
    assert_false(mr_again_has(&filter, &frame));
    assert_int_equal(mr_again_create(&filter, 2), MR_OK);
    assert_false(mr_again_has(&filter, &frame));
    mr_again_note(&filter, &frame);
    assert_true(mr_again_has(&filter, &frame));
    const mr_identity before[] = {{1, 1, 5, 1}, {1, 1, 4, 3}, {1, 0, 9, 0}},
                      after[] = {{1, 1, 5, 3}, {1, 1, 6, 0}, {1, 2, 0, 0}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        frame.identity = before[i];
        mr_again_note(&filter, &frame);
        assert_true(mr_again_has(&filter, &frame));
    }
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        frame.identity = after[i];
        assert_false(mr_again_has(&filter, &frame));
    }
    mr_again_destroy(&filter);
}

RUN_TESTS(NULL, NULL)

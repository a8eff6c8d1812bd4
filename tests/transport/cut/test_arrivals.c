/* When outcomes of frames from a cut must be reported: singly if they are rare, together if they are frequent. */
#include "engine/transport/cut/arrivals.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { MANY = 4, GATHER_NS = 100, SOURCES = 1 };

typedef struct fixture {
    mr_ledger *ledger;
    mr_arrivals *arrivals;
    uint64_t seq;
} fixture;

static void begin(fixture *f) {
    *f = (fixture){0};
    assert_int_equal(mr_ledger_create(&f->ledger, SOURCES), MR_OK);
    assert_int_equal(mr_arrivals_create(&f->arrivals, MANY, GATHER_NS), MR_OK);
}

static void end(fixture *f) {
    mr_arrivals_close(&f->arrivals);
    mr_ledger_release(&f->ledger);
}

#define ARRIVALS_TEST(name) TEST_GIVEN(name, fixture, f, begin(&made), end(&made))

static mr_receipt *arrive(fixture *f) {
    mr_receipt *receipt = NULL;
    const mr_identity frame = {.seq = f->seq};
    assert_int_equal(mr_arrivals_open(f->arrivals, f->ledger, &frame, &(mr_span_context){0}, f->seq++, &receipt),
                     MR_OK);
    return receipt;
}

static void settle(fixture *f, int count) {
    for (int i = 0; i < count; i++) {
        ENDED_BY(mr_receipt_unref) mr_receipt *receipt = arrive(f);
        mr_receipt_note(receipt, MR_NOTE_DELIVERED, NULL, NULL);
    }
}

/* How many must be reported now, and until when the rest can wait; INT64_MAX: there is no rest. */
static void expect_taken(fixture *f, int64_t now_ns, int count, int64_t wake_ns) {
    int64_t wakes_ns = INT64_MAX;
    int taken = 0;
    mr_arrival *first = mr_arrivals_take(f->arrivals, false, now_ns, &wakes_ns);
    for (const mr_arrival *arrival = first; arrival; arrival = arrival->next, taken++)
        assert_int_equal(arrival->record, MR_NOTE_DELIVERED);
    if (first)
        mr_arrivals_give_back(f->arrivals, first);
    assert_int_equal(taken, count);
    assert_int_equal(wakes_ns, wake_ns);
}

ARRIVALS_TEST(one_by_one_they_wait_for_nothing) {
    for (int64_t now_ns = 1000; now_ns < 2000; now_ns += GATHER_NS) {
        settle(f, 1);
        expect_taken(f, now_ns, 1, INT64_MAX);
    }
}

ARRIVALS_TEST(thick_ones_are_gathered) {
    ENDED_BY(mr_receipt_unref) mr_receipt *open = arrive(f);
    settle(f, 1);
    expect_taken(f, 1000, 1, INT64_MAX);
    settle(f, 1);
    expect_taken(f, 1001, 1, 1101);
    settle(f, 2);
    expect_taken(f, 1050, 0, 1101);
    expect_taken(f, 1101, 2, 1201);
    settle(f, MANY - 1);
    expect_taken(f, 1102, 0, 1201);
    settle(f, 1);
    expect_taken(f, 1103, MANY, 1203);
    /* After a pause, the next one is reported singly again. */
    expect_taken(f, 1203, 0, INT64_MAX);
    settle(f, 1);
    expect_taken(f, 1400, 1, INT64_MAX);
}

/* A late wake-up may find more than it was woken for. */
ARRIVALS_TEST(more_than_many_wait_no_longer_than_many) {
    ENDED_BY(mr_receipt_unref) mr_receipt *open = arrive(f);
    settle(f, 2);
    expect_taken(f, 1000, 2, 1100);
    settle(f, MANY + 1);
    expect_taken(f, 1001, MANY + 1, 1101);
    mr_receipt_note(open, MR_NOTE_DELIVERED, NULL, NULL);
}

/* If nothing else is open, half of the usual number is enough. */
ARRIVALS_TEST(what_is_last_waits_for_nothing) {
    settle(f, 2);
    expect_taken(f, 1000, 2, 1100);
    settle(f, 1);
    expect_taken(f, 1001, 0, 1100);
    mr_receipt *open = arrive(f);
    settle(f, 1);
    expect_taken(f, 1002, 0, 1100);
    mr_receipt_note(open, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&open);
    expect_taken(f, 1003, 3, 1103);
}

/* A frame over several cuts has one receipt, but another one when it comes back: that must not wait for the first. */
ARRIVALS_TEST(what_comes_back_is_accounted_for_apart) {
    mr_receipt *first = arrive(f), *beside = NULL, *again = NULL;
    f->seq = 0;
    beside = arrive(f);
    assert_ptr_equal(first, beside);
    mr_arrivals_set_returned(f->arrivals, 1);
    f->seq = 0;
    again = arrive(f);
    assert_ptr_not_equal(first, again);
    mr_receipt_note(again, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&again);
    expect_taken(f, 1000, 1, INT64_MAX);
    mr_receipt_note(first, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&beside);
    mr_receipt_unref(&first);
}

RUN_TESTS(NULL, NULL)

/* Spans of frames, of frames that came over cuts, and of objects. */
#include "engine/flow/ledger/ledger.h"
#include "tests/support/suite.h"

enum { ROOM = 8 };

static mr_ledger *ledger;
static mr_spans *spans;

static void set_up_with(double share) {
    assert_int_equal(mr_ledger_create(&ledger, 1), MR_OK);
    assert_int_equal(mr_spans_create(&spans, &(mr_spans_params){.share = share, .run = 7, .clock = mr_clock_real(),
                                                                .source_count = 1}), MR_OK);
    mr_spans_name(spans, 0, "cam");
    mr_ledger_set_spans(ledger, spans);
}

static int set_up(void **state) {
    set_up_with(1);
    return 0;
}

static int set_up_none(void **state) {
    set_up_with(0);
    return 0;
}

static int tear_down(void **state) {
    mr_ledger_release(&ledger);
    mr_spans_destroy(&spans);
    return 0;
}

static const mr_identity FRAME = {.epoch = 1, .seq = 5};

static mr_receipt *opened(void) {
    mr_receipt *receipt;
    assert_int_equal(mr_ledger_open(ledger, &FRAME, &receipt), MR_OK);
    return receipt;
}

static void closed(mr_receipt_watcher *watcher, mr_note note, const char *stage, const char *reason) {
}

TEST_WITH(a_frame_has_one_that_ends_with_its_fate, set_up, tear_down) {
    mr_span span[ROOM];
    mr_receipt *frame = opened();
    assert_int_equal(mr_spans_take(spans, span, ROOM), 0);
    mr_receipt_note(frame, MR_NOTE_DROPPED, "jsonl", "queue full");
    mr_receipt_unref(&frame);
    assert_int_equal(mr_spans_take(spans, span, ROOM), 1);
    assert_int_equal(span->kind, MR_SPAN_FRAME);
    assert_int_equal(span->parent, 0);
    assert_int_equal(span->frame.seq, 5);
    assert_string_equal(span->source, "cam");
    assert_string_equal(span->fate, "dropped");
    assert_string_equal(span->stage, "jsonl");
    assert_string_equal(span->reason, "queue full");
    assert_true(span->begin_ns <= span->end_ns && span->end_ns <= mr_clock_date_ns());
}

TEST_WITH(objects_are_within_their_frame, set_up, tear_down) {
    mr_span span[ROOM];
    mr_receipt *frame = opened(), *object;
    const mr_span_context own = frame->context;
    assert_int_equal(mr_ledger_derive(frame, &(mr_identity){.epoch = 1, .seq = 5, .sub = 2}, &object), MR_OK);
    mr_receipt_unref(&frame);
    mr_receipt_note(object, MR_NOTE_DELIVERED, NULL, NULL);
    mr_receipt_unref(&object);
    assert_int_equal(mr_spans_take(spans, span, ROOM), 2);
    assert_int_equal(span[0].kind, MR_SPAN_OBJECT);
    assert_int_equal(span[0].parent, own.span);
    assert_memory_equal(span[0].own.trace, own.trace, sizeof own.trace);
    assert_int_equal(span[1].own.span, own.span);
    assert_string_equal(span[1].fate, "delivered");
}

/* The sender has chosen, whatever the share here. */
TEST_WITH(arrived_frames_are_within_the_senders, set_up_none, tear_down) {
    mr_span span[ROOM];
    const mr_span_context sent = {.trace = {1, 2}, .span = 3};
    mr_receipt_watcher watcher[2] = {{.closed = closed}, {.closed = closed}};
    mr_receipt *followed, *other;
    assert_int_equal(mr_ledger_arrive(ledger, &FRAME, &sent, &watcher[0], &followed), MR_OK);
    assert_int_equal(mr_ledger_arrive(ledger, &(mr_identity){.seq = 6}, &(mr_span_context){0}, &watcher[1], &other),
                     MR_OK);
    mr_receipt_unref(&followed);
    mr_receipt_unref(&other);
    assert_int_equal(mr_spans_take(spans, span, ROOM), 1);
    assert_int_equal(span->kind, MR_SPAN_ARRIVED);
    assert_int_equal(span->parent, 3);
    assert_memory_equal(span->own.trace, sent.trace, sizeof sent.trace);
    assert_int_not_equal(span->own.span, 3);
    assert_null(span->fate);
}

TEST_WITH(frames_that_outlive_the_spans_have_none, set_up, tear_down) {
    mr_receipt *frame = opened();
    mr_ledger_set_spans(ledger, NULL);
    mr_receipt_unref(&frame);
    uint64_t ended, lost;
    mr_spans_count(spans, &ended, &lost);
    assert_int_equal(ended, 0);
}

RUN_TESTS(NULL, NULL)

/* Which frames are followed, and the buffer for their spans. */
#include "engine/observe/span_buffer.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { SOURCES = 2, FRAMES = 20000, ROOM = 16384 };

static mr_spans *made(double share, uint64_t run) {
    mr_spans *spans;
    assert_int_equal(mr_spans_create(&spans, &(mr_spans_params){.share = share, .run = run, .clock = mr_clock_real(),
                                                                .source_count = SOURCES}), MR_OK);
    mr_spans_name(spans, 0, "a");
    mr_spans_name(spans, 1, "b");
    return spans;
}

static size_t count_chosen(double share) {
    mr_spans *spans = made(share, 1);
    mr_span_context own;
    size_t chosen = 0;
    for (uint64_t seq = 0; seq < FRAMES; seq++)
        chosen += mr_spans_choose(spans, &(mr_identity){.seq = seq}, &own);
    mr_spans_destroy(&spans);
    return chosen;
}

TEST(the_share_is_as_asked_for) {
    assert_int_equal(count_chosen(0), 0);
    assert_int_equal(count_chosen(1), FRAMES);
    assert_in_range(count_chosen(0.01), 140, 260);
    assert_in_range(count_chosen(0.5), 9700, 10300);
}

/* Another process finds the same id, and who asks for more also gets the ones of who asks for less. */
TEST(all_processes_choose_the_same) {
    ENDED_BY(mr_spans_destroy) mr_spans *few = made(0.1, 9), *more = made(0.2, 9), *other = made(1, 10);
    mr_span_context one, same, third;
    for (uint64_t seq = 0; seq < 1000; seq++) {
        const mr_identity frame = {.source = 1, .epoch = 3, .seq = seq};
        const bool chosen = mr_spans_choose(few, &frame, &one), again = mr_spans_choose(more, &frame, &same);
        assert_true(again || !chosen);
        if (chosen)
            assert_memory_equal(one.trace, same.trace, sizeof one.trace);
        else
            assert_int_equal(one.span, 0);
        assert_true(mr_spans_choose(other, &frame, &third));
        if (chosen)
            assert_memory_not_equal(one.trace, third.trace, sizeof one.trace);
    }
}

TEST(all_parts_of_a_frames_identity_count) {
    ENDED_BY(mr_spans_destroy) mr_spans *spans = made(1, 1);
    const mr_identity frames[] = {{.seq = 1}, {.seq = 2}, {.seq = 1, .epoch = 1}, {.seq = 1, .source = 1}};
    mr_span_context own[4];
    for (size_t i = 0; i < 4; i++) {
        assert_true(mr_spans_choose(spans, &frames[i], &own[i]));
        for (size_t before = 0; before < i; before++) {
            assert_memory_not_equal(own[i].trace, own[before].trace, sizeof own[i].trace);
            assert_int_not_equal(own[i].span, own[before].span);
        }
    }
    mr_spans_name(spans, 1, "a"); /* a source is its id, not its place */
    assert_true(mr_spans_choose(spans, &frames[3], &own[3]));
    assert_memory_equal(own[3].trace, own[0].trace, sizeof own[0].trace);
}

TEST(a_full_buffer_loses_the_newest) {
    ENDED_BY(mr_spans_destroy) mr_spans *spans = made(1, 1);
    mr_span got[4];
    uint64_t ended, lost;
    for (uint64_t i = 0; i < ROOM + 3; i++)
        mr_spans_add(spans, &(mr_span){.frame = {.seq = i, .source = i % 2}});
    mr_spans_count(spans, &ended, &lost);
    assert_int_equal(ended, ROOM + 3);
    assert_int_equal(lost, 3);
    assert_int_equal(mr_spans_take(spans, got, 4), 4);
    assert_int_equal(got[3].frame.seq, 3);
    assert_string_equal(got[3].source, "b");
    mr_spans_forget(spans, 2, 1);
    assert_int_equal(mr_spans_take(spans, got, 1), 1);
    assert_int_equal(got->frame.seq, 2);
    mr_spans_add(spans, &(mr_span){.frame.seq = 1});
    mr_spans_count(spans, &ended, &lost);
    assert_int_equal(lost, 4);
    mr_spans_forget(spans, ROOM - 1, 0);
    assert_int_equal(mr_spans_take(spans, got, 4), 0);
}

/* All spans have the offset from the clock to the date that the first ones had, until it is clearly another. */
TEST(spans_fit_together_until_the_clock_is_set) {
    enum { SECOND = 1000000000 };
    mr_clock *clock;
    mr_spans *spans;
    mr_span got[4];
    assert_int_equal(mr_clock_create_simulated(&clock, 0), MR_OK);
    const int64_t least_ns = mr_clock_date_ns();
    assert_int_equal(mr_spans_create(&spans, &(mr_spans_params){.share = 1, .clock = clock, .source_count = 1}), MR_OK);
    const int64_t most_ns = mr_clock_date_ns();
    mr_clock_set_ns(clock, most_ns - least_ns); /* as if both had run while it was made */
    mr_spans_add(spans, &(mr_span){.begin_ns = 7, .end_ns = 9});
    mr_clock_set_ns(clock, 100 * (int64_t)SECOND);
    mr_spans_add(spans, &(mr_span){.begin_ns = 7, .end_ns = 9});
    assert_int_equal(mr_spans_take(spans, got, 4), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(got[i].end_ns - got[i].begin_ns, 2);
    const int64_t now_ns = mr_clock_date_ns(), moved_ns = got[1].begin_ns - 7 + 100 * (int64_t)SECOND;
    assert_true(least_ns <= got[0].begin_ns - 7 && got[0].begin_ns - 7 <= now_ns);
    assert_true(most_ns <= moved_ns && moved_ns <= now_ns);
    mr_spans_destroy(&spans);
    mr_clock_destroy(&clock);
}

RUN_TESTS(NULL, NULL)

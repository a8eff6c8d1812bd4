/* Identity sets, compared with a table that has one bit per frame. */
#include "engine/data/identity_set.h"
#include "tests/support/suite.h"

#include <stdlib.h>

#include "millrace/status.h"

enum { SOURCES = 2, EPOCHS = 3, SUBS = 2, FRAMES = 400 };

typedef struct table {
    bool has[SOURCES][EPOCHS][SUBS][FRAMES];
} table;

static mr_identity any_frame(uint64_t *random) {
    uint64_t value = *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (mr_identity){.source = (uint32_t)(value >> 20) % SOURCES, .epoch = (uint32_t)(value >> 30) % EPOCHS,
                         .sub = (uint32_t)(value >> 40) % SUBS, .seq = (value >> 45) % FRAMES};
}

static void compare(mr_identity_set *set, const table *expected) {
    for (uint32_t s = 0; s < SOURCES; s++)
        for (uint32_t e = 0; e < EPOCHS; e++)
            for (uint32_t u = 0; u < SUBS; u++)
                for (uint64_t f = 0; f < FRAMES; f++) {
                    const mr_identity frame = {.source = s, .epoch = e, .sub = u, .seq = f};
                    assert_int_equal(mr_identity_set_has(set, &frame), expected->has[s][e][u][f]);
                }
}

/* One lane's intervals, counted from the table. */
static size_t intervals_of(const table *expected) {
    size_t count = 0;
    for (int s = 0; s < SOURCES; s++)
        for (int e = 0; e < EPOCHS; e++)
            for (int u = 0; u < SUBS; u++)
                for (int f = 0; f < FRAMES; f++)
                    count += expected->has[s][e][u][f] && (f == 0 || !expected->has[s][e][u][f - 1]);
    return count;
}

TEST(any_order_gives_the_same_set) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        ENDED_BY(mr_identity_set_fini) mr_identity_set set = {0};
        FREED table *expected = calloc(1, sizeof *expected);
        uint64_t random = seed;
        for (int i = 0; i < SOURCES * EPOCHS * SUBS * FRAMES; i++) {
            const mr_identity frame = any_frame(&random);
            assert_int_equal(mr_identity_set_add(&set, &frame), MR_OK);
            expected->has[frame.source][frame.epoch][frame.sub][frame.seq] = true;
            if (i % 1500 == 0)
                compare(&set, expected);
        }
        compare(&set, expected);
        assert_int_equal(set.interval_count, intervals_of(expected));
    }
}

TEST(what_follows_takes_one_interval) {
    mr_identity_set set = {0};
    for (uint64_t seq = 0; seq < 100000; seq++)
        assert_int_equal(mr_identity_set_add(&set, &(mr_identity){.seq = seq ^ 3}), MR_OK); /* by fours backwards */
    assert_int_equal(set.interval_count, 1);
    assert_true(mr_identity_set_has(&set, &(mr_identity){.seq = 99999}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.seq = 100000}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.seq = 5, .epoch = 1}));
    mr_identity_set_fini(&set);
    assert_false(mr_identity_set_has(&set, &(mr_identity){.seq = 5}));
}

TEST(the_largest_numbers_have_their_place) {
    ENDED_BY(mr_identity_set_fini) mr_identity_set set = {0};
    const mr_identity last = {.source = UINT32_MAX, .epoch = UINT32_MAX, .sub = UINT32_MAX, .seq = UINT64_MAX};
    mr_identity before = last, first = last;
    before.seq--;
    first.seq = 0;
    assert_int_equal(mr_identity_set_add(&set, &last), MR_OK);
    assert_int_equal(mr_identity_set_add(&set, &first), MR_OK);
    assert_false(mr_identity_set_has(&set, &before));
    assert_int_equal(mr_identity_set_add(&set, &before), MR_OK);
    assert_true(mr_identity_set_has(&set, &before) && mr_identity_set_has(&set, &last));
    assert_int_equal(set.interval_count, 2);
}

/* Object k exists only in frames with at least k objects. */
TEST(frames_with_fewer_objects_leave_no_gaps) {
    ENDED_BY(mr_identity_set_fini) mr_identity_set set = {0};
    const mr_identity other = {.source = 1, .epoch = 1, .sub = 3, .seq = 0};
    assert_int_equal(mr_identity_set_add(&set, &other), MR_OK);
    for (uint64_t seq = 0; seq < 1000; seq++) {
        mr_identity frame = {.source = 1, .seq = seq};
        for (frame.sub = 1; frame.sub <= 1 + seq % 3; frame.sub++)
            assert_int_equal(mr_identity_set_add(&set, &frame), MR_OK);
        frame.sub = (uint32_t)(seq % 3 + 1);
        assert_int_equal(mr_identity_set_fill(&set, &frame), MR_OK);
    }
    assert_int_equal(set.interval_count, 3 + 1);
    assert_true(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 3, .seq = 500}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 3, .seq = 1}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 4, .seq = 500}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.source = 1, .epoch = 1, .sub = 3, .seq = 500}));
}

/* Records in a file have no marks: the next frame's first object ends the frame. */
TEST(appended_objects_leave_no_gaps) {
    ENDED_BY(mr_identity_set_fini) mr_identity_set set = {0};
    for (uint64_t seq = 0; seq < 1000; seq++) {
        mr_identity frame = {.source = 1, .seq = seq};
        for (frame.sub = 1; frame.sub <= 1 + seq % 3; frame.sub++)
            assert_int_equal(mr_identity_set_append(&set, &frame), MR_OK);
    }
    assert_int_equal(set.interval_count, 3);
    assert_true(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 1, .seq = 999}));
    assert_false(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 2, .seq = 999}));
    assert_true(mr_identity_set_has(&set, &(mr_identity){.source = 1, .sub = 3, .seq = 998}));
}

/* A peer that sends every other number costs no more than the bound. */
TEST(gaps_are_bounded) {
    ENDED_BY(mr_identity_set_fini) mr_identity_set set = {0};
    for (uint64_t i = 0; i < MR_IDENTITY_INTERVALS; i++)
        assert_int_equal(mr_identity_set_add(&set, &(mr_identity){.seq = 2 * i}), MR_OK);
    assert_int_equal(mr_identity_set_add(&set, &(mr_identity){.seq = 2 * (uint64_t)MR_IDENTITY_INTERVALS}),
                     MR_ERROR_MEMORY);
    assert_int_equal(mr_identity_set_add(&set, &(mr_identity){.seq = 1}), MR_OK); /* closes a gap */
    assert_int_equal(set.interval_count, MR_IDENTITY_INTERVALS - 1);
}

RUN_TESTS(NULL, NULL)

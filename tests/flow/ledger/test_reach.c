/* A source's reach, compared with a plain count of open frames. */
#include <stdlib.h>

#include "engine/flow/ledger/reach.h"
#include "tests/support/suite.h"

TEST(nothing_is_reached_before_anything_closes) {
    ENDED_BY(mr_reach_fini) mr_reach reach = {0};
    uint64_t first, second;
    assert_int_equal(mr_reach_open(&reach, &(mr_identity){.seq = 0}, &first), 0);
    assert_int_equal(mr_reach_open(&reach, &(mr_identity){.seq = 1}, &second), 0);
    assert_false(reach.any);
    mr_reach_close(&reach, second);
    assert_false(reach.any);
    mr_reach_close(&reach, first);
    assert_true(reach.any);
    assert_int_equal(reach.last.seq, 1);
}

/* Frames close in random order. The reach is the last frame before the first open one, found by looking at all. */
TEST(the_reach_ends_before_the_first_gap) {
    enum { FRAMES = 3000, TURN = 1000 };
    static uint64_t number[FRAMES];
    static char closed[FRAMES];
    ENDED_BY(mr_reach_fini) mr_reach reach = {0};
    size_t opened = 0, left = FRAMES;
    srand(7);
    while (left > 0) {
        if (opened < FRAMES && rand() % 2) {
            const mr_identity frame = {.epoch = (uint32_t)(opened / TURN), .seq = opened % TURN};
            assert_int_equal(mr_reach_open(&reach, &frame, &number[opened++]), 0);
            continue;
        }
        size_t one = opened ? (size_t)rand() % opened : 0;
        for (size_t tries = 0; tries < opened && closed[one]; tries++)
            one = (one + 1) % opened;
        if (one == opened || closed[one])
            continue;
        mr_reach_close(&reach, number[one]);
        closed[one] = 1;
        left--;
        size_t gap = 0;
        while (gap < opened && closed[gap])
            gap++;
        assert_int_equal(reach.any, gap > 0);
        if (gap > 0) {
            assert_int_equal(reach.last.epoch, (gap - 1) / TURN);
            assert_int_equal(reach.last.seq, (gap - 1) % TURN);
        }
    }
}

RUN_TESTS(NULL, NULL)

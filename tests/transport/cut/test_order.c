/* Puts frames from several processes in order again, compared with a shuffle of what one process would give. */
#include <stdlib.h>

#include "engine/data/gap.h"
#include "engine/transport/cut/order.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { GIVERS = 3, FRAMES = 2000, ROUNDS = 100, PATIENCE = 1000 };

static mr_ordered thing_of(uint32_t source, uint32_t epoch, uint64_t seq) {
    return (mr_ordered){.item = {.kind = MR_ITEM_GAP,
                                 .source = source,
                                 .identity = {.source = source, .epoch = epoch, .seq = seq}}};
}

static void put(mr_order *order, size_t producer, uint32_t epoch, uint64_t seq, int64_t now_ns) {
    const mr_ordered thing = thing_of(0, epoch, seq);
    assert_int_equal(mr_order_put(order, producer, &thing, now_ns), MR_OK);
}

static void expect(mr_order *order, int64_t now_ns, uint32_t epoch, uint64_t seq) {
    mr_ordered thing;
    assert_true(mr_order_next(order, 0, now_ns, &thing));
    assert_int_equal(thing.item.identity.epoch, epoch);
    assert_int_equal(thing.item.identity.seq, seq);
}

static void expect_none(mr_order *order, int64_t now_ns) {
    mr_ordered thing;
    assert_false(mr_order_next(order, 0, now_ns, &thing));
}

static mr_order *make(size_t sources) {
    mr_order *order;
    assert_int_equal(mr_order_create(&order, sources, GIVERS, PATIENCE, MR_ORDER_NONE_LIVE), MR_OK);
    return order;
}

TEST(test_what_is_early_waits) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(1);
    put(order, 1, 0, 1, 0);
    expect_none(order, 0);
    assert_int_equal(mr_order_wake_ns(order, 0), PATIENCE);
    put(order, 0, 0, 0, 10);
    expect(order, 10, 0, 0);
    expect(order, 10, 0, 1);
    expect_none(order, 10);
    assert_int_equal(mr_order_wake_ns(order, 10), INT64_MAX);
    /* Too late: a frame already given up, or a second one with the same number. */
    put(order, 2, 0, 0, 20);
    expect(order, 20, 0, 0);
    put(order, 0, 0, 2, 20);
    expect(order, 20, 0, 2);
}

TEST(test_an_epoch_ends_where_it_is_said) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(1);
    mr_ordered rest = thing_of(0, 0, 2);
    rest.item.identity.sub = MR_SUB_REST;
    put(order, 0, 1, 0, 0);
    assert_int_equal(mr_order_put(order, 1, &rest, 0), MR_OK);
    put(order, 2, 0, 0, 0);
    expect(order, 0, 0, 0);
    expect_none(order, 0);
    put(order, 2, 0, 1, 0);
    expect(order, 0, 0, 1);
    expect(order, 0, 0, 2);
    expect(order, 0, 1, 0); /* Although the others may still be in the previous epoch. */
}

TEST(test_gaps_end) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(1);
    put(order, 0, 0, 5, 0);
    put(order, 1, 0, 6, 0);
    expect_none(order, PATIENCE - 1);
    put(order, 2, 0, 7, PATIENCE - 1); /* All have given this frame or later ones: nothing earlier will come. */
    for (uint64_t seq = 5; seq <= 7; seq++)
        expect(order, PATIENCE - 1, 0, seq);
    put(order, 0, 1, 0, PATIENCE); /* Others may or may not have begun the next epoch. */
    expect_none(order, 2 * PATIENCE - 1);
    expect(order, 2 * PATIENCE, 1, 0);
    put(order, 0, 1, 1, 2 * PATIENCE);
    expect(order, 2 * PATIENCE, 1, 1);
}

/* Another process gives what one had in hand when it died. */
TEST(test_nothing_is_proven_after_a_death) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(1);
    mr_order_disturb(order, 0, false, 0);
    for (size_t g = 0; g < GIVERS; g++)
        put(order, g, 0, 1 + g, 0);
    expect_none(order, PATIENCE - 1);
    put(order, 1, 0, 0, PATIENCE - 1);
    for (uint64_t seq = 0; seq <= 3; seq++)
        expect(order, PATIENCE - 1, 0, seq);
}

/* Nobody could take the first frames when they were given: those that come first are not held for them. */
TEST(test_who_comes_first_proves_something) {
    ENDED_BY(mr_order_destroy) mr_order *order;
    assert_int_equal(mr_order_create(&order, 1, 2, PATIENCE, MR_ORDER_SOME_LIVE), MR_OK);
    mr_order_disturb(order, 0, true, 0);
    mr_order_disturb(order, 1, true, 5);
    put(order, 0, 0, 10, 10);
    expect_none(order, 10);
    put(order, 1, 0, 9, 11);
    expect(order, 11, 0, 9);
    expect(order, 11, 0, 10);
    mr_order_disturb(order, 1, true, 12);
    put(order, 0, 0, 13, 13);
    put(order, 1, 0, 14, 13);
    expect_none(order, 14);
    mr_order_end(order, 0);
    expect(order, 15, 0, 13);
    expect(order, 15, 0, 14);
}

/* Where all cuts are live, what a process had is lost with it: once it has started again, nothing is waited for. */
TEST(test_live_frames_die_with_their_process) {
    ENDED_BY(mr_order_destroy) mr_order *order;
    assert_int_equal(mr_order_create(&order, 1, 2, PATIENCE, MR_ORDER_ALL_LIVE), MR_OK);
    mr_order_disturb(order, 0, true, 0);
    mr_order_disturb(order, 1, true, 0);
    put(order, 0, 0, 0, 0);
    expect(order, 0, 0, 0);
    put(order, 0, 0, 2, 10); /* process 1 had frame 1 */
    mr_order_disturb(order, 1, false, 10);
    expect_none(order, 11);
    mr_order_disturb(order, 1, true, 100);
    expect_none(order, 100);
    put(order, 1, 0, 4, 101);
    expect(order, 101, 0, 2);
    expect_none(order, 101); /* process 0 may still give 3 */
    put(order, 0, 0, 5, 102);
    expect(order, 102, 0, 4);
    expect(order, 102, 0, 5);
    /* If it does not start again, a third of the patience is enough. */
    put(order, 0, 0, 7, 200);
    mr_order_disturb(order, 1, false, 200);
    assert_int_equal(mr_order_wake_ns(order, 200), 200 + PATIENCE / 3);
    expect_none(order, 199 + PATIENCE / 3);
    expect(order, 200 + PATIENCE / 3, 0, 7);
    put(order, 0, 0, 9, 3 * PATIENCE);
    expect(order, 3 * PATIENCE, 0, 9);
}

/* What a process had is sent to others, or lost, once it has been away for longer than patience. */
TEST(test_who_stays_away_is_not_waited_for) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(1);
    mr_order_disturb(order, 2, false, 0);
    put(order, 0, 0, 4, PATIENCE - 1);
    put(order, 1, 0, 5, PATIENCE - 1);
    expect_none(order, PATIENCE - 1);
    expect(order, PATIENCE, 0, 4);
    put(order, 0, 0, 9, PATIENCE);
    mr_order_disturb(order, 2, false, PATIENCE); /* it is still away */
    expect(order, PATIENCE, 0, 5);
    expect_none(order, PATIENCE);
    put(order, 1, 0, 7, PATIENCE + 1);
    expect_none(order, PATIENCE + 1);
    expect(order, 2 * PATIENCE, 0, 7);
    expect_none(order, 2 * PATIENCE); /* process 1 may still give it */
    put(order, 1, 0, 10, 2 * PATIENCE);
    expect(order, 2 * PATIENCE, 0, 9);
    expect(order, 2 * PATIENCE, 0, 10);
    mr_order_disturb(order, 2, true, 2 * PATIENCE);
    put(order, 0, 0, 12, 3 * PATIENCE - 1);
    put(order, 1, 0, 14, 3 * PATIENCE - 1);
    expect_none(order, 3 * PATIENCE); /* it is there again */
    put(order, 2, 0, 13, 3 * PATIENCE);
    for (uint64_t seq = 12; seq <= 14; seq++)
        expect(order, 3 * PATIENCE, 0, seq);
}

/* A process that fails before it has ever connected holds gaps no longer than one that left. */
TEST(test_who_never_came_is_not_waited_for) {
    for (mr_order_cuts live = MR_ORDER_NONE_LIVE; live <= MR_ORDER_ALL_LIVE; live++) {
        ENDED_BY(mr_order_destroy) mr_order *order;
        assert_int_equal(mr_order_create(&order, 1, 2, PATIENCE, live), MR_OK);
        mr_order_disturb(order, 0, true, 0);
        put(order, 0, 0, 4, PATIENCE);
        expect_none(order, 2 * PATIENCE - 1);
        expect(order, 2 * PATIENCE, 0, 4);
        mr_order_disturb(order, 1, false, 2 * PATIENCE);
        for (uint64_t seq = 6; seq < 20; seq += 2) { /* each after a gap */
            put(order, 0, 0, seq, 3 * PATIENCE);
            expect(order, 3 * PATIENCE, 0, seq);
        }
    }
}

/* Nor one that has not failed, but does not come: only the first gap waits. */
TEST(test_who_does_not_come_is_waited_for_once) {
    ENDED_BY(mr_order_destroy) mr_order *order;
    assert_int_equal(mr_order_create(&order, 1, 2, PATIENCE, MR_ORDER_NONE_LIVE), MR_OK);
    mr_order_disturb(order, 0, true, 0);
    put(order, 0, 0, 4, PATIENCE);
    expect_none(order, 2 * PATIENCE - 1);
    for (uint64_t seq = 4; seq < 20; seq += 2) {
        if (seq > 4)
            put(order, 0, 0, seq, 2 * PATIENCE);
        expect(order, 2 * PATIENCE, 0, seq);
    }
    mr_order_disturb(order, 1, true, 3 * PATIENCE); /* it is there after all, and counts */
    put(order, 0, 0, 30, 5 * PATIENCE);
    expect_none(order, 6 * PATIENCE - 1);
    put(order, 1, 0, 29, 6 * PATIENCE - 1);
    expect(order, 6 * PATIENCE, 0, 29);
    expect(order, 6 * PATIENCE, 0, 30);
}

TEST(test_ends_let_go) {
    ENDED_BY(mr_order_destroy) mr_order *order = make(2);
    put(order, 0, 0, 9, 0);
    put(order, 0, 0, 7, 0);
    mr_order_end(order, 1);
    expect_none(order, 0);
    mr_order_end(order, 0);
    expect(order, 0, 0, 7);
    expect(order, 0, 0, 9);
}

/* Each process gives a share in order, interleaved in any way: everything comes out in order, as early as it can. */
TEST(test_random_shares) {
    unsigned seed = 12345;
    for (int round = 0; round < ROUNDS; round++) {
        static uint64_t share[GIVERS][FRAMES];
        size_t count[GIVERS] = {0}, given[GIVERS] = {0};
        uint64_t next = 0;
        mr_ordered thing;
        ENDED_BY(mr_order_destroy) mr_order *order = make(1);
        for (uint64_t seq = 0; seq < FRAMES; seq++) {
            size_t g = (size_t)rand_r(&seed) % GIVERS;
            share[g][count[g]++] = seq;
        }
        for (size_t put_count = 0; put_count < FRAMES;) {
            size_t g = (size_t)rand_r(&seed) % GIVERS;
            if (given[g] == count[g])
                continue;
            put(order, g, 0, share[g][given[g]++], 0);
            put_count++;
            while (mr_order_next(order, 0, 0, &thing))
                assert_int_equal(thing.item.identity.seq, next++);
        }
        assert_int_equal(next, FRAMES);
    }
}

/* Objects of frames, and the marks that end them, are shared among processes like frames. Each mark says how many
 * objects came before, so nothing is held longer than necessary. */
TEST(test_objects_stay_in_order) {
    enum { MOST_OBJECTS = 5 };
    static mr_ordered all[FRAMES * (MOST_OBJECTS + 1)], share[GIVERS][FRAMES * (MOST_OBJECTS + 1)];
    unsigned seed = 54321;
    for (int round = 0; round < ROUNDS / 10; round++) {
        size_t count[GIVERS] = {0}, given[GIVERS] = {0}, total = 0, next = 0;
        mr_ordered thing;
        ENDED_BY(mr_order_destroy) mr_order *order = make(1);
        for (uint64_t seq = 0; seq < FRAMES; seq++) {
            const uint32_t objects = (uint32_t)rand_r(&seed) % MOST_OBJECTS;
            for (uint32_t sub = 1; sub <= objects + 1; sub++) {
                all[total] = thing_of(0, 0, seq);
                all[total++].item.identity.sub = sub <= objects ? sub : MR_SUB_OBJECTS + objects;
            }
        }
        for (size_t i = 0; i < total; i++) {
            const size_t g = (size_t)rand_r(&seed) % GIVERS;
            share[g][count[g]++] = all[i];
        }
        for (size_t put_count = 0; put_count < total;) {
            const size_t g = (size_t)rand_r(&seed) % GIVERS;
            if (given[g] == count[g])
                continue;
            assert_int_equal(mr_order_put(order, g, &share[g][given[g]++], 0), MR_OK);
            put_count++;
            while (mr_order_next(order, 0, 0, &thing))
                assert_int_equal(mr_identity_compare(&thing.item.identity, &all[next++].item.identity), 0);
        }
        assert_int_equal(next, total);
    }
}

RUN_TESTS(NULL, NULL)

/* Links alone: room, order, rounds, marks, and what is dropped when a lane is full. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/store.h"
#include "engine/flow/executor/drive.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/link/link.h"
#include "tests/support/suite.h"

static mr_store *store;
static mr_ledger *ledger;
static int wakes;

static void count_wake(void *context) {
    wakes++;
}

static int set_up(void **state) {
    wakes = 0;
    return mr_store_create(&store) || mr_ledger_create(&ledger, 2);
}

static int tear_down(void **state) {
    mr_ledger_release(&ledger);
    mr_store_release(&store);
    return 0;
}

static mr_link *make_link(int capacity, mr_policy policy, bool keeps_head, bool wants_gaps) {
    static const uint32_t sources[] = {0, 1};
    mr_link *link = NULL;
    const mr_link_params params = {
        .source_count = 2, .sources = sources, .lane_count = 2, .capacity = capacity, .refill = capacity / 2,
        .policy = policy, .keeps_head = keeps_head, .wants_gaps = wants_gaps, .stage = "consumer", .wake = count_wake,
    };
    assert_int_equal(mr_link_create(&link, &params), MR_OK);
    mr_link_expect(link, 0);
    mr_link_expect(link, 1);
    return link;
}

static mr_item frame_item(uint32_t source, uint64_t seq, mr_payload payload, uint32_t flags) {
    mr_frame *frame = NULL;
    assert_int_equal(mr_store_frame(store, &frame), MR_OK);
    frame->identity = (mr_identity){.source = source, .seq = seq};
    assert_int_equal(mr_ledger_open(ledger, &frame->identity, &frame->receipt), MR_OK);
    frame->format.payload = payload;
    frame->flags = flags;
    return (mr_item){.kind = MR_ITEM_FRAME, .source = source, .frame = frame};
}

static void release(mr_item *item) {
    if (item->kind != MR_ITEM_FRAME)
        return;
    mr_receipt_note(item->frame->receipt, MR_NOTE_DELIVERED, NULL, NULL);
    mr_frame_unref(&item->frame);
}

static bool push(mr_link *link, uint32_t source, uint64_t seq) {
    mr_item item = frame_item(source, seq, MR_PAYLOAD_RESULTS, 0);
    bool pushed = mr_link_push(link, &item, NULL);
    if (!pushed)
        release(&item);
    return pushed;
}

static void push_packet(mr_link *link, uint32_t source, uint64_t seq, uint32_t flags) {
    mr_item item = frame_item(source, seq, MR_PAYLOAD_PACKET, flags);
    assert_true(mr_link_push(link, &item, NULL));
}

static void push_mark(mr_link *link, mr_item_kind kind, uint32_t source, uint64_t seq) {
    mr_item item = {.kind = kind, .source = source, .identity = {.source = source, .seq = seq}};
    assert_true(mr_link_push(link, &item, NULL));
}

static void expect_item(mr_link *link, mr_item_kind kind, uint32_t source, uint64_t seq) {
    ENDED_BY(release) mr_item item;
    assert_int_equal(mr_link_pop(link, &item, 1), 1);
    assert_int_equal(item.kind, kind);
    assert_int_equal(item.source, source);
    if (kind != MR_ITEM_END)
        assert_int_equal(mr_item_identity(&item)->seq, seq);
}

static void expect_nothing(mr_link *link) {
    mr_item items[8];
    assert_int_equal(mr_link_pop(link, items, 8), 0);
}

/* One step of a script: a letter and the numbers of a source and a frame. */
static void step(mr_link *link, char letter, uint32_t source, uint64_t seq) {
    switch (letter) {
    case '+': assert_true(push(link, source, seq)); break;
    case '!': assert_false(push(link, source, seq)); break; /* is refused */
    case 'k': push_packet(link, source, seq, MR_FRAME_KEY); break;
    case 'p': push_packet(link, source, seq, 0); break;
    case 'd': push_packet(link, source, seq, MR_FRAME_DISPOSABLE); break;
    case 'g': push_mark(link, MR_ITEM_GAP, source, seq); break;
    case 'e': push_mark(link, MR_ITEM_END, source, 0); break;
    case '=': expect_item(link, MR_ITEM_FRAME, source, seq); break;
    case '~': expect_item(link, MR_ITEM_GAP, source, seq); break;
    case '#': expect_item(link, MR_ITEM_END, source, 0); break;
    case '.': expect_nothing(link); break;
    default: fail_msg("'%c' is no step", letter);
    }
}

/* Steps separated by blanks, such as "+0.3": source 0's frame 3 is pushed. */
static void play(mr_link *link, const char *script) {
    for (; *script; script += strcspn(script, " "), script += strspn(script, " ")) {
        char letter = 0;
        uint32_t source = 0;
        uint64_t seq = 0;
        sscanf(script, "%c%" SCNu32 ".%" SCNu64, &letter, &source, &seq);
        step(link, letter, source, seq);
    }
}

/* A link that keeps no head and wants gaps plays a script. */
#define PLAYS(name, capacity, policy, script)                                                                         \
    TEST_WITH(name, set_up, tear_down) {                                                                              \
        mr_link *link = make_link(capacity, MR_POLICY_##policy, false, true);                                         \
        play(link, script);                                                                                           \
        mr_link_destroy(&link);                                                                                       \
    }

/* ---- room and turns -------------------------------------------------------------------------------------------- */

TEST_WITH(full_lane_leaves_the_frame_and_others_have_room, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(2, MR_POLICY_BLOCK, false, true);
    play(link, "+0.0 +0.1 !0.2 +1.0");
    assert_int_equal(wakes, 1); /* Only the first push found the link empty. */
}

TEST_WITH(the_longest_queue_is_remembered, set_up, tear_down) {
    int most;
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(4, MR_POLICY_BLOCK, false, true);
    assert_int_equal(mr_link_frames(link, &most), 0);
    assert_int_equal(most, 0);
    play(link, "+1.0 +1.1 +1.2 +0.0 =1.0 =0.0 =1.1 =1.2 +0.1");
    assert_int_equal(mr_link_frames(link, &most), 1);
    assert_int_equal(most, 3);
}

PLAYS(lanes_are_served_in_turn, 4, BLOCK, "+0.0 +0.1 +0.2 +1.0 =0.0 =1.0 =0.1 =0.2")
PLAYS(a_gap_is_no_turn, 2, DROP_OLDEST, "+0.0 +0.1 +1.0 +1.1 +1.2 +1.3 +1.4 =0.0 ~1.0 ~1.1 ~1.2 =1.3 =0.1 =1.4")
PLAYS(a_lane_with_gaps_alone_keeps_its_turn, 2, BLOCK, "+0.0 +0.1 =0.0 g1.0 =0.1 +0.2 ~1.0 +1.1 =1.1 =0.2")
/* Lane 1 is served again only in the next round, although it was listed before lane 0 had a frame. */
PLAYS(a_late_lane_is_served_before_those_that_were, 1, BLOCK, "+1.0 +0.0 =1.0 +1.1 =0.0 =1.1 +1.2 +0.1 =0.1 =1.2")

/* A consumer that hangs for days does not fill memory with what it missed. */
TEST_WITH(gaps_that_nobody_wants_are_not_kept, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(3, MR_POLICY_DROP_OLDEST, false, false);
    play(link, "g0.0 .");
    for (uint64_t seq = 0; seq < 1000; seq++)
        push(link, 0, seq);
    play(link, "+1.0 =0.997 =1.0 =0.998 =0.999 .");
}

/* The incoming frame is dropped with the rest of the group: the lane is empty although it has a turn. */
TEST_WITH(a_lane_that_was_emptied_is_passed_over, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(2, MR_POLICY_DROP_OLDEST, false, false);
    play(link, "k0.0 p0.1 p0.2 p0.3 . +1.0 =1.0 k0.4 +1.1 =0.4 =1.1 .");
}

static bool refuse_lane(void *context, uint32_t source) {
    return source != *(const uint32_t *)context;
}

/* A lane whose frame the consumer left is first in the next round. */
TEST_WITH(a_lane_that_was_left_comes_first, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(4, MR_POLICY_BLOCK, false, true);
    uint32_t refused = 0;
    mr_item items[2];
    play(link, "+0.0 +1.0 +0.1 +1.1");
    assert_int_equal(mr_link_pop_claimed(link, items, 1, refuse_lane, &refused), 1);
    assert_int_equal(items[0].source, 1);
    release(&items[0]);
    play(link, "=0.0 =1.1");
    assert_int_equal(mr_link_pop_claimed(link, items, 2, refuse_lane, &refused), 0);
    play(link, "=0.1");
}

TEST_WITH(marks_take_no_room_and_keep_their_place, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(1, MR_POLICY_BLOCK, false, true);
    play(link, "+0.0");
    for (uint64_t seq = 1; seq < 40; seq++)
        push_mark(link, MR_ITEM_GAP, 0, seq);
    play(link, "e0 =0.0");
    for (uint64_t seq = 1; seq < 40; seq++)
        expect_item(link, MR_ITEM_GAP, 0, seq);
    play(link, "#0");
    assert_false(mr_link_ended(link)); /* The other source can still send. */
}

static void count_run(void *context) {
    ++*(int *)context;
}

/* All must be woken at once: the first ones may have nothing left to push. */
TEST_WITH(room_wakes_all_who_wait_for_it, set_up, tear_down) {
    enum { PRODUCERS = 100 };
    static mr_task producers[PRODUCERS];
    int runs = 0;
    ENDED_BY(mr_executor_destroy) mr_executor *executor = NULL;
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(1, MR_POLICY_BLOCK, false, true);
    assert_int_equal(mr_executor_create(&executor, 1, 1), MR_OK);
    for (int take = 0; take < 2; take++) {
        ENDED_BY(release) mr_item refused = frame_item(0, 1, MR_PAYLOAD_RESULTS, 0), taken;
        assert_true(push(link, 0, 0));
        for (int i = 0; i < PRODUCERS; i++) {
            mr_task_init(&producers[i], executor, count_run, &runs);
            assert_false(mr_link_push(link, &refused, &producers[i]));
        }
        if (take)
            mr_link_take(link, 0, &taken);
        else
            assert_int_equal(mr_link_pop(link, &taken, 1), 1);
        mr_executor_drive(executor, 0);
        assert_int_equal(runs, (take + 1) * PRODUCERS);
    }
}

TEST_WITH(a_lane_ends_with_the_last_of_its_producers, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(1, MR_POLICY_BLOCK, false, true);
    mr_link_expect(link, 0); /* a second one */
    play(link, "e0 . e0 #0");
}

/* ---- drops ----------------------------------------------------------------------------------------------------- */

/* Everything was dropped by the consumer's queue. */
static void expect_dropped(uint64_t frames) {
    mr_ledger_account account;
    mr_ledger_read(ledger, 0, MR_LEDGER_FRAMES, &account);
    assert_int_equal(account.dropped, frames);
    assert_string_equal(account.lines[0].stage, "consumer");
    mr_free(account.lines);
}

TEST_WITH(drop_oldest_leaves_a_mark_and_is_counted, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(2, MR_POLICY_DROP_OLDEST, false, true);
    play(link, "+0.0 +0.1 +0.2 ~0.0 =0.1 =0.2");
    mr_ledger_account account;
    mr_ledger_read(ledger, 0, MR_LEDGER_FRAMES, &account);
    assert_int_equal(account.line_count, 1);
    assert_string_equal(account.lines[0].reason, "queue full");
    assert_int_equal(account.lines[0].frames, 1);
    mr_free(account.lines);
    expect_dropped(1);
}

PLAYS(drop_newest_keeps_what_waits, 2, DROP_NEWEST, "+0.0 +0.1 +0.2 =0.0 =0.1 ~0.2")
PLAYS(disposable_packets_go_first, 3, DROP_OLDEST, "k0.0 d0.1 p0.2 p0.3 =0.0 ~0.1 =0.2 =0.3")

/* Packets 1 to 4 refer to packet 0: none of them can be decoded. */
TEST_WITH(without_disposable_packets_all_go_up_to_the_next_key, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(3, MR_POLICY_DROP_OLDEST, false, true);
    play(link, "k0.0 p0.1 p0.2 p0.3 p0.4 k0.5 ~0.0 ~0.1 ~0.2 ~0.3 ~0.4 =0.5");
    expect_dropped(5);
}

/* The consumer may be looking at it. If it is alone, the incoming frame must go. */
TEST_WITH(the_head_stays_if_the_consumer_looks_at_it, set_up, tear_down) {
    for (int capacity = 1; capacity <= 2; capacity++) {
        ENDED_BY(mr_link_destroy) mr_link *link = make_link(capacity, MR_POLICY_DROP_OLDEST, true, true);
        mr_item head;
        int most;
        play(link, "+0.0");
        assert_true(mr_link_head(link, 0, &head));
        play(link, "+0.1 +0.2 +0.3 +0.4");
        mr_link_frames(link, &most);
        assert_int_equal(most, capacity);
        play(link, "=0.0 ~0.1 ~0.2 ~0.3");
        play(link, capacity == 1 ? "~0.4" : "=0.4");
    }
}

TEST_WITH(packets_behind_the_head_go_up_to_the_next_key, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(2, MR_POLICY_DROP_OLDEST, true, true);
    play(link, "k0.0 p0.1 p0.2 p0.3 k0.4 =0.0 ~0.1 ~0.2 ~0.3 =0.4");
}

/* A pause mark is dropped when anything follows it in the lane. */
TEST_WITH(what_comes_ends_an_absence, set_up, tear_down) {
    ENDED_BY(mr_link_destroy) mr_link *link = make_link(4, MR_POLICY_BLOCK, false, true);
    mr_item first, away = {.kind = MR_ITEM_GAP, .source = 1, .identity = mr_identity_away(1)},
                   lost = {.kind = MR_ITEM_GAP, .source = 1, .identity = mr_identity_lost((mr_identity){.seq = 7})};
    play(link, "+0.5");
    assert_true(mr_link_push(link, &away, NULL));
    assert_true(mr_link_head(link, 1, &first));
    assert_true(mr_identity_is_away(&first.identity) && mr_identity_is_lost(&first.identity));
    assert_true(mr_link_push(link, &away, NULL));
    assert_true(mr_link_push(link, &lost, NULL));
    assert_true(mr_link_push(link, &away, NULL));
    play(link, "+1.8 =0.5 ~1.7 =1.8 .");
}

RUN_TESTS(NULL, NULL)

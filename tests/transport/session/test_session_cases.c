/* The cut protocol, case by case: handshakes, old sessions, credit, runs, several senders, leaving, live cuts. */
#include <string.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/session_pair.h"

/* ---- handshakes ------------------------------------------------------------------------------------------------ */

PAIR_TEST(test_handshake) {
    pair_drive(p, S);
    assert_int_equal(p->seen.sender_change, MR_PEER_JOINED);
    assert_int_equal(p->seen.receiver_change, MR_PEER_JOINED);
    pair_offer_all(p->sender, 0, 3);
    const mr_cut_item end = {.kind = MR_CUT_END};
    assert_int_equal(mr_sender_offer(p->sender, &end, S), MR_OK);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(p->seen.ended, 1);
    assert_int_equal(mr_sender_unsettled(p->sender), 3);
    assert_int_equal(mr_receiver_held(p->receiver), 3);
    assert_false(mr_sender_finished(p->sender));
    pair_settle_and_drive(p, S);
    assert_int_equal(p->seen.settled, 3);
    assert_true(mr_sender_finished(p->sender));
}

static void assert_rejected(pair *p, const mr_receiver_params *params, mr_reject_reason reason) {
    const mr_sender_params sending = pair_sender_params();
    pair_open(p, &sending, params);
    pair_drive(p, S);
    assert_int_equal(p->seen.sender_change, MR_PEER_REJECTED);
    assert_int_equal(p->seen.receiver_change, MR_PEER_REJECTED);
    assert_int_equal(p->seen.reason, reason);
    assert_int_equal(mr_sender_counts(p->sender).rejected, 1);
    /* It asks again, since there may be another sender, but does not report that again. */
    p->seen.sender_change = p->seen.receiver_change = MR_PEER_LEFT;
    pair_drive(p, 20 * S);
    assert_in_range(mr_sender_counts(p->sender).rejected, 2, 21);
    assert_int_equal(p->seen.sender_change, MR_PEER_LEFT);
    assert_int_equal(p->seen.receiver_change, MR_PEER_LEFT);
    uint32_t sender;
    assert_true(mr_receiver_waits(p->receiver, &sender));
}

/* A receiver that does not know a possible result kind must be refused before any frame is sent. */
PAIR_TEST(test_unknown_kinds_of_results) {
    const mr_kinds all = mr_kinds_built_in(), fewer = {.count = 1, .kind = {all.kind[1]}, .id = {all.id[1]}};
    mr_receiver_params params = pair_receiver_params("b");
    mr_sender_params sending = pair_sender_params();
    for (int known = 0; known < 2; known++) {
        params.self.kinds = known ? &all : &fewer;
        sending.self.kinds = known ? &fewer : &all;
        pair_open(p, &sending, &params);
        pair_drive(p, S);
        assert_int_equal(p->seen.sender_change, known ? MR_PEER_JOINED : MR_PEER_REJECTED);
        if (!known)
            assert_int_equal(p->seen.reason, MR_REJECT_FORMATS);
    }
}

/* A sender that refuses a receiver ends; another that accepts it takes over. */
PAIR_TEST(test_another_comes_instead) {
    mr_receiver_params params = pair_receiver_params("b");
    params.self.digest[31] = 1;
    assert_rejected(p, &params, MR_REJECT_DIGEST);
    mr_sender_params sending = pair_sender_params();
    sending.self.digest[31] = 1;
    sending.self.incarnation++;
    mr_sender_destroy(&p->sender);
    assert_int_equal(mr_sender_create(&p->sender, &sending), MR_OK);
    pair_drive(p, 30 * S);
    assert_int_equal(p->seen.receiver_change, MR_PEER_JOINED);
    assert_int_equal(p->seen.sender_change, MR_PEER_JOINED);
}

PAIR_TEST(test_rejected) {
    mr_receiver_params params[3];
    for (int i = 0; i < 3; i++)
        params[i] = pair_receiver_params("b");
    params[0].self.digest[31] = 1;
    params[1].self.cut = "a->c";
    params[2].self.formats = "tensors";
    assert_rejected(p, &params[0], MR_REJECT_DIGEST);
    assert_rejected(p, &params[1], MR_REJECT_CUT);
    assert_rejected(p, &params[2], MR_REJECT_FORMATS);
    char name[MR_PEER_NAME + 1] = {0};
    memset(name, 'x', MR_PEER_NAME);
    mr_cut_message hello = pair_hello("b");
    hello.hello.oldest_version = MR_PROTOCOL_NEWEST + 1;
    hello.hello.newest_version = 9;
    pair_hear(p, 1, &hello);
    assert_int_equal(p->seen.reason, MR_REJECT_VERSION);
    hello.hello.oldest_version = MR_PROTOCOL_NEWEST;
    hello.hello.name = name;
    pair_hear(p, 1, &hello);
    assert_int_equal(p->seen.reason, MR_REJECT_MALFORMED);
}

/* A limited number of peers, and only the later of two processes with one name. */
PAIR_TEST(test_peers) {
    mr_cut_message hello = pair_hello("b");
    assert_int_equal(mr_sender_receive(p->sender, 1, &hello, S), MR_OK);
    hello.hello.name = "c";
    pair_hear(p, 2, &hello);
    assert_int_equal(p->seen.sender_change, MR_PEER_JOINED);
    hello.hello.name = "d";
    pair_hear(p, 3, &hello);
    assert_int_equal(p->seen.reason, MR_REJECT_FULL);
    hello.hello.name = "c";
    hello.hello.incarnation = 9;
    pair_hear(p, 4, &hello);
    assert_int_equal(p->seen.reason, MR_REJECT_REPLACED);
    hello.hello.incarnation = 11;
    pair_hear(p, 4, &hello);
    assert_int_equal(p->seen.sender_change, MR_PEER_JOINED);
    assert_int_equal(mr_sender_counts(p->sender).sessions, 3);
}

/* Each time from another process. */
static mr_reject_reason reason_for(pair *p, const char *name) {
    static uint64_t incarnation = 10;
    mr_cut_message hello = pair_hello(name);
    hello.hello.incarnation = incarnation++;
    p->seen.reason = MR_REJECT_UNKNOWN;
    pair_hear(p, 1, &hello);
    return p->seen.reason;
}

/* A peer with the pipeline and the right key may still be the wrong node for this cut. */
PAIR_TEST(test_only_the_node_of_the_plan) {
    static const char *const strangers[] = {"c", "bb", "b.2", "b.00", "b.01", "b.1x", "b.-0", "b. 1", "b.", ".1", "B"};
    p->sending.consumer = "b";
    p->sending.receivers = 2;
    pair_reopen(p);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        assert_int_equal(reason_for(p, strangers[i]), MR_REJECT_CUT);
    assert_int_equal(mr_sender_counts(p->sender).sessions, 0);
    assert_int_equal(reason_for(p, "b.0"), MR_REJECT_UNKNOWN);
    assert_int_equal(reason_for(p, "b.1"), MR_REJECT_UNKNOWN);
    assert_int_equal(mr_sender_counts(p->sender).sessions, 2);
}

/* If messages come on two paths, one that must follow others can wait; one that is known, or has no session, need
 * not. */
PAIR_TEST(test_which_message_is_next) {
    assert_true(mr_receiver_may_receive(p->receiver, 0, 101, 9));
    pair_drive(p, S);
    assert_true(mr_receiver_may_receive(p->receiver, 0, 101, 1));
    assert_false(mr_receiver_may_receive(p->receiver, 0, 101, 2));
    assert_true(mr_receiver_may_receive(p->receiver, 0, 99, 2));
    pair_offer(p->sender, 0);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 1);
    assert_true(mr_receiver_may_receive(p->receiver, 0, 101, 1));
    assert_true(mr_receiver_may_receive(p->receiver, 0, 101, 2));
    assert_false(mr_receiver_may_receive(p->receiver, 0, 101, 3));
}

/* The same in the other direction; a report without a session is ignored. */
PAIR_TEST(test_which_report_is_next) {
    uint32_t route = 99;
    assert_false(mr_sender_may_receive(p->sender, 101, 1, &route));
    assert_false(mr_sender_may_receive(p->sender, 0, 1, &route));
    pair_drive(p, S);
    assert_int_equal(route, 99);
    assert_true(mr_sender_may_receive(p->sender, 101, 1, &route));
    assert_int_equal(route, 5);
    assert_true(mr_sender_may_receive(p->sender, 101, 2, &route));
    assert_false(mr_sender_may_receive(p->sender, 101, 3, &route));
    assert_false(mr_sender_may_receive(p->sender, 100, 1, &route));
    mr_sender_lost(p->sender, 5, S);
    assert_false(mr_sender_may_receive(p->sender, 101, 1, &route));
}

/* A message can hold half a million ranges over the whole window; the window may only be searched a few times. */
PAIR_TEST(test_ranges_that_overlap) {
    enum { RANGES = 500000 };
    static mr_settled ranges[RANGES];
    pair_drive(p, S);
    pair_offer_all(p->sender, 0, 4);
    pair_drive(p, S);
    for (int i = 0; i < RANGES; i++)
        ranges[i] = (mr_settled){1, 4, MR_NOTE_NONE, NULL, NULL};
    mr_cut_message report = {.kind = MR_MESSAGE_REPORT, .session = 101,
                             .report = {.granted_frames = 1000, .granted_bytes = 1000, .settled = ranges}};
    int status = MR_OK;
    report.report.settled_count = 2; /* as when frames came again */
    uint64_t number = 1;
    for (; number < 9 && p->seen.settled == 0; number++) {
        ranges[0].outcome = MR_NOTE_DELIVERED;
        report.number = number;
        pair_hear(p, 5, &report);
    }
    assert_int_equal(p->seen.settled, 4);
    pair_offer_all(p->sender, 4, 8);
    pair_drive_sender(p->sender, NULL, 0, S, &p->seen);
    for (int i = 0; i < RANGES; i++)
        ranges[i] = (mr_settled){5, 4, MR_NOTE_NONE, NULL, NULL};
    report.report.settled_count = RANGES;
    report.number = number;
    status = mr_sender_receive(p->sender, 5, &report, S);
    assert_int_equal(status, MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "one frame many times"));
    assert_int_equal(mr_sender_counts(p->sender).malformed, 1);
}

/* Messages from an ended session are refused and counted, and change nothing. */
PAIR_TEST(test_old_sessions) {
    pair_drive(p, S);
    pair_offer(p->sender, 0);
    pair_drive(p, S);
    const mr_settled all = {1, 1, MR_NOTE_DELIVERED, NULL, NULL};
    mr_cut_message old = {.kind = MR_MESSAGE_REPORT, .session = 99, .number = 1,
                          .report = {.granted_frames = 1000, .granted_bytes = 1000, .progress = 1, .settled = &all,
                                     .settled_count = 1}};
    pair_hear(p, 6, &old);
    assert_int_equal(mr_sender_counts(p->sender).stale, 1);
    assert_int_equal(p->seen.settled, 0);
    old.session = 101; /* the current one; what was never sent cannot be settled */
    old.number = 3;
    const mr_settled more = {1, 2, MR_NOTE_DELIVERED, NULL, NULL};
    old.report.settled = &more;
    int status = MR_OK;
    for (uint64_t number = 1; status == MR_OK && number < 9; number++) {
        old.number = number;
        status = mr_sender_receive(p->sender, 5, &old, S);
    }
    assert_int_equal(status, MR_ERROR_PROTOCOL);
    assert_int_equal(mr_sender_counts(p->sender).malformed, 1);
    pair_drive(p, 3 * S);
    pair_settle_and_drive(p, 3 * S);
    assert_int_equal(p->seen.settled, 1);
    assert_int_equal(p->seen.fresh, 1);
}

/* ---- credit and windows ---------------------------------------------------------------------------------------- */

PAIR_TEST(test_windows) {
    mr_cut_item large = pair_frame(0);
    large.bytes = 1001;
    assert_int_equal(mr_sender_offer(p->sender, &large, S), MR_ERROR_DATA);
    pair_offer_all(p->sender, 0, 8);
    const mr_cut_item ninth = pair_frame(8);
    assert_false(mr_sender_has_room(p->sender, 10));
    assert_int_equal(mr_sender_offer(p->sender, &ninth, S), MR_ERROR_AGAIN);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4); /* as many as were granted */
    mr_receiver_take(p->receiver, p->seen.ticket[0]);
    mr_receiver_take(p->receiver, p->seen.ticket[1]);
    mr_receiver_take(p->receiver, p->seen.ticket[1]);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 6);
    pair_settle_and_drive(p, S);
    assert_int_equal(p->seen.fresh, 8);
    assert_int_equal(p->seen.settled, 6);
    assert_true(mr_sender_has_room(p->sender, 10));
    mr_sender_abandon(p->sender, "given up");
    pair_drive(p, S);
    assert_int_equal(p->seen.settled, 8);
    assert_int_equal(p->seen.dropped, 2);
    assert_string_equal(p->seen.why, "given up");
}

PAIR_TEST(test_an_abandoned_sender_lacks_nobody) {
    pair_offer_all(p->sender, 0, 2);
    assert_true(mr_sender_counts(p->sender).absent);
    mr_sender_abandon(p->sender, "given up");
    assert_false(mr_sender_counts(p->sender).absent);
}

/* Results in envelopes need no credit, but few messages hold many of them. */
PAIR_TEST(test_results_in_envelopes) {
    p->receiving.credit_frames = 8;
    pair_reopen(p);
    for (uint64_t seq = 0; seq < 8; seq++) {
        mr_cut_item item = pair_frame(seq);
        item.envelope_bytes = seq ? 400 : 5000;
        assert_int_equal(mr_sender_offer(p->sender, &item, S), MR_OK);
    }
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 8);
    assert_int_equal(p->seen.most_items, 2);
}

PAIR_TEST(test_without_a_bound_on_bytes) {
    p->sending.window_bytes = p->receiving.credit_bytes = UINT64_MAX;
    pair_reopen(p);
    for (uint64_t i = 0; i < 20; i++) {
        pair_offer(p->sender, i);
        pair_drive(p, S);
        pair_settle_and_drive(p, S);
    }
    assert_int_equal(p->seen.settled, 20);
    assert_int_equal(mr_sender_counts(p->sender).malformed, 0);
}

PAIR_TEST(test_more_than_was_granted) {
    pair_drive(p, S);
    mr_cut_item item[5];
    for (uint64_t i = 0; i < 5; i++) {
        item[i] = pair_frame(i);
        item[i].position = i + 1;
    }
    mr_cut_message message = {.kind = MR_MESSAGE_ITEMS, .session = 101, .number = 1, .items = {item, 5}};
    assert_int_equal(mr_receiver_receive(p->receiver, 0, &message, S), MR_ERROR_PROTOCOL);
    assert_false(item[0].fresh);
    assert_int_equal(mr_receiver_counts(p->receiver).malformed, 1);
    pair_drive(p, 3 * S); /* then a new session begins */
    assert_int_equal(mr_sender_counts(p->sender).sessions, 2);
}

/* ---- several senders, runs ------------------------------------------------------------------------------------- */

/* Two replicas send the same frame: the graph gets it once, and both learn the outcome. The end comes when both have
 * ended. */
PAIR_TEST(test_two_senders) {
    mr_sender *sender[2];
    mr_receiver_params receiving = pair_receiver_params("b");
    receiving.senders = 2;
    mr_receiver_destroy(&p->receiver);
    assert_int_equal(mr_receiver_create(&p->receiver, &receiving), MR_OK);
    const mr_cut_item end = {.kind = MR_CUT_END};
    for (int i = 0; i < 2; i++) {
        mr_sender_params sending = pair_sender_params();
        sending.self.incarnation += (uint64_t)i;
        assert_int_equal(mr_sender_create(&sender[i], &sending), MR_OK);
        pair_offer(sender[i], 4);
        pair_offer(sender[i], 5 + (uint64_t)i);
        assert_int_equal(mr_sender_offer(sender[i], &end, S), MR_OK);
    }
    for (int turn = 0; turn < 6; turn++) {
        pair_drive_receiver(p->receiver, sender, S, &p->seen);
        for (uint32_t i = 0; i < 2; i++)
            pair_drive_sender(sender[i], p->receiver, i, S, &p->seen);
    }
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(p->seen.ended, 1);
    assert_int_equal(mr_receiver_counts(p->receiver).again, 1);
    pair_settle_all(p, S);
    for (int turn = 0; turn < 3; turn++) {
        pair_drive_receiver(p->receiver, sender, S, &p->seen);
        for (uint32_t i = 0; i < 2; i++)
            pair_drive_sender(sender[i], p->receiver, i, S, &p->seen);
    }
    assert_int_equal(p->seen.settled, 4);
    assert_true(mr_sender_finished(sender[0]) && mr_sender_finished(sender[1]));
    mr_sender_destroy(&sender[0]);
    mr_sender_destroy(&sender[1]);
}

/* One of two replicas fails for good, before or after the other has ended: its end is not waited for. */
PAIR_TEST(test_a_sender_that_fails) {
    const mr_cut_item end = {.kind = MR_CUT_END};
    for (int before = 0; before < 2; before++) {
        p->sending.receivers = 1;
        p->receiving.senders = 2;
        pair_reopen(p);
        p->seen = (pair_seen){0};
        mr_sender *sender[] = {p->sender, p->sender};
        if (before)
            assert_true(mr_receiver_give_up(p->receiver, 1, S));
        pair_offer(p->sender, 0);
        assert_int_equal(mr_sender_offer(p->sender, &end, S), MR_OK);
        for (int turn = 0; turn < 6; turn++) {
            pair_drive_receiver(p->receiver, sender, S, &p->seen);
            pair_drive_sender(p->sender, p->receiver, 0, S, &p->seen);
            pair_settle_all(p, S);
        }
        assert_int_equal(p->seen.ended, before);
        if (!before) {
            assert_false(mr_receiver_is_over(p->receiver, 0) || mr_receiver_finished(p->receiver));
            assert_true(mr_receiver_lacks(p->receiver));
            assert_true(mr_receiver_give_up(p->receiver, 1, S));
        }
        assert_false(mr_receiver_give_up(p->receiver, 1, S) || mr_receiver_counts(p->receiver).absent);
        assert_true(mr_receiver_is_over(p->receiver, 0));
        assert_true(mr_receiver_finished(p->receiver));
        assert_false(mr_receiver_lacks(p->receiver));
    }
}

/* If all receivers have failed, what they had stays with the sender: whoever ends the run decides about it. */
PAIR_TEST(test_receivers_that_fail_with_frames) {
    p->sending.consumer = "b";
    p->sending.receivers = 2;
    pair_reopen(p);
    mr_receiver_destroy(&p->receiver);
    p->receiving.self.name = "b.0";
    assert_int_equal(mr_receiver_create(&p->receiver, &p->receiving), MR_OK);
    pair_drive(p, S);
    pair_offer(p->sender, 0);
    assert_true(mr_sender_lacks(p->sender));
    pair_drive(p, S);
    mr_sender_give_up(p->sender, 1, S);
    assert_false(mr_sender_lacks(p->sender) || mr_sender_is_forsaken(p->sender));
    mr_sender_give_up(p->sender, 0, S);
    assert_true(mr_sender_is_forsaken(p->sender));
    pair_drive(p, 2 * S);
    assert_int_equal(mr_sender_unsettled(p->sender), 1);
}

/* A sender that returns in the same run sends nothing twice; in a new run the same numbers are other frames. */
PAIR_TEST(test_runs) {
    pair_offer(p->sender, 0);
    pair_drive(p, S);
    for (uint64_t run = 1; run < 3; run++) {
        mr_sender_params sending = pair_sender_params();
        sending.self.incarnation += run;
        sending.run = run;
        mr_sender_destroy(&p->sender);
        mr_receiver_lost(p->receiver, 0, (int64_t)run * 10 * S);
        assert_int_equal(mr_sender_create(&p->sender, &sending), MR_OK);
        pair_offer(p->sender, 0);
        pair_drive(p, (int64_t)run * 10 * S);
        assert_int_equal(p->seen.fresh, run);
        assert_int_equal(p->seen.run, run == 1 ? 0 : run);
    }
    mr_receiver_settle(p->receiver, p->seen.ticket[0], MR_NOTE_DELIVERED, NULL, NULL, 30 * S);
    pair_drive(p, 22 * S);
    assert_int_equal(p->seen.settled, 0); /* that was from another run */
    mr_receiver_settle(p->receiver, p->seen.ticket[1], MR_NOTE_DELIVERED, NULL, NULL, 22 * S);
    pair_drive(p, 22 * S);
    assert_int_equal(p->seen.settled, 1);
}

/* ---- leaving, live --------------------------------------------------------------------------------------------- */

PAIR_TEST(test_leaving) {
    pair_offer_all(p->sender, 0, 8);
    pair_drive(p, S);
    mr_receiver_withdraw(p->receiver);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    pair_settle_and_drive(p, S);
    assert_int_equal(p->seen.settled, 4);
    assert_int_equal(p->seen.fresh, 4);
    assert_int_equal(p->seen.sender_change, MR_PEER_LEFT);
    assert_int_equal(mr_sender_unsettled(p->sender), 4);
    mr_receiver_destroy(&p->receiver);
    mr_receiver_params another = pair_receiver_params("c"); /* takes what is left */
    assert_int_equal(mr_receiver_create(&p->receiver, &another), MR_OK);
    p->seen.fresh = 0;
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    mr_sender_close(p->sender, "the end");
    pair_drive(p, S);
    assert_int_equal(p->seen.receiver_change, MR_PEER_LEFT);
    pair_drive(p, 10 * S);
    assert_int_equal(p->seen.reason, MR_REJECT_FULL);
}

/* Live: without credit there is no room. Frames in flight when the connection breaks are dropped, and so are packets up
 * to the next key frame. */
PAIR_TEST(test_live) {
    p->sending.live = true;
    pair_reopen(p);
    assert_false(mr_sender_has_room(p->sender, 10));
    pair_drive(p, S);
    mr_cut_item packet = pair_frame(0);
    packet.packet = packet.key = true;
    assert_int_equal(mr_sender_offer(p->sender, &packet, S), MR_OK);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 1);
    packet.key = false;
    assert_int_equal(mr_sender_offer(p->sender, &packet, S), MR_OK);
    pair_drive_sender(p->sender, NULL, 0, S, &p->seen); /* it does not arrive */
    mr_receiver_lost(p->receiver, 0, S);
    pair_drive(p, 3 * S);
    assert_int_equal(p->seen.dropped, 1);
    assert_string_equal(p->seen.why, "connection lost");
    assert_int_equal(mr_sender_offer(p->sender, &packet, S), MR_OK);
    pair_drive(p, 3 * S);
    assert_int_equal(p->seen.dropped, 2);
    assert_string_equal(p->seen.why, "gop");
    packet.key = true;
    packet.identity.seq = 3;
    assert_int_equal(mr_sender_offer(p->sender, &packet, S), MR_OK);
    pair_drive(p, 3 * S);
    assert_int_equal(p->seen.dropped, 2);
    assert_int_equal(p->seen.fresh, 2);
    pair_settle_and_drive(p, 3 * S);
    assert_int_equal(p->seen.settled, 4);
}

/* The session that the sender has begun after the last hello. */
static uint64_t welcome_of(mr_sender *sender) {
    mr_action action;
    uint64_t session = 0;
    while (mr_sender_next(sender, S, &action))
        if (action.kind == MR_ACTION_SEND && action.message.kind == MR_MESSAGE_WELCOME)
            session = action.message.session;
    return session;
}

/* Lets receivers come on routes 1 and 2, each with the same credit; `granted[i]` is the report that grants it. */
static void let_two_come(pair *p, bool live, uint64_t frames, uint64_t bytes, mr_cut_message granted[2]) {
    const char *const names[] = {"b", "c"};
    p->sending.live = live;
    pair_reopen(p);
    for (uint32_t i = 0; i < 2; i++) {
        const mr_cut_message hello = pair_hello(names[i]);
        assert_int_equal(mr_sender_receive(p->sender, i + 1, &hello, S), MR_OK);
        granted[i] = (mr_cut_message){.kind = MR_MESSAGE_REPORT, .session = welcome_of(p->sender), .number = 1,
                                      .report = {.granted_frames = frames, .granted_bytes = bytes, .progress = 1}};
        assert_int_equal(mr_sender_receive(p->sender, i + 1, &granted[i], S), MR_OK);
        assert_true(mr_sender_has_room(p->sender, 10));
    }
}

/* Gives a frame to the receiver that should have it, which grants one more at once. Returns which one it was. */
static int give_one(pair *p, mr_cut_message granted[2], uint32_t source, uint64_t seq) {
    mr_cut_item frame = pair_frame(seq);
    mr_action action;
    frame.identity.source = source;
    assert_int_equal(mr_sender_offer(p->sender, &frame, S), MR_OK);
    assert_true(mr_sender_next(p->sender, S, &action));
    assert_int_equal(action.message.kind, MR_MESSAGE_ITEMS);
    const mr_settled done = {action.message.items.item[0].position, 1, MR_NOTE_DELIVERED, NULL, NULL};
    mr_cut_message *report = &granted[action.peer - 1];
    report->number++;
    report->report.granted_frames++;
    report->report.granted_bytes += frame.bytes;
    report->report.progress++;
    report->report.settled = &done;
    report->report.settled_count = 1;
    assert_int_equal(mr_sender_receive(p->sender, action.peer, report, S), MR_OK);
    pair_drive_sender(p->sender, NULL, 0, S, &p->seen);
    return report != granted;
}

/* However little there is to do, and in whatever pattern sources take turns. */
PAIR_TEST(test_all_get_of_each_source) {
    for (int sources = 1; sources <= 2; sources++) {
        mr_cut_message granted[2];
        int given[2][2] = {{0}};
        let_two_come(p, false, 4, 400, granted);
        for (uint64_t i = 0; i < 16; i++) {
            const uint32_t source = (uint32_t)(i % (uint64_t)sources);
            given[source][give_one(p, granted, source, i)]++;
        }
        for (int source = 0; source < sources; source++)
            assert_int_equal(given[source][0], given[source][1]);
    }
}

/* Two receivers grant so much that the sum overflows 64 bits: it must not become small. */
PAIR_TEST(test_credit_without_end) {
    mr_cut_message granted[2];
    let_two_come(p, true, UINT64_C(1) << 63, UINT64_MAX, granted);
    assert_int_equal(mr_sender_counts(p->sender).malformed, 0);
    pair_offer(p->sender, 0);
    mr_action action;
    assert_true(mr_sender_next(p->sender, S, &action));
    assert_int_equal(action.message.kind, MR_MESSAGE_ITEMS);
    mr_sender_abandon(p->sender, "given up");
}

RUN_TESTS(NULL, NULL)

/* The protocol of cuts, case by case: handshakes, old sessions, credit, runs, several senders, leaving, live cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/transport/session.h"
#include "millrace/status.h"

enum { S = 1000000000 };

static mr_session_self self_of(const char *name, uint64_t incarnation) {
    mr_session_self self = {.name = name, .incarnation = incarnation, .cut = "a->b", .formats = "pictures",
                            .memory = "", .source_count = 2, .lane_count = 1,
                            .timing = {.hello_ns = S, .beat_ns = S, .silence_ns = 5 * (int64_t)S,
                                       .stall_ns = 60 * (int64_t)S, .report_ns = S / 10, .alone_ns = S}};
    self.digest[0] = 7;
    return self;
}

static mr_sender_params sender_params(void) {
    return (mr_sender_params){.self = self_of("a", 100), .run = 1, .receivers = 1, .most_peers = 2, .window_frames = 8,
                              .window_bytes = 1000, .batch_frames = 8, .batch_bytes = 1000, .deaths = 2, .stage = "b"};
}

static mr_receiver_params receiver_params(const char *name) {
    return (mr_receiver_params){.self = self_of(name, 200), .senders = 1, .credit_frames = 4, .credit_bytes = 500,
                                .memory = 32};
}

/* A frame's handle is its number. */
static mr_cut_item frame_item(uint64_t seq) {
    return (mr_cut_item){.kind = MR_CUT_FRAME, .identity = {.seq = seq}, .frame = (mr_frame *)(uintptr_t)(seq + 1),
                         .bytes = 10};
}

/* What came of driving both ends until nothing is left to do. */
typedef struct seen {
    int settled, dropped, aside, fresh, ended;
    mr_peer_change sender_change, receiver_change;
    mr_reject_reason reason;
    uint64_t ticket[32], run;
    const char *why;
} seen;

static void take_items(mr_cut_message *message, seen *s) {
    for (size_t i = 0; i < message->items.count; i++) {
        mr_cut_item *item = &message->items.item[i];
        if (item->fresh && item->kind == MR_CUT_FRAME)
            s->ticket[s->fresh++] = item->ticket;
        s->ended += item->fresh && item->kind == MR_CUT_END;
    }
}

static bool drive_sender(mr_sender *sender, mr_receiver *receiver, uint32_t index, int64_t now_ns, seen *s) {
    mr_action action;
    bool some = false;
    while (mr_sender_next(sender, now_ns, &action)) {
        some = true;
        s->settled += action.kind == MR_ACTION_SETTLE;
        s->aside += action.kind == MR_ACTION_SET_ASIDE;
        if (action.kind == MR_ACTION_SETTLE && action.settled.outcome == MR_NOTE_DROPPED) {
            s->dropped++;
            s->why = action.settled.reason;
        }
        if (action.kind == MR_ACTION_PEER) {
            s->sender_change = action.of.change;
            s->reason = action.of.reason;
        }
        if (action.kind != MR_ACTION_SEND || !receiver)
            continue;
        assert_int_equal(mr_receiver_receive(receiver, index, &action.message, now_ns), MR_OK);
        if (action.message.kind == MR_MESSAGE_ITEMS)
            take_items(&action.message, s);
    }
    return some;
}

static bool drive_receiver(mr_receiver *receiver, mr_sender *const *senders, int64_t now_ns, seen *s) {
    mr_action action;
    bool some = false;
    while (mr_receiver_next(receiver, now_ns, &action)) {
        some = true;
        if (action.kind == MR_ACTION_PEER) {
            s->receiver_change = action.of.change;
            s->reason = action.of.reason;
        }
        if (action.kind == MR_ACTION_NEW_RUN)
            s->run = action.run;
        if (action.kind == MR_ACTION_SEND && senders[action.peer])
            assert_int_equal(mr_sender_receive(senders[action.peer], 5, &action.message, now_ns), MR_OK);
    }
    return some;
}

static void drive(mr_sender *sender, mr_receiver *receiver, int64_t now_ns, seen *s) {
    bool some = true;
    for (int i = 0; some && i < 100; i++) {
        some = drive_receiver(receiver, &sender, now_ns, s);
        some = drive_sender(sender, receiver, 0, now_ns, s) || some;
    }
    assert_false(some);
}

static void open_pair(mr_sender **sender, mr_receiver **receiver) {
    const mr_sender_params sending = sender_params();
    const mr_receiver_params receiving = receiver_params("b");
    assert_int_equal(mr_sender_create(sender, &sending), MR_OK);
    assert_int_equal(mr_receiver_create(receiver, &receiving), MR_OK);
}

static void offer(mr_sender *sender, uint64_t seq) {
    const mr_cut_item item = frame_item(seq);
    assert_int_equal(mr_sender_offer(sender, &item, S), MR_OK);
}

static void settle_all(mr_receiver *receiver, seen *s, int64_t now_ns) {
    for (int i = 0; i < s->fresh; i++)
        mr_receiver_settle(receiver, s->ticket[i], MR_NOTE_DELIVERED, NULL, NULL, now_ns);
}

/* ---- handshakes ------------------------------------------------------------------------------------------------ */

static void test_handshake(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.sender_change, MR_PEER_JOINED);
    assert_int_equal(s.receiver_change, MR_PEER_JOINED);
    for (uint64_t i = 0; i < 3; i++)
        offer(sender, i);
    const mr_cut_item end = {.kind = MR_CUT_END};
    assert_int_equal(mr_sender_offer(sender, &end, S), MR_OK);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 3);
    assert_int_equal(s.ended, 1);
    assert_int_equal(mr_sender_unsettled(sender), 3);
    assert_int_equal(mr_receiver_held(receiver), 3);
    assert_false(mr_sender_finished(sender));
    settle_all(receiver, &s, S);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.settled, 3);
    assert_true(mr_sender_finished(sender));
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

static void assert_rejected(const mr_receiver_params *params, mr_reject_reason reason) {
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    const mr_sender_params sending = sender_params();
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    assert_int_equal(mr_receiver_create(&receiver, params), MR_OK);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.sender_change, MR_PEER_REJECTED);
    assert_int_equal(s.receiver_change, MR_PEER_REJECTED);
    assert_int_equal(s.reason, reason);
    assert_int_equal(mr_sender_counts(sender).rejected, 1);
    drive(sender, receiver, 20 * (int64_t)S, &s);
    assert_int_equal(mr_sender_counts(sender).rejected, 1); /* it does not come back */
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

static void test_rejected(void **state) {
    (void)state;
    mr_receiver_params params = receiver_params("b");
    params.self.digest[31] = 1;
    assert_rejected(&params, MR_REJECT_DIGEST);
    params = receiver_params("b");
    params.self.cut = "a->c";
    assert_rejected(&params, MR_REJECT_CUT);
    params = receiver_params("b");
    params.self.formats = "tensors";
    assert_rejected(&params, MR_REJECT_FORMATS);
    char name[MR_PEER_NAME + 1] = {0};
    memset(name, 'x', MR_PEER_NAME);
    params = receiver_params(name);
    mr_sender *sender;
    const mr_sender_params sending = sender_params();
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    mr_cut_message hello = {.kind = MR_MESSAGE_HELLO,
                            .hello = {2, 9, "b", 1, 1, {7}, "a->b", "pictures", ""}};
    seen s = {0};
    assert_int_equal(mr_sender_receive(sender, 1, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.reason, MR_REJECT_VERSION);
    hello.hello.oldest_version = 1;
    hello.hello.name = name;
    assert_int_equal(mr_sender_receive(sender, 1, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.reason, MR_REJECT_MALFORMED);
    mr_sender_destroy(&sender);
}

/* So many peers and no more, and of two processes of one name the later one. */
static void test_peers(void **state) {
    (void)state;
    mr_sender *sender;
    seen s = {0};
    const mr_sender_params sending = sender_params();
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    mr_cut_message hello = {.kind = MR_MESSAGE_HELLO, .hello = {1, 1, "b", 10, 1, {7}, "a->b", "pictures", ""}};
    assert_int_equal(mr_sender_receive(sender, 1, &hello, S), MR_OK);
    hello.hello.name = "c";
    assert_int_equal(mr_sender_receive(sender, 2, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.sender_change, MR_PEER_JOINED);
    hello.hello.name = "d";
    assert_int_equal(mr_sender_receive(sender, 3, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.reason, MR_REJECT_FULL);
    hello.hello.name = "c";
    hello.hello.incarnation = 9;
    assert_int_equal(mr_sender_receive(sender, 4, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.reason, MR_REJECT_REPLACED);
    hello.hello.incarnation = 11;
    assert_int_equal(mr_sender_receive(sender, 4, &hello, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(s.sender_change, MR_PEER_JOINED);
    assert_int_equal(mr_sender_counts(sender).sessions, 3);
    mr_sender_destroy(&sender);
}

/* Messages of a session that is no more are refused, counted, and change nothing. */
static void test_old_sessions(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    drive(sender, receiver, S, &s);
    offer(sender, 0);
    drive(sender, receiver, S, &s);
    const mr_settled all = {1, 1, MR_NOTE_DELIVERED, NULL, NULL};
    mr_cut_message old = {.kind = MR_MESSAGE_REPORT, .session = 99, .number = 1, .report = {.granted_frames = 1000, .granted_bytes = 1000, .progress = 1, .settled = &all,
                                     .settled_count = 1}};
    assert_int_equal(mr_sender_receive(sender, 6, &old, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s);
    assert_int_equal(mr_sender_counts(sender).stale, 1);
    assert_int_equal(s.settled, 0);
    old.session = 101; /* the present one; what was never sent cannot be settled */
    old.number = 3;
    const mr_settled more = {1, 2, MR_NOTE_DELIVERED, NULL, NULL};
    old.report.settled = &more;
    int status = MR_OK;
    for (uint64_t number = 1; status == MR_OK && number < 9; number++) {
        old.number = number;
        status = mr_sender_receive(sender, 5, &old, S);
    }
    assert_int_equal(status, MR_ERROR_PROTOCOL);
    assert_int_equal(mr_sender_counts(sender).malformed, 1);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    settle_all(receiver, &s, 3 * (int64_t)S);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    assert_int_equal(s.settled, 1);
    assert_int_equal(s.fresh, 1);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* ---- credit and windows ---------------------------------------------------------------------------------------- */

static void test_windows(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    mr_cut_item large = frame_item(0);
    large.bytes = 1001;
    assert_int_equal(mr_sender_offer(sender, &large, S), MR_ERROR_DATA);
    for (uint64_t i = 0; i < 8; i++)
        offer(sender, i);
    const mr_cut_item ninth = frame_item(8);
    assert_false(mr_sender_has_room(sender, 10));
    assert_int_equal(mr_sender_offer(sender, &ninth, S), MR_ERROR_AGAIN);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 4); /* as much as was granted */
    mr_receiver_take(receiver, s.ticket[0]);
    mr_receiver_take(receiver, s.ticket[1]);
    mr_receiver_take(receiver, s.ticket[1]);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 6);
    settle_all(receiver, &s, S);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 8);
    assert_int_equal(s.settled, 6);
    assert_true(mr_sender_has_room(sender, 10));
    mr_sender_abandon(sender, "given up");
    drive(sender, receiver, S, &s);
    assert_int_equal(s.settled, 8);
    assert_int_equal(s.dropped, 2);
    assert_string_equal(s.why, "given up");
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

static void test_without_a_bound_on_bytes(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    mr_sender_params sending = sender_params();
    mr_receiver_params receiving = receiver_params("b");
    sending.window_bytes = receiving.credit_bytes = UINT64_MAX;
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    assert_int_equal(mr_receiver_create(&receiver, &receiving), MR_OK);
    for (uint64_t i = 0; i < 20; i++) {
        offer(sender, i);
        drive(sender, receiver, S, &s);
        settle_all(receiver, &s, S);
        drive(sender, receiver, S, &s);
    }
    assert_int_equal(s.settled, 20);
    assert_int_equal(mr_sender_counts(sender).malformed, 0);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

static void test_more_than_was_granted(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    drive(sender, receiver, S, &s);
    mr_cut_item item[5];
    for (uint64_t i = 0; i < 5; i++) {
        item[i] = frame_item(i);
        item[i].position = i + 1;
    }
    mr_cut_message message = {.kind = MR_MESSAGE_ITEMS, .session = 101, .number = 1, .items = {item, 5}};
    assert_int_equal(mr_receiver_receive(receiver, 0, &message, S), MR_ERROR_PROTOCOL);
    assert_false(item[0].fresh);
    assert_int_equal(mr_receiver_counts(receiver).malformed, 1);
    drive(sender, receiver, 3 * (int64_t)S, &s); /* and a new session begins */
    assert_int_equal(mr_sender_counts(sender).sessions, 2);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* ---- several senders, runs ------------------------------------------------------------------------------------- */

/* Two replicas send the same frame: it is given to the graph once, and both learn what became of it. The end comes
 * when both have ended. */
static void test_two_senders(void **state) {
    (void)state;
    mr_sender *sender[2];
    mr_receiver *receiver;
    seen s = {0};
    mr_receiver_params receiving = receiver_params("b");
    receiving.senders = 2;
    assert_int_equal(mr_receiver_create(&receiver, &receiving), MR_OK);
    const mr_cut_item end = {.kind = MR_CUT_END};
    for (int i = 0; i < 2; i++) {
        mr_sender_params sending = sender_params();
        sending.self.incarnation += (uint64_t)i;
        assert_int_equal(mr_sender_create(&sender[i], &sending), MR_OK);
        offer(sender[i], 4);
        offer(sender[i], 5 + (uint64_t)i);
        assert_int_equal(mr_sender_offer(sender[i], &end, S), MR_OK);
    }
    for (int turn = 0; turn < 6; turn++) {
        drive_receiver(receiver, sender, S, &s);
        for (uint32_t i = 0; i < 2; i++)
            drive_sender(sender[i], receiver, i, S, &s);
    }
    assert_int_equal(s.fresh, 3);
    assert_int_equal(s.ended, 1);
    assert_int_equal(mr_receiver_counts(receiver).again, 1);
    settle_all(receiver, &s, S);
    for (int turn = 0; turn < 3; turn++) {
        drive_receiver(receiver, sender, S, &s);
        for (uint32_t i = 0; i < 2; i++)
            drive_sender(sender[i], receiver, i, S, &s);
    }
    assert_int_equal(s.settled, 4);
    assert_true(mr_sender_finished(sender[0]) && mr_sender_finished(sender[1]));
    mr_sender_destroy(&sender[0]);
    mr_sender_destroy(&sender[1]);
    mr_receiver_destroy(&receiver);
}

/* A sender that comes back in the same run sends nothing twice; in a new run the same numbers are other frames. */
static void test_runs(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    offer(sender, 0);
    drive(sender, receiver, S, &s);
    for (uint64_t run = 1; run < 3; run++) {
        mr_sender_params sending = sender_params();
        sending.self.incarnation += run;
        sending.run = run;
        mr_sender_destroy(&sender);
        mr_receiver_lost(receiver, 0, (int64_t)run * 10 * S);
        assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
        offer(sender, 0);
        drive(sender, receiver, (int64_t)run * 10 * S, &s);
        assert_int_equal(s.fresh, run);
        assert_int_equal(s.run, run == 1 ? 0 : run);
    }
    mr_receiver_settle(receiver, s.ticket[0], MR_NOTE_DELIVERED, NULL, NULL, 30 * (int64_t)S);
    drive(sender, receiver, 22 * (int64_t)S, &s);
    assert_int_equal(s.settled, 0); /* that was another run's */
    mr_receiver_settle(receiver, s.ticket[1], MR_NOTE_DELIVERED, NULL, NULL, 22 * (int64_t)S);
    drive(sender, receiver, 22 * (int64_t)S, &s);
    assert_int_equal(s.settled, 1);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* ---- leaving, live --------------------------------------------------------------------------------------------- */

static void test_leaving(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    open_pair(&sender, &receiver);
    for (uint64_t i = 0; i < 8; i++)
        offer(sender, i);
    drive(sender, receiver, S, &s);
    mr_receiver_withdraw(receiver);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 4);
    settle_all(receiver, &s, S);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.settled, 4);
    assert_int_equal(s.fresh, 4);
    assert_int_equal(s.sender_change, MR_PEER_LEFT);
    assert_int_equal(mr_sender_unsettled(sender), 4);
    mr_receiver_destroy(&receiver);
    mr_receiver_params another = receiver_params("c"); /* takes what is left */
    assert_int_equal(mr_receiver_create(&receiver, &another), MR_OK);
    s.fresh = 0;
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 4);
    mr_sender_close(sender, "the end");
    drive(sender, receiver, S, &s);
    assert_int_equal(s.receiver_change, MR_PEER_LEFT);
    drive(sender, receiver, 10 * (int64_t)S, &s);
    assert_int_equal(s.reason, MR_REJECT_FULL);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* Live: no room without credit; what was under way when the connection broke is dropped, and packets up to the
 * next key frame with it. */
static void test_live(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    seen s = {0};
    mr_sender_params sending = sender_params();
    const mr_receiver_params receiving = receiver_params("b");
    sending.live = true;
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    assert_int_equal(mr_receiver_create(&receiver, &receiving), MR_OK);
    assert_false(mr_sender_has_room(sender, 10));
    drive(sender, receiver, S, &s);
    mr_cut_item packet = frame_item(0);
    packet.packet = packet.key = true;
    assert_int_equal(mr_sender_offer(sender, &packet, S), MR_OK);
    drive(sender, receiver, S, &s);
    assert_int_equal(s.fresh, 1);
    packet.key = false;
    assert_int_equal(mr_sender_offer(sender, &packet, S), MR_OK);
    drive_sender(sender, NULL, 0, S, &s); /* it does not arrive */
    mr_receiver_lost(receiver, 0, S);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    assert_int_equal(s.dropped, 1);
    assert_string_equal(s.why, "connection lost");
    assert_int_equal(mr_sender_offer(sender, &packet, S), MR_OK);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    assert_int_equal(s.dropped, 2);
    assert_string_equal(s.why, "gop");
    packet.key = true;
    packet.identity.seq = 3;
    assert_int_equal(mr_sender_offer(sender, &packet, S), MR_OK);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    assert_int_equal(s.dropped, 2);
    assert_int_equal(s.fresh, 2);
    settle_all(receiver, &s, 3 * (int64_t)S);
    drive(sender, receiver, 3 * (int64_t)S, &s);
    assert_int_equal(s.settled, 4);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake),     cmocka_unit_test(test_rejected),
        cmocka_unit_test(test_peers),         cmocka_unit_test(test_old_sessions),
        cmocka_unit_test(test_windows),       cmocka_unit_test(test_without_a_bound_on_bytes),
        cmocka_unit_test(test_more_than_was_granted),
        cmocka_unit_test(test_two_senders),   cmocka_unit_test(test_runs),
        cmocka_unit_test(test_leaving),       cmocka_unit_test(test_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

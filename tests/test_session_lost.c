/* The protocol of cuts: who is taken for lost or dead and comes back after all, and connections that are of no use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "millrace/status.h"
#include "tests/support/session_pair.h"

/* Two frames are with the receiver when its connection is closed, and nothing is heard of it for longer than silence_ns. */
static int64_t lose_receiver(mr_sender *sender, mr_receiver *receiver, pair_seen *s) {
    int64_t later_ns = 20 * (int64_t)S;
    pair_drive(sender, receiver, S, s);
    pair_offer(sender, 0);
    pair_offer(sender, 1);
    pair_drive(sender, receiver, S, s);
    assert_int_equal(s->fresh, 2);
    mr_sender_lost(sender, 5, S);
    pair_drive_sender(sender, NULL, 0, later_ns, s);
    return later_ns;
}

/* Frames under suspicion go one by one; who is back had not died, so there is none. */
static void test_who_is_back_had_not_died(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    pair_seen s = {0};
    pair_open(&sender, &receiver);
    int64_t now_ns = lose_receiver(sender, receiver, &s);
    s.most_items = 0;
    mr_receiver_lost(receiver, 0, now_ns);
    pair_offer(sender, 2);
    pair_offer(sender, 3);
    pair_drive(sender, receiver, now_ns, &s);
    assert_int_equal(s.fresh, 4);
    assert_int_equal(s.most_items, 2);
    pair_settle_all(receiver, &s, now_ns);
    pair_drive(sender, receiver, now_ns, &s);
    assert_int_equal(s.settled, 4);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* The same, but it is another process that comes: the two frames are sent to it one by one, unless nothing is ever set
 * aside. */
static void meet_another(uint32_t deaths, int most_items) {
    mr_sender *sender;
    mr_receiver *first, *second;
    mr_sender_params sending = pair_sender_params();
    mr_receiver_params receiving = pair_receiver_params("b");
    pair_seen s = {0};
    sending.deaths = deaths;
    assert_int_equal(mr_sender_create(&sender, &sending), MR_OK);
    assert_int_equal(mr_receiver_create(&first, &receiving), MR_OK);
    receiving.self.incarnation++;
    assert_int_equal(mr_receiver_create(&second, &receiving), MR_OK);
    int64_t now_ns = lose_receiver(sender, first, &s);
    s = (pair_seen){0};
    for (int turn = 0; turn < 4 && s.settled < 2; turn++) {
        pair_drive(sender, second, now_ns, &s);
        pair_settle_all(second, &s, now_ns);
    }
    pair_drive(sender, second, now_ns, &s);
    assert_int_equal(s.settled, 2);
    assert_int_equal(s.most_items, most_items);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&first);
    mr_receiver_destroy(&second);
}

static void test_another_process_is_sent_them_alone(void **state) {
    (void)state;
    meet_another(2, 1);
}

static void test_nothing_is_suspected_where_nothing_is_set_aside(void **state) {
    (void)state;
    meet_another(0, 2);
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

/* Where nothing comes the connection is renewed, again and again; where something does, it stays. */
static void test_silent_connections_are_renewed(void **state) {
    (void)state;
    mr_sender *sender, *nobody = NULL;
    mr_receiver *receiver;
    pair_seen s = {0};
    pair_open(&sender, &receiver);
    for (int64_t turn = 1; turn <= 16; turn++)
        pair_drive_receiver(receiver, &nobody, turn * S, &s);
    assert_int_equal(s.renewed, 3);
    for (int64_t turn = 17; turn <= 40; turn++)
        pair_drive(sender, receiver, turn * S, &s);
    assert_int_equal(s.renewed, 3);
    assert_int_equal(s.receiver_change, MR_PEER_JOINED);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

/* At once where garbage comes, or is said to; but not more often than HELLO is said. */
static void test_spoilt_connections_are_renewed(void **state) {
    (void)state;
    mr_sender *sender;
    mr_receiver *receiver;
    pair_seen s = {0};
    pair_open(&sender, &receiver);
    pair_drive(sender, receiver, S, &s);
    mr_receiver_malformed(receiver, 0);
    pair_drive(sender, receiver, S + 1, &s);
    assert_int_equal(s.renewed, 1);
    mr_receiver_malformed(receiver, 0);
    pair_drive_receiver(receiver, &sender, S + 2, &s);
    assert_int_equal(s.renewed, 1);
    pair_drive(sender, receiver, 2 * (int64_t)S + 1, &s);
    assert_int_equal(s.renewed, 2);
    assert_int_equal(s.receiver_change, MR_PEER_JOINED);
    mr_sender_malformed(sender, 5);
    pair_drive(sender, receiver, 4 * (int64_t)S, &s);
    assert_int_equal(s.renewed, 3);
    mr_sender_destroy(&sender);
    mr_receiver_destroy(&receiver);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_back_had_not_died),
        cmocka_unit_test(test_another_process_is_sent_them_alone),
        cmocka_unit_test(test_nothing_is_suspected_where_nothing_is_set_aside),
        cmocka_unit_test(test_silent_connections_are_renewed),
        cmocka_unit_test(test_spoilt_connections_are_renewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

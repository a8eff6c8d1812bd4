/* The cut protocol when processes restart from the beginning: settled frames must not pass twice, and a process that
 * returns must learn that the run continues. */
#include "engine/data/gap.h"
#include "engine/transport/session/receiver_parts.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/session_pair.h"

/* Nobody knows yet which run it is. */
static mr_sender_params sending_as(uint64_t incarnation) {
    mr_sender_params sending = pair_sender_params();
    sending.self.incarnation = incarnation;
    sending.run = 0;
    return sending;
}

static mr_receiver_params receiving_as(const char *name, uint64_t incarnation) {
    mr_receiver_params receiving = pair_receiver_params(name);
    receiving.self.incarnation = incarnation;
    return receiving;
}

static void start_sender(pair *p, uint64_t incarnation, int64_t now_ns) {
    const mr_sender_params sending = sending_as(incarnation);
    if (p->sender)
        mr_receiver_lost(p->receiver, 0, now_ns);
    mr_sender_destroy(&p->sender);
    assert_int_equal(mr_sender_create(&p->sender, &sending), MR_OK);
}

/* One after another, each settled before the next. Returns how many were fresh. */
static int pass(pair *p, uint64_t from, uint64_t to, int64_t now_ns) {
    int fresh = 0;
    for (uint64_t seq = from; seq < to; seq++) {
        pair_offer(p->sender, seq);
        pair_drive(p, now_ns);
        fresh += p->seen.fresh;
        pair_settle_and_drive(p, now_ns);
        p->seen.fresh = 0;
    }
    return fresh;
}

/* How many frames are fresh when a restarted sender repeats the first 60 frames and gives two new ones. */
static int fresh_of_a_second_reading(pair *p, bool remembers_all) {
    const mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    receiving.remembers_all = remembers_all;
    receiving.memory = 8;
    pair_open(p, &sending, &receiving);
    pass(p, 0, 60, S);
    start_sender(p, 101, 20 * S);
    p->seen = (pair_seen){0};
    const int fresh = pass(p, 0, 62, 20 * S);
    assert_int_equal(p->seen.settled, 62);
    assert_int_equal(p->seen.dropped, 0);
    assert_int_equal(mr_sender_unsettled(p->sender), 0);
    return fresh;
}

PAIR_TEST(test_a_source_that_is_read_again) {
    assert_int_equal(fresh_of_a_second_reading(p, true), 2);
    assert_int_equal(mr_receiver_counts(p->receiver).again, 60);
    /* With memory for only a few frames, older ones count as new: after live cuts. */
    assert_true(fresh_of_a_second_reading(p, false) > 40);
}

/* What came back to the first process is lost with it: the second one gets its outcomes anew, from the graph. */
PAIR_TEST(test_frames_that_come_back) {
    const mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    receiving.remembers_all = receiving.returns = true;
    receiving.memory = 8;
    pair_open(p, &sending, &receiving);
    pass(p, 0, 20, S);
    pair_offer(p->sender, 20);
    pair_drive(p, S); /* under way: it is still here when the sender is started again */
    const uint64_t held = p->seen.ticket[0];
    start_sender(p, 101, 20 * S);
    p->seen.fresh = 0;
    const int fresh = pass(p, 0, 22, 20 * S);
    mr_receiver_settle(p->receiver, held, MR_NOTE_DELIVERED, NULL, NULL, 20 * S);
    pair_drive(p, 21 * S);
    assert_int_equal(fresh, 21);
    assert_int_equal(mr_receiver_counts(p->receiver).again, 1);
    assert_int_equal(mr_sender_unsettled(p->sender), 0);
}

/* What is under way for the first process comes to nothing: the second one's is given to the graph as well. */
PAIR_TEST(test_frames_that_are_made_again) {
    const mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    receiving.returns = receiving.renews = true;
    receiving.memory = 8;
    pair_open(p, &sending, &receiving);
    pass(p, 0, 3, S);
    pair_offer_all(p->sender, 3, 7); /* as many as there is credit for: they stay in the graph */
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    const uint64_t former = p->seen.ticket[0];
    start_sender(p, 101, 20 * S);
    p->seen = (pair_seen){0};
    pair_offer_all(p->sender, 1, 5);
    pair_drive(p, 20 * S);
    assert_int_equal(p->seen.fresh, 4);
    mr_receiver_settle(p->receiver, former, MR_NOTE_DROPPED, NULL, "of another process", 20 * S);
    mr_receiver_take(p->receiver, former);
    pair_drive(p, 20 * S);
    assert_int_equal(p->seen.settled, 0);
    pair_settle_and_drive(p, 20 * S);
    assert_int_equal(p->seen.settled, 4);
    assert_int_equal(p->seen.dropped, 0);
    assert_int_equal(mr_receiver_maker(p->receiver, 0), 101);
}

/* The source's end came before the sender died: frames sent again were settled, and are not "after the end". */
PAIR_TEST(test_what_was_done_before_the_end) {
    const mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    const mr_cut_item end = {.kind = MR_CUT_END};
    receiving.remembers_all = true;
    receiving.memory = 8;
    pair_open(p, &sending, &receiving);
    pass(p, 0, 60, S);
    assert_int_equal(mr_sender_offer(p->sender, &end, S), MR_OK);
    pair_drive(p, S);
    assert_int_equal(p->seen.ended, 1);
    start_sender(p, 101, 20 * S);
    p->seen = (pair_seen){0};
    pass(p, 0, 60, 20 * S);
    assert_int_equal(mr_sender_offer(p->sender, &end, 20 * S), MR_OK);
    pair_drive(p, 20 * S);
    assert_int_equal(p->seen.settled, 60);
    assert_int_equal(p->seen.dropped, 0);
    assert_true(mr_sender_finished(p->sender));
}

/* Frame `seq` has 1 to 3 objects, and then the mark that ends them. */
static void offer_objects(pair *p, uint64_t seq) {
    const uint32_t count = 1 + (uint32_t)(seq % 3);
    mr_cut_item item = pair_frame(seq);
    for (item.identity.sub = 1; item.identity.sub <= count; item.identity.sub++)
        assert_int_equal(mr_sender_offer(p->sender, &item, S), MR_OK);
    item = (mr_cut_item){.kind = MR_CUT_GAP, .identity = {.seq = seq, .sub = MR_SUB_OBJECTS + count}};
    assert_int_equal(mr_sender_offer(p->sender, &item, S), MR_OK);
    pair_drive(p, S);
    pair_settle_and_drive(p, S);
    p->seen.fresh = 0;
}

/* What is remembered does not grow with each change in the number of objects. */
PAIR_TEST(test_numbers_of_objects_that_change) {
    p->receiving.remembers_all = true;
    p->receiving.memory = 8;
    pair_reopen(p);
    for (uint64_t seq = 0; seq < 300; seq++)
        offer_objects(p, seq);
    assert_int_equal(p->receiver->settled.lane_count, 3);
    assert_true(p->receiver->settled.interval_count <= 3 + 8);
}

static mr_run_state last_received(const pair *p) {
    bool absent;
    return mr_receiver_run_state(p->receiver, &absent);
}

static void restart_receiver(pair *p, const char *name, uint64_t incarnation, int64_t now_ns) {
    const mr_receiver_params receiving = receiving_as(name, incarnation);
    mr_receiver_destroy(&p->receiver);
    assert_int_equal(mr_receiver_create(&p->receiver, &receiving), MR_OK);
    pair_drive(p, now_ns);
}

/* A node of an older version before the sender passes no marks on: its frames come all the same. */
PAIR_TEST(test_frames_whose_maker_is_not_known) {
    mr_sender_params sending = sending_as(100);
    const mr_receiver_params receiving = receiving_as("b", 201);
    sending.renewed = true;
    pair_open(p, &sending, &receiving);
    pair_drive(p, S);
    assert_false(mr_sender_is_former(p->sender, 0));
    pair_offer_all(p->sender, 0, 4);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    pair_settle_and_drive(p, S);
    restart_receiver(p, "b", 202, 10 * S);
    p->seen = (pair_seen){0};
    pair_offer_all(p->sender, 4, 7);
    pair_drive(p, 10 * S);
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(p->seen.settled, 0);
}

/* Frames go only to the process that made them, in whichever order both ends learn of a new one. */
PAIR_TEST(test_who_made_a_frame_gets_it) {
    mr_sender_params sending = sending_as(100);
    const mr_receiver_params receiving = receiving_as("b", 201);
    const mr_cut_item mark = {.kind = MR_CUT_GAP, .identity = {.seq = 9, .sub = MR_SUB_OBJECTS}};
    sending.renewed = true;
    pair_open(p, &sending, &receiving);
    mr_sender_renew(p->sender, 0, 201, S);
    pair_offer_all(p->sender, 0, 6);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    restart_receiver(p, "b", 202, 10 * S); /* before its first frame */
    assert_int_equal(p->seen.fresh, 4);
    assert_int_equal(p->seen.settled, 6);
    assert_int_equal(p->seen.dropped, 0);
    assert_true(mr_sender_is_former(p->sender, 0));
    mr_sender_renew(p->sender, 0, 202, 10 * S);
    assert_false(mr_sender_is_former(p->sender, 0));
    p->seen = (pair_seen){0};
    pair_offer_all(p->sender, 2, 4);
    pair_drive(p, 10 * S);
    assert_int_equal(p->seen.fresh, 2);
    assert_int_equal(mr_sender_offer(p->sender, &mark, 10 * S), MR_OK);
    mr_sender_renew(p->sender, 0, 203, 10 * S); /* after its first frame */
    p->seen = (pair_seen){0};
    pair_offer_all(p->sender, 1, 4);
    pair_drive(p, 10 * S);
    assert_int_equal(p->seen.settled, 2);
    p->seen.fresh = 0;
    restart_receiver(p, "b", 203, 20 * S);
    for (int i = 0; i < 3; i++) /* one at a time: a process died while it had them */
        pair_settle_and_drive(p, 20 * S);
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(p->seen.marks, 0);
    assert_int_equal(p->seen.settled, 2 + 3);
    assert_int_equal(mr_sender_unsettled(p->sender), 0);
    mr_sender_renew(p->sender, 0, 202, 20 * S); /* late */
    assert_false(mr_sender_is_former(p->sender, 0));
}

/* The same one node further on: items say which process made them, and what was made for a former one is forgotten. */
PAIR_TEST(test_frames_that_a_third_node_makes_again) {
    mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    sending.passes = receiving.renews = true;
    pair_open(p, &sending, &receiving);
    mr_sender_renew(p->sender, 0, 301, S);
    pair_offer_all(p->sender, 0, 6);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4); /* as many as there is credit for: they stay in the graph */
    assert_int_equal(mr_receiver_maker(p->receiver, 0), 301);
    const uint64_t former = p->seen.ticket[0];
    mr_sender_renew(p->sender, 0, 302, S);
    pair_drive(p, S);
    assert_int_equal(p->seen.settled, 6);
    assert_int_equal(p->seen.dropped, 0);
    p->seen = (pair_seen){0};
    pair_offer_all(p->sender, 2, 6);
    mr_receiver_take(p->receiver, former);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 4);
    assert_int_equal(mr_receiver_maker(p->receiver, 0), 302);
    mr_receiver_settle(p->receiver, former, MR_NOTE_DROPPED, NULL, "of another process", S);
    pair_drive(p, S);
    assert_int_equal(p->seen.settled, 0);
    pair_settle_and_drive(p, S);
    assert_int_equal(p->seen.settled, 4);
    assert_int_equal(p->seen.dropped, 0);

    /* Another process sends: what the same process made is not done again. */
    mr_receiver_lost(p->receiver, 0, 9 * S);
    mr_sender_destroy(&p->sender);
    sending.self.incarnation = 101;
    assert_int_equal(mr_sender_create(&p->sender, &sending), MR_OK);
    mr_sender_renew(p->sender, 0, 302, 10 * S);
    p->seen = (pair_seen){0};
    assert_int_equal(pass(p, 4, 8, 20 * S), 2);
    assert_int_equal(p->seen.settled, 4);

    /* Another one receives: it is told with the first items. */
    restart_receiver(p, "b", 201, 30 * S);
    p->receiver->params.renews = true;
    assert_int_equal(mr_receiver_maker(p->receiver, 0), 0);
    assert_int_equal(pass(p, 8, 9, 30 * S), 1);
    assert_int_equal(mr_receiver_maker(p->receiver, 0), 302);
}

/* A sender that does not know yet must tell as soon as it does. */
PAIR_TEST(test_who_begins_is_told_so) {
    start_sender(p, 100, S);
    pair_drive(p, S);
    assert_int_equal(p->seen.receiver_change, MR_PEER_JOINED);
    assert_int_equal(last_received(p), MR_RUN_UNKNOWN);
    mr_sender_set_run_state(p->sender, MR_RUN_BEGINS);
    pair_drive(p, S);
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
    /* What it settled itself is not new to it, even in another session. */
    pass(p, 0, 3, S);
    mr_sender_lost(p->sender, 0, S);
    mr_receiver_lost(p->receiver, 0, S);
    pair_drive(p, 3 * S);
    assert_int_equal(mr_receiver_counts(p->receiver).sessions, 2);
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
}

PAIR_TEST(test_who_comes_back_is_told_so) {
    start_sender(p, 100, S);
    mr_sender_set_run_state(p->sender, MR_RUN_BEGINS);
    pair_offer(p->sender, 0);
    pair_drive(p, S);
    restart_receiver(p, "b", 201, 10 * S); /* nothing was delivered, so everything is written again */
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
    p->seen.fresh = 0;
    pair_drive(p, 20 * S);
    restart_receiver(p, "b", 202, 30 * S);
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
    pass(p, 1, 2, 30 * S);
    restart_receiver(p, "b", 203, 40 * S);
    assert_int_equal(last_received(p), MR_RUN_GOES_ON);
    pass(p, 2, 3, 40 * S);
    restart_receiver(p, "b", 204, 50 * S);
    assert_int_equal(last_received(p), MR_RUN_GOES_ON);
}

/* If frames were only dropped, there is nothing to keep. */
PAIR_TEST(test_who_has_delivered_nothing_begins) {
    start_sender(p, 100, S);
    mr_sender_set_run_state(p->sender, MR_RUN_BEGINS);
    pair_offer(p->sender, 0);
    pair_drive(p, S);
    mr_receiver_settle(p->receiver, p->seen.ticket[0], MR_NOTE_DROPPED, "x", "late", S);
    pair_drive(p, 2 * S);
    assert_int_equal(p->seen.dropped, 1);
    restart_receiver(p, "b", 201, 10 * S);
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
}

/* Each process of a node has separate files. */
PAIR_TEST(test_replicas_are_told_apart) {
    mr_sender_params sending = sending_as(100);
    const mr_receiver_params receiving = receiving_as("b.0", 200);
    sending.consumer = "b";
    sending.receivers = 2;
    pair_open(p, &sending, &receiving);
    mr_sender_set_run_state(p->sender, MR_RUN_BEGINS);
    pass(p, 0, 2, S);
    restart_receiver(p, "b.1", 201, 2 * S);
    assert_int_equal(last_received(p), MR_RUN_BEGINS);
    restart_receiver(p, "b.0", 202, 20 * S);
    assert_int_equal(last_received(p), MR_RUN_GOES_ON);
}

/* Later nodes learn what this one was. */
PAIR_TEST(test_what_goes_on_before_goes_on_here) {
    start_sender(p, 100, S);
    mr_sender_set_run_state(p->sender, MR_RUN_GOES_ON);
    pair_drive(p, S);
    assert_int_equal(last_received(p), MR_RUN_GOES_ON);
}

/* One of two senders has not come: the caller decides how long to wait. */
PAIR_TEST(test_one_that_is_not_there) {
    bool absent;
    const mr_sender_params sending = sending_as(100);
    mr_receiver_params receiving = pair_receiver_params("b");
    receiving.senders = 2;
    pair_open(p, &sending, &receiving);
    assert_int_equal(mr_receiver_run_state(p->receiver, &absent), MR_RUN_UNKNOWN);
    assert_false(absent); /* none has reported yet */
    mr_sender_set_run_state(p->sender, MR_RUN_BEGINS);
    mr_sender *senders[] = {p->sender, p->sender};
    pair_drive_receiver(p->receiver, senders, S, &p->seen);
    pair_drive_sender(p->sender, p->receiver, 0, S, &p->seen);
    assert_int_equal(mr_receiver_run_state(p->receiver, &absent), MR_RUN_UNKNOWN);
    assert_true(absent);
}

RUN_TESTS(NULL, NULL)

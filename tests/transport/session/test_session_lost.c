/* The cut protocol: peers considered lost or dead that return, and useless connections. */
#include "engine/data/gap.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/session_pair.h"

/* The receiver has two frames when the connection closes, and stays silent for longer than silence_ns. */
static int64_t lose_receiver(pair *p) {
    int64_t later_ns = 20 * S;
    pair_drive(p, S);
    pair_offer(p->sender, 0);
    pair_offer(p->sender, 1);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 2);
    mr_sender_lost(p->sender, 5, S);
    pair_drive_sender(p->sender, NULL, 0, later_ns, &p->seen);
    return later_ns;
}

/* A lone peer that still has something to give or to get must wait for the other. */
PAIR_TEST(test_who_waits_for_whom) {
    uint32_t sender = 1;
    assert_true(mr_sender_waits(p->sender) && mr_receiver_waits(p->receiver, &sender));
    assert_int_equal(sender, 0);
    pair_drive(p, S);
    assert_false(mr_sender_waits(p->sender) || mr_receiver_waits(p->receiver, &sender));
    mr_receiver_withdraw(p->receiver);
    pair_drive(p, S);
    assert_int_equal(p->seen.sender_change, MR_PEER_LEFT);
    assert_true(mr_sender_waits(p->sender));
    assert_false(mr_receiver_waits(p->receiver, &sender));
    mr_sender_close(p->sender, "");
    assert_false(mr_sender_waits(p->sender));
}

/* Suspected frames go one by one. A receiver that returns had not died, so there are none. */
PAIR_TEST(test_who_is_back_had_not_died) {
    int64_t now_ns = lose_receiver(p);
    p->seen.most_items = 0;
    mr_receiver_lost(p->receiver, 0, now_ns);
    pair_offer(p->sender, 2);
    pair_offer(p->sender, 3);
    pair_drive(p, now_ns);
    assert_int_equal(p->seen.fresh, 4);
    assert_int_equal(p->seen.most_items, 2);
    pair_settle_and_drive(p, now_ns);
    assert_int_equal(p->seen.settled, 4);
}

/* The same, but another process comes: it must get the two frames one by one, unless nothing is ever set aside. */
static void meet_another(pair *p, uint32_t deaths, int most_items) {
    p->sending.deaths = deaths;
    pair_reopen(p);
    int64_t now_ns = lose_receiver(p);
    mr_receiver_destroy(&p->receiver);
    p->receiving.self.incarnation++;
    assert_int_equal(mr_receiver_create(&p->receiver, &p->receiving), MR_OK);
    p->seen = (pair_seen){0};
    for (int turn = 0; turn < 4 && p->seen.settled < 2; turn++) {
        pair_drive(p, now_ns);
        pair_settle_all(p, now_ns);
    }
    pair_drive(p, now_ns);
    assert_int_equal(p->seen.settled, 2);
    assert_int_equal(p->seen.most_items, most_items);
}

PAIR_TEST(test_another_process_is_sent_them_alone) {
    meet_another(p, 2, 1);
}

PAIR_TEST(test_nothing_is_suspected_where_nothing_is_set_aside) {
    meet_another(p, 0, 2);
}

/* Processes die one after another. If such frames are not set aside, from the second death on the frame that each had
 * first is named. */
PAIR_TEST(test_what_kills_is_named) {
    p->sending.deaths = 0;
    pair_reopen(p);
    pair_drive(p, S);
    pair_offer_all(p->sender, 0, 3);
    pair_drive(p, S);
    mr_receiver_settle(p->receiver, p->seen.ticket[0], MR_NOTE_DELIVERED, NULL, NULL, S);
    pair_drive(p, S + S / 5);
    assert_int_equal(p->seen.settled, 1);
    for (int deaths = 1; deaths <= 3; deaths++) {
        mr_receiver_destroy(&p->receiver);
        p->receiving.self.incarnation++;
        assert_int_equal(mr_receiver_create(&p->receiver, &p->receiving), MR_OK);
        pair_drive(p, (1 + deaths) * S);
        assert_int_equal(p->seen.suspected, deaths - 1);
    }
    assert_int_equal(p->seen.suspect.seq, 1);
    assert_int_equal(p->seen.aside, 0);
}

/* ---- messages that are refused ---------------------------------------------------------------------------------- */

static void open_refusing(pair *p, uint32_t refusals, uint64_t unreadable) {
    p->sending.refusals = refusals;
    pair_reopen(p);
    pair_drive(p, S);
    p->seen.unreadable = unreadable;
    pair_offer_all(p->sender, 0, 4);
}

/* A bad frame in the middle of a message: only it is set aside, the others pass, and the cut continues. */
PAIR_TEST(test_what_is_refused_is_set_aside) {
    open_refusing(p, 3, 2);
    for (int64_t now = 1; now < 20; now++) {
        pair_drive(p, now * S);
        pair_settle_all(p, now * S);
    }
    assert_int_equal(p->seen.refused, 3);
    assert_int_equal(p->seen.aside, 1);
    assert_string_equal(p->seen.why, "refused");
    assert_int_equal(p->seen.settled, 3);
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(mr_sender_unsettled(p->sender), 0);
    assert_int_equal(mr_sender_counts(p->sender).set_aside, 1);
    assert_int_equal(mr_receiver_counts(p->receiver).malformed, 3);
    pair_offer(p->sender, 4);
    pair_drive(p, 21 * S);
    assert_int_equal(p->seen.fresh, 4);
}

/* Messages that were lost, or refused less often, are sent again, and nothing is set aside. */
PAIR_TEST(test_few_refusals_set_nothing_aside) {
    open_refusing(p, 3, 1);
    for (int64_t now = 1; now < 20; now++) {
        if (p->seen.refused == 2)
            p->seen.unreadable = 0;
        pair_drive(p, now * S);
        if (now % 3 == 0)
            mr_receiver_lost(p->receiver, 0, now * S);
    }
    assert_int_equal(p->seen.refused, 2);
    assert_int_equal(p->seen.aside, 0);
    assert_int_equal(p->seen.fresh, 4);
}

/* A message that the sender cannot write is given up in the same way. */
PAIR_TEST(test_what_cannot_be_written_is_set_aside) {
    mr_action action;
    open_refusing(p, 3, 0);
    int unwritten = 0;
    for (int64_t now = 1; now < 20; now++) {
        pair_drive_receiver(p->receiver, &p->sender, now * S, &p->seen);
        while (mr_sender_next(p->sender, now * S, &action)) {
            p->seen.aside += action.kind == MR_ACTION_SET_ASIDE;
            if (action.kind != MR_ACTION_SEND)
                continue;
            bool items = action.message.kind == MR_MESSAGE_ITEMS;
            if (items && action.message.items.item[0].identity.seq == 0) {
                unwritten++;
                mr_sender_unwritten(p->sender, action.message.session);
            } else {
                assert_int_equal(mr_receiver_receive(p->receiver, 0, &action.message, now * S), MR_OK);
                for (size_t i = 0; items && i < action.message.items.count; i++)
                    p->seen.fresh += action.message.items.item[i].fresh;
            }
        }
    }
    assert_int_equal(unwritten, 3);
    assert_int_equal(p->seen.aside, 1);
    assert_int_equal(p->seen.fresh, 3);
}

/* ---- what is gone unseen --------------------------------------------------------------------------------------- */

/* Another receiver process comes and learns everything there is to learn. */
static void come_anew(pair *p, mr_receiver_params *receiving, int64_t now_ns) {
    mr_receiver_destroy(&p->receiver);
    receiving->self.incarnation++;
    assert_int_equal(mr_receiver_create(&p->receiver, receiving), MR_OK);
    p->seen = (pair_seen){0};
    pair_drive(p, now_ns);
}

/* A live cut tells every new peer how far a source is settled, even if it did so before; and that a source pauses. */
PAIR_TEST(test_what_was_lost_is_told) {
    const mr_cut_item away = {.kind = MR_CUT_GAP, .identity = mr_identity_away(0)};
    p->sending.live = p->sending.reports_lost = true;
    pair_reopen(p);
    pair_drive(p, S);
    assert_int_equal(p->seen.marks, 0);
    pair_offer(p->sender, 0);
    pair_offer(p->sender, 1);
    pair_drive(p, S);
    assert_int_equal(p->seen.fresh, 2);
    for (int64_t turn = 2; turn < 4; turn++) {
        come_anew(p, &p->receiving, turn * S);
        assert_int_equal(p->seen.marks, 1);
        assert_int_equal(p->seen.gone.seq, 1);
        assert_true(mr_identity_is_lost(&p->seen.gone) && !mr_identity_is_away(&p->seen.gone));
    }
    mr_sender_lost(p->sender, 5, 4 * S);
    mr_sender_miss(p->sender, &(mr_identity){.seq = 2});
    assert_int_equal(mr_sender_offer(p->sender, &away, 4 * S), MR_OK);
    come_anew(p, &p->receiving, 4 * S);
    assert_int_equal(p->seen.marks, 2);
    assert_true(mr_identity_is_away(&p->seen.gone));
    pair_offer(p->sender, 3);
    pair_drive(p, 4 * S);
    come_anew(p, &p->receiving, 5 * S);
    assert_int_equal(p->seen.marks, 1);
    assert_int_equal(p->seen.gone.seq, 3);
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

/* A silent connection is renewed repeatedly, first after five seconds, then after ten; one with messages stays. */
PAIR_TEST(test_silent_connections_are_renewed) {
    mr_sender *nobody = NULL;
    for (int64_t turn = 1; turn <= 26; turn++) {
        pair_drive_receiver(p->receiver, &nobody, turn * S, &p->seen);
        assert_int_equal(p->seen.renewed, (turn >= 6) + (turn >= 16) + (turn >= 26));
    }
    for (int64_t turn = 27; turn <= 50; turn++)
        pair_drive(p, turn * S);
    assert_int_equal(p->seen.renewed, 3);
    assert_int_equal(p->seen.receiver_change, MR_PEER_JOINED);
    for (int64_t turn = 51; turn <= 55; turn++)
        pair_drive_receiver(p->receiver, &nobody, turn * S, &p->seen);
    assert_int_equal(p->seen.renewed, 4);
}

/* At once if garbage comes or is reported; but not more often than HELLO is sent. */
PAIR_TEST(test_spoilt_connections_are_renewed) {
    pair_drive(p, S);
    mr_receiver_malformed(p->receiver, 0);
    pair_drive(p, S + 1);
    assert_int_equal(p->seen.renewed, 1);
    mr_receiver_malformed(p->receiver, 0);
    pair_drive_receiver(p->receiver, &p->sender, S + 2, &p->seen);
    assert_int_equal(p->seen.renewed, 1);
    pair_drive(p, 2 * S + 1);
    assert_int_equal(p->seen.renewed, 2);
    assert_int_equal(p->seen.receiver_change, MR_PEER_JOINED);
    mr_sender_malformed(p->sender, 5);
    pair_drive(p, 4 * S);
    assert_int_equal(p->seen.renewed, 3);
}

RUN_TESTS(NULL, NULL)

/* How a session begins: slow answers that come after the next HELLO, connections renewed in between, and whose they
 * are. */
#include <string.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/session_pair.h"

/* ---- a slow link ----------------------------------------------------------------------------------------------- */

enum { WAY = 256, ITEMS = 8, RANGES = 64, SOURCES = 2 };

typedef struct delayed {
    int64_t due_ns;
    mr_cut_message message;
    mr_cut_item item[ITEMS];
    mr_settled settled[RANGES];
    uint32_t ended[SOURCES];
} delayed;

typedef struct way {
    size_t first, count;
    delayed queue[WAY];
} way;

/* Both ends, and messages between them. */
typedef struct slow {
    pair *ends;
    int64_t one_way_ns;
    uint32_t route; /* for the current connection */
    way to_sender, to_receiver;
    int joined, renewed, broken; /* sender: sessions; receiver: connections; both: sessions that ended */
} slow;

static void put(slow *s, way *w, const mr_cut_message *message, int64_t now_ns) {
    assert_true(w->count < WAY);
    delayed *d = &w->queue[(w->first + w->count++) % WAY];
    d->due_ns = now_ns + s->one_way_ns;
    d->message = *message;
    if (message->kind == MR_MESSAGE_ITEMS) {
        assert_true(message->items.count <= ITEMS);
        memcpy(d->item, message->items.item, message->items.count * sizeof *d->item);
        d->message.items.item = d->item;
    } else if (message->kind == MR_MESSAGE_REPORT) {
        assert_true(message->report.settled_count <= RANGES && message->report.ended_count <= SOURCES);
        memcpy(d->settled, message->report.settled, message->report.settled_count * sizeof *d->settled);
        memcpy(d->ended, message->report.ended, message->report.ended_count * sizeof *d->ended);
        d->message.report.settled = d->settled;
        d->message.report.ended = d->ended;
    }
}

static delayed *take(way *w, int64_t now_ns) {
    if (!w->count || w->queue[w->first].due_ns > now_ns)
        return NULL;
    delayed *d = &w->queue[w->first];
    w->first = (w->first + 1) % WAY;
    w->count--;
    return d;
}

static void arrive(slow *s, int64_t now_ns) {
    delayed *d;
    while ((d = take(&s->to_sender, now_ns)))
        assert_int_equal(mr_sender_receive(s->ends->sender, s->route, &d->message, now_ns), MR_OK);
    while ((d = take(&s->to_receiver, now_ns))) {
        assert_int_equal(mr_receiver_receive(s->ends->receiver, 0, &d->message, now_ns), MR_OK);
        for (size_t i = 0; d->message.kind == MR_MESSAGE_ITEMS && i < d->message.items.count; i++)
            if (d->item[i].fresh && d->item[i].kind == MR_CUT_FRAME)
                s->ends->seen.ticket[s->ends->seen.fresh++] = d->item[i].ticket;
    }
}

/* Messages in flight are lost with the connection. */
static void renew(slow *s) {
    s->to_sender.count = s->to_receiver.count = 0;
    s->route++;
    s->renewed++;
}

static void act(slow *s, int64_t now_ns) {
    mr_action action;
    while (mr_receiver_next(s->ends->receiver, now_ns, &action)) {
        if (action.kind == MR_ACTION_RENEW)
            renew(s);
        else if (action.kind == MR_ACTION_SEND)
            put(s, &s->to_sender, &action.message, now_ns);
        else if (action.kind == MR_ACTION_PEER)
            s->broken += action.of.change != MR_PEER_JOINED;
    }
    while (mr_sender_next(s->ends->sender, now_ns, &action)) {
        if (action.kind == MR_ACTION_SEND && action.peer == s->route)
            put(s, &s->to_receiver, &action.message, now_ns);
        s->joined += action.kind == MR_ACTION_PEER && action.of.change == MR_PEER_JOINED;
        s->broken += action.kind == MR_ACTION_PEER && action.of.change != MR_PEER_JOINED;
        s->ends->seen.settled += action.kind == MR_ACTION_SETTLE;
        s->ends->seen.dropped += action.kind == MR_ACTION_SETTLE && action.settled.outcome == MR_NOTE_DROPPED;
    }
}

/* A live cut with this delay each way must deliver its frames in one session. Returns how often the connection was
 * renewed before. */
static int joins_over(pair *p, int64_t one_way_ns, int64_t seconds) {
    static slow s;
    int64_t now_ns = S;
    p->sending.live = true;
    pair_reopen(p);
    p->seen = (pair_seen){0};
    s = (slow){.ends = p, .one_way_ns = one_way_ns, .route = 1};
    for (; now_ns < seconds * S && !mr_sender_has_peer(p->sender); now_ns += S / 10) {
        arrive(&s, now_ns);
        act(&s, now_ns);
    }
    assert_true(mr_sender_has_peer(p->sender));
    assert_int_equal(s.joined, 1);
    int renewed = s.renewed;
    pair_offer_all(p->sender, 0, 3);
    for (int64_t until_ns = now_ns + 60 * S; now_ns < until_ns; now_ns += S / 10) {
        arrive(&s, now_ns);
        act(&s, now_ns);
        pair_settle_all(p, now_ns);
    }
    assert_int_equal(p->seen.fresh, 3);
    assert_int_equal(p->seen.settled, 3);
    assert_int_equal(p->seen.dropped, 0);
    assert_int_equal(mr_sender_counts(p->sender).sessions, 1);
    assert_int_equal(mr_receiver_counts(p->receiver).sessions, 1);
    assert_int_equal(mr_sender_counts(p->sender).peers, 1);
    assert_int_equal(mr_receiver_counts(p->receiver).peers, 1);
    assert_int_equal(s.broken, 0);
    assert_int_equal(s.renewed, renewed);
    return renewed;
}

/* Here HELLO is sent every second, again before the first can be answered. */
PAIR_TEST(test_an_answer_may_take_longer_than_the_next_hello) {
    assert_int_equal(joins_over(p, S / 10, 20), 0);
    assert_int_equal(joins_over(p, 6 * S / 10, 20), 0);
    assert_int_equal(joins_over(p, 2 * S, 20), 0);
}

/* A connection is renewed after five silent seconds; an answer in flight is lost with it. */
PAIR_TEST(test_an_answer_may_take_longer_than_silence) {
    assert_int_equal(joins_over(p, 3 * S, 60), 1);
    assert_int_equal(joins_over(p, 7 * S / 2, 60), 1);
}

/* ---- whose connection it is ------------------------------------------------------------------------------------ */

typedef struct known {
    int count;
    uint32_t route, index;
} known;

/* What the sender must do; keeps only these. */
static known routes_of(mr_sender *sender, int64_t now_ns) {
    known k = {0};
    mr_action action;
    while (mr_sender_next(sender, now_ns, &action))
        if (action.kind == MR_ACTION_ROUTE) {
            k.count++;
            k.route = action.peer;
            k.index = action.of.index;
        }
    return k;
}

static void assert_route(mr_sender *sender, uint32_t route, uint32_t index) {
    const known k = routes_of(sender, S);
    assert_int_equal(k.count, 1);
    assert_int_equal(k.route, route);
    assert_int_equal(k.index, index);
}

static void receive_from(mr_sender *sender, uint32_t route, const mr_cut_message *message) {
    assert_int_equal(mr_sender_receive(sender, route, message, S), MR_OK);
}

static mr_cut_message report_of(uint64_t session, uint64_t number) {
    return (mr_cut_message){.kind = MR_MESSAGE_REPORT, .session = session, .number = number,
                            .report = {.granted_frames = 4, .granted_bytes = 500}};
}

/* When a connection breaks, the transport makes a new one without telling anyone. A session's messages on a new
 * connection come from the same peer, so the connection is that peer's too. Repeated messages, and those without a
 * session, prove nothing. */
PAIR_TEST(test_a_session_goes_on_over_another_connection) {
    mr_cut_message hello = pair_hello("b"), other = pair_hello("c");
    receive_from(p->sender, 1, &hello);
    assert_route(p->sender, 1, 0);
    receive_from(p->sender, 2, &other);
    assert_route(p->sender, 2, 1);
    const uint64_t first = pair_sender_params().self.incarnation + 1;
    mr_cut_message report = report_of(first, 1);
    receive_from(p->sender, 1, &report);
    assert_int_equal(routes_of(p->sender, S).count, 0);
    report.number = 2;
    receive_from(p->sender, 3, &report);
    assert_route(p->sender, 3, 0);
    receive_from(p->sender, 4, &report); /* the same again */
    report = report_of(first + 7, 3);
    receive_from(p->sender, 4, &report); /* without a session */
    receive_from(p->sender, 4, &hello);  /* an old one, which anyone may have seen */
    assert_int_equal(routes_of(p->sender, S).count, 0);
    mr_sender_lost(p->sender, 1, S); /* the former connection */
    assert_true(mr_sender_has_peer(p->sender));
}

/* A HELLO sent before the WELCOME arrived, on a connection made in between: there must be one session, whichever answer
 * arrives. */
PAIR_TEST(test_a_second_hello_is_no_second_session) {
    mr_cut_message hello = pair_hello("b"), report = report_of(pair_sender_params().self.incarnation + 1, 1);
    receive_from(p->sender, 1, &hello);
    assert_route(p->sender, 1, 0);
    hello.hello.attempt = 2;
    receive_from(p->sender, 2, &hello);
    assert_route(p->sender, 2, 0);
    mr_sender_lost(p->sender, 1, S);
    receive_from(p->sender, 2, &report);
    assert_true(mr_sender_has_peer(p->sender));
    assert_int_equal(mr_sender_counts(p->sender).sessions, 1);
    hello.hello.attempt = 3; /* but now it begins a new one */
    receive_from(p->sender, 2, &hello);
    assert_false(mr_sender_has_peer(p->sender));
    assert_int_equal(mr_sender_counts(p->sender).sessions, 2);
}

/* A peer that has left may ask from time to time whether another process is there, also on a new connection: it is not
 * a stranger. */
PAIR_TEST(test_who_has_left_is_no_stranger) {
    const mr_cut_item end = {.kind = MR_CUT_END};
    pair_drive(p, S);
    assert_int_equal(mr_sender_offer(p->sender, &end, S), MR_OK);
    pair_drive(p, S);
    assert_true(mr_sender_finished(p->sender));
    assert_true(mr_receiver_finished(p->receiver));
    mr_action action;
    bool asked = false;
    while (mr_receiver_next(p->receiver, 20 * S, &action))
        if (action.kind == MR_ACTION_SEND && action.message.kind == MR_MESSAGE_HELLO) {
            receive_from(p->sender, 6, &action.message);
            asked = true;
        }
    assert_true(asked);
    assert_route(p->sender, 6, 0);
    assert_true(mr_sender_finished(p->sender));
}

/* ---- no connection yet ----------------------------------------------------------------------------------------- */

/* A missing connection cannot be silent. The transport is making it, so it must not be renewed every five seconds; but
 * every ten, since libzmq stops trying after a failed handshake. When it exists and stays silent, it is renewed as
 * usual. */
PAIR_TEST(test_what_is_not_there_is_renewed_less) {
    mr_action action;
    int hellos = 0, renewed = 0;
    for (int64_t turn = 1; turn <= 35; turn++)
        while (mr_receiver_next(p->receiver, turn * S, &action)) {
            renewed += action.kind == MR_ACTION_RENEW;
            if (action.kind == MR_ACTION_SEND) {
                hellos++;
                mr_receiver_no_line(p->receiver, action.peer);
            }
        }
    assert_int_equal(hellos, 35);
    assert_int_equal(renewed, 3);
    for (int64_t turn = 36; turn <= 41; turn++)
        while (mr_receiver_next(p->receiver, turn * S, &action))
            renewed += action.kind == MR_ACTION_RENEW;
    assert_int_equal(renewed, 4);
}

RUN_TESTS(NULL, NULL)

#include "tests/support/suite.h"
#include "tests/support/transport/session_pair.h"

#include "millrace/status.h"

static mr_session_self self_of(const char *name, uint64_t incarnation) {
    mr_session_self self = {.name = name, .incarnation = incarnation, .cut = "a->b", .formats = "pictures",
                            .memory = "", .source_count = 2, .lane_count = 1,
                            .timing = {.hello_ns = S, .beat_ns = S, .silence_ns = 5 * S,
                                       .stall_ns = 60 * S, .report_ns = S / 10, .alone_ns = S}};
    self.digest[0] = 7;
    return self;
}

mr_sender_params pair_sender_params(void) {
    return (mr_sender_params){.self = self_of("a", 100), .run = 1, .receivers = 1, .most_peers = 2, .window_frames = 8,
                              .window_bytes = 1000, .batch_frames = 8, .batch_bytes = 1000, .deaths = 2, .stage = "b"};
}

mr_receiver_params pair_receiver_params(const char *name) {
    return (mr_receiver_params){.self = self_of(name, 200), .senders = 1, .credit_frames = 4, .credit_bytes = 500,
                                .memory = 32};
}

mr_cut_item pair_frame(uint64_t seq) {
    return (mr_cut_item){.kind = MR_CUT_FRAME, .identity = {.seq = seq}, .frame = (mr_frame *)(uintptr_t)(seq + 1),
                         .bytes = 10};
}

static void take_items(mr_cut_message *message, pair_seen *s) {
    for (size_t i = 0; i < message->items.count; i++) {
        mr_cut_item *item = &message->items.item[i];
        if (item->fresh && item->kind == MR_CUT_FRAME)
            s->ticket[s->fresh++] = item->ticket;
        if (item->fresh && item->kind == MR_CUT_GAP) {
            s->marks++;
            s->gone = item->identity;
        }
        s->ended += item->fresh && item->kind == MR_CUT_END;
    }
}

static bool is_unreadable(const mr_cut_message *message, uint64_t seq) {
    for (size_t i = 0; seq && message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++)
        if (message->items.item[i].kind == MR_CUT_FRAME && message->items.item[i].identity.seq == seq)
            return true;
    return false;
}

bool pair_drive_sender(mr_sender *sender, mr_receiver *receiver, uint32_t index, int64_t now_ns, pair_seen *s) {
    mr_action action;
    bool some = false;
    while (mr_sender_next(sender, now_ns, &action)) {
        some = true;
        s->settled += action.kind == MR_ACTION_SETTLE;
        s->aside += action.kind == MR_ACTION_SET_ASIDE;
        if (action.kind == MR_ACTION_SUSPECT) {
            s->suspected++;
            s->suspect = action.item.identity;
            assert_string_equal(action.of.name, "b");
        }
        if (action.kind == MR_ACTION_SETTLE && action.settled.outcome == MR_NOTE_DROPPED) {
            s->dropped++;
            s->why = action.settled.reason;
        }
        if (action.kind == MR_ACTION_PEER) {
            s->sender_change = action.of.change;
            s->reason = action.of.reason;
        }
        if (action.kind == MR_ACTION_SEND && action.message.kind == MR_MESSAGE_ITEMS &&
            (int)action.message.items.count > s->most_items)
            s->most_items = (int)action.message.items.count;
        if (action.kind == MR_ACTION_SET_ASIDE)
            s->why = action.settled.reason;
        if (action.kind != MR_ACTION_SEND || !receiver)
            continue;
        if (is_unreadable(&action.message, s->unreadable)) {
            s->refused++;
            mr_receiver_malformed(receiver, index);
            continue;
        }
        assert_int_equal(mr_receiver_receive(receiver, index, &action.message, now_ns), MR_OK);
        if (action.message.kind == MR_MESSAGE_ITEMS)
            take_items(&action.message, s);
    }
    return some;
}

bool pair_drive_receiver(mr_receiver *receiver, mr_sender *const *senders, int64_t now_ns, pair_seen *s) {
    mr_action action;
    bool some = false;
    while (mr_receiver_next(receiver, now_ns, &action)) {
        some = true;
        if (action.kind == MR_ACTION_PEER) {
            s->receiver_change = action.of.change;
            s->reason = action.of.reason;
        }
        s->renewed += action.kind == MR_ACTION_RENEW;
        if (action.kind == MR_ACTION_NEW_RUN)
            s->run = action.run;
        if (action.kind == MR_ACTION_SEND && senders[action.peer])
            assert_int_equal(mr_sender_receive(senders[action.peer], 5, &action.message, now_ns), MR_OK);
    }
    return some;
}

void pair_drive(pair *p, int64_t now_ns) {
    bool some = true;
    for (int i = 0; some && i < 100; i++) {
        some = pair_drive_receiver(p->receiver, &p->sender, now_ns, &p->seen);
        some = pair_drive_sender(p->sender, p->receiver, 0, now_ns, &p->seen) || some;
    }
    assert_false(some);
}

void pair_open(pair *p, const mr_sender_params *sending, const mr_receiver_params *receiving) {
    pair_close(p);
    assert_int_equal(mr_sender_create(&p->sender, sending), MR_OK);
    assert_int_equal(mr_receiver_create(&p->receiver, receiving), MR_OK);
}

void pair_begin(pair *p) {
    *p = (pair){.sending = pair_sender_params(), .receiving = pair_receiver_params("b")};
    pair_reopen(p);
}

void pair_reopen(pair *p) {
    pair_open(p, &p->sending, &p->receiving);
}

void pair_close(pair *p) {
    mr_sender_destroy(&p->sender);
    mr_receiver_destroy(&p->receiver);
}

mr_cut_message pair_hello(const char *name) {
    return (mr_cut_message){.kind = MR_MESSAGE_HELLO,
                            .hello = {MR_PROTOCOL_OLDEST, MR_PROTOCOL_NEWEST, name, 10, 1, {7}, "a->b", "pictures", "",
                                      0, NULL, 0}};
}

void pair_hear(pair *p, uint32_t route, const mr_cut_message *message) {
    assert_int_equal(mr_sender_receive(p->sender, route, message, S), MR_OK);
    pair_drive_sender(p->sender, NULL, 0, S, &p->seen);
}

void pair_offer(mr_sender *sender, uint64_t seq) {
    const mr_cut_item item = pair_frame(seq);
    assert_int_equal(mr_sender_offer(sender, &item, S), MR_OK);
}

void pair_settle_all(pair *p, int64_t now_ns) {
    for (int i = 0; i < p->seen.fresh; i++)
        mr_receiver_settle(p->receiver, p->seen.ticket[i], MR_NOTE_DELIVERED, NULL, NULL, now_ns);
}

void pair_settle_and_drive(pair *p, int64_t now_ns) {
    pair_settle_all(p, now_ns);
    pair_drive(p, now_ns);
}

void pair_offer_all(mr_sender *sender, uint64_t from, uint64_t to) {
    for (uint64_t seq = from; seq < to; seq++)
        pair_offer(sender, seq);
}

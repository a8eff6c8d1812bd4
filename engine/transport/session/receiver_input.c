/* Messages from senders. */
#include <stdio.h>
#include <string.h>

#include "engine/data/gap.h"
#include "engine/transport/session/receiver_parts.h"
#include "millrace/status.h"

static receiver_event *report_once(mr_receiver *receiver, const origin *from, mr_peer_change change, const char *text) {
    if (receiver->event_count < RECEIVER_EVENTS)
        receiver->event_count++;
    receiver_event *e = &receiver->events[(receiver->event_first + receiver->event_count - 1) % RECEIVER_EVENTS];
    *e = (receiver_event){.action = {.kind = MR_ACTION_PEER, .peer = (uint32_t)(from - receiver->origins)}};
    e->action.of.change = change;
    e->action.of.incarnation = from->incarnation;
    snprintf(e->text, sizeof e->text, "%s", text);
    return e;
}

void mr_receiver_break(mr_receiver *receiver, origin *from, mr_peer_change change, const char *text) {
    if (from->state != SENDER_THERE)
        return;
    from->state = SENDER_AWAY;
    from->session = 0;
    from->pending_count = 0;
    from->pending_items = 0;
    from->bye = false;
    report_once(receiver, from, change, text);
}

/* Ends the session for a malformed message, which the next HELLO reports: the sender may have to give up a frame. */
static void refuse(mr_receiver *receiver, origin *from, const char *text) {
    receiver->counts.malformed++;
    if (from->state == SENDER_THERE)
        from->refused = from->session;
    mr_receiver_break(receiver, from, MR_PEER_BROKEN, text);
}

static void begin_run(mr_receiver *receiver, uint64_t run) {
    if (!run || run == receiver->run)
        return;
    if (receiver->run) {
        mr_receiver_table_clear(receiver);
        for (uint32_t i = 0; i < receiver->params.senders; i++) {
            origin *from = &receiver->origins[i];
            from->untaken_frames = from->untaken_bytes = 0;
            memset(from->ended, 0, receiver->params.self.source_count * sizeof *from->ended);
        }
        receiver_event *e = report_once(receiver, receiver->origins, MR_PEER_JOINED, "");
        e->action = (mr_action){.kind = MR_ACTION_NEW_RUN, .run = run};
    }
    receiver->run = run;
}

/* Frames from the former process are still in the graph, but have no place here any more. */
static void forget_all(mr_receiver *receiver, origin *from) {
    mr_receiver_table_clear(receiver);
    from->untaken_frames = from->untaken_bytes = 0;
}

/* A session's first report: every claim, in any order. */
static void report_all(mr_receiver *receiver, origin *from) {
    uint32_t sender = (uint32_t)(from - receiver->origins);
    from->pending_count = 0;
    from->pending_items = 0;
    for (uint32_t i = 0; i < receiver->places; i++) {
        const entry *e = &receiver->table[i];
        const mr_settled range = {*claim_of(receiver, (int32_t)i, sender), 1,
                                  e->state == ENTRY_SETTLED ? e->outcome : MR_NOTE_NONE, e->stage, e->reason};
        if (e->state != ENTRY_FREE && range.first)
            mr_receiver_report(receiver, from, &range);
    }
    from->urgent = from->ends_changed = true;
}

/* The first report counts: work that was done before the run began here stays done, whatever another process of the
 * sender knows. */
static void receive_run_state(origin *from, mr_run_state state) {
    if (from->run_state == MR_RUN_UNKNOWN)
        from->run_state = state;
}

/* Whether that attempt was made since the last session began. It need not be the last one: an answer may take longer
 * than the next HELLO. */
static bool is_answer(const origin *from, uint64_t attempt) {
    return attempt > from->answered && attempt <= from->attempt;
}

static int receive_welcome(mr_receiver *receiver, origin *from, const mr_cut_message *message) {
    if (from->state == SENDER_THERE && message->session == from->session) {
        from->received_ns = receiver->now_ns; /* again, instead of a beat */
        receive_run_state(from, message->welcome.run_state);
    }
    if (!receiver_asks(from) || !is_answer(from, message->welcome.attempt))
        return MR_OK; /* late */
    if (message->welcome.version < MR_PROTOCOL_OLDEST || message->welcome.version > MR_PROTOCOL_NEWEST ||
        !message->session)
        return mr_fail(MR_ERROR_PROTOCOL, "a welcome in version %u, of session %llu", message->welcome.version,
                       (unsigned long long)message->session);
    begin_run(receiver, message->welcome.run);
    receive_run_state(from, message->welcome.run_state);
    if (from->incarnation != message->welcome.incarnation) {
        if (from->incarnation && receiver->params.returns && receiver->params.renews)
            forget_all(receiver, from);
        else if (from->incarnation && receiver->params.returns)
            mr_receiver_table_forget_settled(receiver);
        mr_receiver_table_forget_claims(receiver, (uint32_t)(from - receiver->origins));
        memset(from->end_received, 0, receiver->params.self.source_count * sizeof *from->end_received);
    }
    from->state = SENDER_THERE;
    from->answered = from->attempt;
    from->refused = 0;
    from->incarnation = message->welcome.incarnation;
    from->session = message->session;
    from->version = message->welcome.version;
    from->sent_number = from->received_number = 0;
    from->received_ns = from->sent_ns = receiver->now_ns;
    from->used_frames = from->used_bytes = from->reported_frames = from->reported_bytes = 0;
    /* Frames of former sessions that the graph has not taken yet still occupy room. */
    uint64_t frames = receiver->params.credit_frames, bytes = receiver->params.credit_bytes;
    from->granted_frames = frames - (from->untaken_frames < frames ? from->untaken_frames : frames);
    from->granted_bytes = bytes - (from->untaken_bytes < bytes ? from->untaken_bytes : bytes);
    receiver->counts.sessions++;
    report_all(receiver, from);
    receiver_event *e = report_once(receiver, from, MR_PEER_JOINED, "");
    snprintf(e->memory, sizeof e->memory, "%s", message->welcome.memory);
    return MR_OK;
}

static int receive_reject(mr_receiver *receiver, origin *from, const mr_cut_message *message) {
    bool ours = message->session ? message->session == from->session : is_answer(from, message->reject.attempt);
    mr_reject_reason reason = message->reject.reason;
    bool known = from->state == SENDER_REFUSED && from->refused_for == reason;
    if (!ours || from->state == SENDER_LEFT || from->state == SENDER_GIVEN_UP)
        return MR_OK;
    *(reason == MR_REJECT_STALE ? &receiver->counts.stale : &receiver->counts.rejected) += 1;
    from->spoilt |= reason == MR_REJECT_MALFORMED;
    if (reason == MR_REJECT_STALE || reason == MR_REJECT_MALFORMED) {
        mr_receiver_break(receiver, from, MR_PEER_BROKEN, message->reject.text);
        return MR_OK;
    }
    if (known)
        return MR_OK;
    if (reason != MR_REJECT_FULL) {
        from->state = SENDER_REFUSED;
        from->refused_for = reason;
        from->session = 0;
    }
    receiver_event *e = report_once(receiver, from, MR_PEER_REJECTED, message->reject.text);
    e->action.of.reason = reason;
    return MR_OK;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

bool mr_receiver_is_over(const mr_receiver *receiver, uint32_t source) {
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        if (receiver->origins[i].state != SENDER_GIVEN_UP && !receiver->origins[i].ended[source])
            return false;
    return true;
}

/* What is wrong with a message's items. NULL: nothing. Checks the whole message before any item counts. */
static const char *find_fault(const mr_receiver *receiver, const origin *from, const mr_cut_message *message) {
    uint64_t frames = 0, bytes = 0;
    for (size_t i = 0; i < message->items.count; i++) {
        const mr_cut_item *item = &message->items.item[i];
        if (item->identity.source >= receiver->params.self.source_count)
            return "an item of an unknown source";
        if ((item->kind == MR_CUT_END) != (item->position == 0))
            return "an item without a position";
        frames += item->kind == MR_CUT_FRAME;
        bytes += item->kind == MR_CUT_FRAME ? item->bytes : 0;
    }
    /* Sums over one message do not overflow. */
    if (frames > from->reported_frames - from->used_frames || bytes > from->reported_bytes - from->used_bytes)
        return "more frames or bytes than were granted";
    if (message->items.count > receiver->params.memory || receiver->held + frames > receiver->params.memory)
        return "more frames than can be remembered";
    return NULL;
}

static void report_again(mr_receiver *receiver, origin *from, const mr_settled *range) {
    if (!mr_receiver_report(receiver, from, range))
        mr_receiver_break(receiver, from, MR_PEER_BROKEN, "more was settled than one report can hold");
}

static void give_credit_back(mr_receiver *receiver, origin *from, const mr_cut_item *item) {
    receiver->counts.again++;
    from->granted_frames++;
    from->granted_bytes += item->bytes;
}

/* A repeated item: credit returns at once, the outcome when there is one. */
static void receive_again(mr_receiver *receiver, origin *from, const mr_cut_item *item, int32_t place) {
    const entry *e = &receiver->table[place];
    *claim_of(receiver, place, (uint32_t)(from - receiver->origins)) = item->position;
    if (item->kind == MR_CUT_FRAME)
        give_credit_back(receiver, from, item);
    from->urgent = true;
    const mr_settled range = {item->position, 1, e->outcome, e->stage, e->reason};
    if (e->state == ENTRY_SETTLED)
        report_again(receiver, from, &range);
}

/* A frame of which only is known that it was settled: a sender that was started again begins at the beginning. */
static void receive_settled(mr_receiver *receiver, origin *from, const mr_cut_item *item) {
    const mr_settled range = {item->position, 1, MR_NOTE_ABSORBED, receiver->params.self.name, MR_REASON_DONE_BEFORE};
    give_credit_back(receiver, from, item);
    from->urgent = true;
    report_again(receiver, from, &range);
}

/* A mark is settled when it comes. So is a frame that comes after the end. */
static void receive_new(mr_receiver *receiver, origin *from, mr_cut_item *item) {
    bool frame = item->kind == MR_CUT_FRAME, late = mr_receiver_is_over(receiver, item->identity.source);
    int32_t place = mr_receiver_table_add(receiver, item, (uint32_t)(from - receiver->origins));
    item->ticket = (uint64_t)receiver->table[place].generation << 32 | (uint32_t)place;
    item->fresh = !late;
    if (frame) {
        from->untaken_frames++;
        from->untaken_bytes += item->bytes;
        receiver->counts.frames += !late;
    }
    if (late && frame) {
        mr_receiver_settle(receiver, item->ticket, MR_NOTE_DROPPED, receiver->params.self.name, "a frame after the end "
                                                                                                "of its source",
                           receiver->now_ns);
    } else if (!frame) {
        mr_receiver_table_settle(receiver, place, MR_NOTE_DELIVERED, NULL, NULL);
        const mr_settled range = {item->position, 1, MR_NOTE_DELIVERED, NULL, NULL};
        mr_receiver_report(receiver, from, &range);
    }
}

/* The end is passed on once, when no sender has more. */
static void receive_end(mr_receiver *receiver, origin *from, mr_cut_item *item) {
    bool before = mr_receiver_is_over(receiver, item->identity.source);
    from->ended[item->identity.source] = from->end_received[item->identity.source] = true;
    from->ends_changed = from->urgent = true;
    item->fresh = !before && mr_receiver_is_over(receiver, item->identity.source);
}

/* Marks that report how far a source is settled are not deduplicated. */
static bool is_lost_mark(const mr_cut_item *item) {
    return item->kind == MR_CUT_GAP && mr_identity_is_lost(&item->identity);
}

/* Another process makes the items. Credit for the former one's returns at once. */
static void receive_maker(mr_receiver *receiver, origin *from, uint64_t made_by) {
    if (!receiver->params.renews || receiver->params.returns || made_by <= from->made_by)
        return;
    if (from->made_by) {
        from->granted_frames += from->untaken_frames;
        from->granted_bytes += from->untaken_bytes;
        from->pending_count = 0;
        from->pending_items = 0;
        from->urgent = true;
        forget_all(receiver, from);
    }
    from->made_by = made_by;
}

static int receive_items(mr_receiver *receiver, origin *from, mr_cut_message *message) {
    receive_maker(receiver, from, message->items.made_by);
    const char *fault = find_fault(receiver, from, message);
    if (fault) {
        refuse(receiver, from, fault);
        return mr_fail(MR_ERROR_PROTOCOL, "the sender of %s breaks the protocol: %s", receiver->params.self.cut,
                       fault);
    }
    for (size_t i = 0; i < message->items.count; i++) {
        mr_cut_item *item = &message->items.item[i];
        item->fresh = false;
        if (item->kind == MR_CUT_END) {
            receive_end(receiver, from, item);
            continue;
        }
        if (item->kind == MR_CUT_FRAME) {
            from->used_frames++;
            from->used_bytes += item->bytes;
        }
        int32_t place = NOWHERE;
        if (!is_lost_mark(item))
            place = mr_receiver_table_find(receiver, item, (uint32_t)(from - receiver->origins));
        if (place != NOWHERE)
            receive_again(receiver, from, item, place);
        else if (item->kind == MR_CUT_FRAME && mr_identity_set_has(&receiver->settled, &item->identity))
            receive_settled(receiver, from, item);
        else
            receive_new(receiver, from, item);
    }
    return MR_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Whether every end that will come from there has come. */
static bool is_done(const mr_receiver *receiver, const origin *from) {
    size_t ends = 0;
    for (size_t i = 0; i < receiver->params.self.source_count; i++)
        ends += from->end_received[i];
    return ends == receiver->params.self.lane_count;
}

static void receive_bye(mr_receiver *receiver, origin *from, const mr_cut_message *message) {
    if (is_done(receiver, from)) {
        report_once(receiver, from, MR_PEER_LEFT, message->bye.text);
        from->bye = true;
        return;
    }
    mr_receiver_break(receiver, from, MR_PEER_LEFT, message->bye.text);
    from->hello_ns = receiver->now_ns + receiver->params.self.timing.hello_ns;
}

bool mr_receiver_may_receive(const mr_receiver *receiver, uint32_t sender, uint64_t session, uint64_t number) {
    const origin *from = &receiver->origins[sender];
    return from->state != SENDER_THERE || session != from->session || number <= from->received_number + 1;
}

bool mr_receiver_knows(const mr_receiver *receiver, uint32_t sender, uint64_t session) {
    const origin *from = &receiver->origins[sender];
    return from->state == SENDER_THERE && session == from->session;
}

int mr_receiver_receive(mr_receiver *receiver, uint32_t sender, mr_cut_message *message, int64_t now_ns) {
    origin *from = &receiver->origins[sender];
    receiver->now_ns = from->line_ns = now_ns;
    from->renewals = 0;
    for (size_t i = 0; message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++)
        message->items.item[i].fresh = false;
    if (message->kind == MR_MESSAGE_WELCOME)
        return receive_welcome(receiver, from, message);
    if (message->kind == MR_MESSAGE_REJECT)
        return receive_reject(receiver, from, message);
    if (from->state != SENDER_THERE || message->session != from->session) {
        receiver->counts.stale++;
        return MR_OK;
    }
    if (message->number <= from->received_number)
        return MR_OK; /* It has come twice. */
    if (message->number != from->received_number + 1) {
        mr_receiver_break(receiver, from, MR_PEER_BROKEN, "messages were lost");
        return MR_OK;
    }
    from->received_number = message->number;
    from->received_ns = now_ns;
    if (message->kind == MR_MESSAGE_ITEMS)
        return receive_items(receiver, from, message);
    if (message->kind == MR_MESSAGE_BYE) {
        receive_bye(receiver, from, message);
    } else if (message->kind == MR_MESSAGE_BEAT) {
        receive_run_state(from, message->beat.run_state);
    } else {
        refuse(receiver, from, "a sender sends welcomes, items, heartbeats and byes");
        return mr_fail(MR_ERROR_PROTOCOL, "the sender of %s sends a message that only receivers send",
                       receiver->params.self.cut);
    }
    return MR_OK;
}

void mr_receiver_malformed(mr_receiver *receiver, uint32_t sender) {
    origin *from = &receiver->origins[sender];
    from->spoilt = true;
    refuse(receiver, from, "malformed message");
}

void mr_receiver_lost(mr_receiver *receiver, uint32_t sender, int64_t now_ns) {
    receiver->now_ns = now_ns;
    mr_receiver_break(receiver, &receiver->origins[sender], MR_PEER_BROKEN, "the connection was closed");
}

bool mr_receiver_give_up(mr_receiver *receiver, uint32_t sender, int64_t now_ns) {
    origin *from = &receiver->origins[sender];
    const bool absent = from->state != SENDER_GIVEN_UP && !from->incarnation;
    receiver->now_ns = now_ns;
    mr_receiver_break(receiver, from, MR_PEER_LEFT, "it has failed");
    from->state = SENDER_GIVEN_UP;
    return absent;
}

void mr_receiver_no_line(mr_receiver *receiver, uint32_t sender) {
    origin *from = &receiver->origins[sender];
    if (!receiver_asks(from))
        return;
    from->line_ns = from->hello_ns;
    from->without_ns = from->before_ns ? from->before_ns : receiver->now_ns;
}

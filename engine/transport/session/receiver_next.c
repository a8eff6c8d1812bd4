/* What a receiver is to do next: events first, then hellos, reports and byes. */
#include "engine/transport/session/receiver.h"

/* So many ranges are reported at once, however soon they came. */
enum { REPORT_RANGES = 256 };
/* An answer to a HELLO, or a connection, is waited for as long as so many HELLOs take, before that is renewed once
 * more. */
enum { PATIENCE = 10 };

static bool next_event(mr_receiver *receiver, mr_action *action) {
    if (!receiver->event_count)
        return false;
    receiver_event *e = &receiver->events[receiver->event_first];
    receiver->event_first = (receiver->event_first + 1) % RECEIVER_EVENTS;
    receiver->event_count--;
    *action = e->action;
    if (action->kind == MR_ACTION_PEER) {
        action->of.name = "";
        action->of.text = e->text;
        action->of.memory = e->memory;
    }
    return true;
}

static void say_hello(mr_receiver *receiver, uint32_t sender, mr_action *action) {
    origin *from = &receiver->origins[sender];
    const mr_session_self *self = &receiver->params.self;
    from->hello_ns = receiver->now_ns + (from->state == SENDER_LEFT      ? self->timing.silence_ns
                                         : from->state == SENDER_REFUSED ? self->timing.beat_ns
                                                                         : self->timing.hello_ns);
    from->before_ns = from->without_ns;
    from->without_ns = 0;
    *action = (mr_action){.kind = MR_ACTION_SEND, .peer = sender};
    mr_cut_message *message = &action->message;
    message->kind = MR_MESSAGE_HELLO;
    message->version = message->hello.newest_version = MR_PROTOCOL_NEWEST;
    message->hello.oldest_version = MR_PROTOCOL_OLDEST;
    message->hello.name = self->name;
    message->hello.incarnation = self->incarnation;
    message->hello.attempt = ++from->attempt;
    message->hello.cut = self->cut;
    message->hello.formats = self->formats;
    message->hello.memory = self->memory;
    for (int i = 0; i < MR_DIGEST_BYTES; i++)
        message->hello.digest[i] = self->digest[i];
}

static mr_cut_message *address(mr_receiver *receiver, origin *from, mr_message_kind kind, mr_action *action) {
    *action = (mr_action){.kind = MR_ACTION_SEND, .peer = (uint32_t)(from - receiver->origins)};
    action->message = (mr_cut_message){
        .kind = kind, .version = MR_PROTOCOL_NEWEST, .session = from->session, .number = ++from->sent_number};
    from->said_ns = receiver->now_ns;
    return &action->message;
}

/* Whether enough of what was granted has not been told that the sender should know: half of it all, or anything where
 * it could otherwise send nothing. */
static bool owes_credit(const mr_receiver *receiver, const origin *from) {
    uint64_t frames = from->granted_frames - from->told_frames, bytes = from->granted_bytes - from->told_bytes;
    return frames * 2 > receiver->params.credit_frames || bytes * 2 > receiver->params.credit_bytes ||
           ((frames || bytes) && (from->used_frames == from->told_frames || from->used_bytes == from->told_bytes));
}

/* With nothing left to do here, nothing would make a batch complete. */
static bool must_report(const mr_receiver *receiver, const origin *from) {
    const mr_session_timing *timing = &receiver->params.self.timing;
    return from->urgent || from->pending_count >= REPORT_RANGES || (from->pending_count && !receiver->held) ||
           (receiver->params.report_items && from->pending_items >= receiver->params.report_items) ||
           (!receiver->withdrawn && owes_credit(receiver, from)) ||
           (from->pending_ns && receiver->now_ns - from->pending_ns >= timing->report_ns) ||
           receiver->now_ns - from->said_ns >= timing->beat_ns;
}

static size_t list_ends(mr_receiver *receiver, const origin *from) {
    size_t count = 0;
    for (uint32_t i = 0; from->ends_changed && i < receiver->params.self.source_count; i++)
        if (from->end_heard[i])
            receiver->ended[count++] = i;
    return count;
}

static void report(mr_receiver *receiver, origin *from, mr_action *action) {
    mr_cut_message *message = address(receiver, from, MR_MESSAGE_REPORT, action);
    if (!receiver->withdrawn) {
        from->told_frames = from->granted_frames;
        from->told_bytes = from->granted_bytes;
    }
    message->report.granted_frames = from->told_frames;
    message->report.granted_bytes = from->told_bytes;
    message->report.progress = receiver->progress + receiver->work;
    message->report.settled = from->pending;
    message->report.settled_count = from->pending_count;
    message->report.ended = receiver->ended;
    message->report.ended_count = list_ends(receiver, from);
    message->report.withdrawn = receiver->withdrawn;
    from->pending_count = 0;
    from->pending_items = 0;
    from->pending_ns = 0;
    from->urgent = from->ends_changed = false;
}

/* When the connection is to be renewed. Not again and again where it is the other end that sends garbage. */
static int64_t renewal_ns(const mr_receiver *receiver, const origin *from) {
    const mr_session_timing *timing = &receiver->params.self.timing;
    int64_t patience_ns = timing->silence_ns, longest_ns = PATIENCE * timing->hello_ns;
    if (from->spoilt)
        return from->renewed_ns + timing->hello_ns;
    if (from->without_ns)
        return from->without_ns + (patience_ns > longest_ns ? patience_ns : longest_ns);
    for (uint32_t i = 0; i < from->renewals && patience_ns < longest_ns; i++)
        patience_ns *= 2;
    return from->line_ns + patience_ns;
}

static bool renew(mr_receiver *receiver, origin *from, mr_action *action) {
    if (!from->line_ns)
        from->line_ns = receiver->now_ns;
    if (receiver->now_ns < renewal_ns(receiver, from))
        return false;
    from->renewed_ns = from->line_ns = receiver->now_ns;
    from->spoilt = false;
    from->renewals += !from->without_ns;
    from->without_ns = 0;
    *action = (mr_action){.kind = MR_ACTION_RENEW, .peer = (uint32_t)(from - receiver->origins)};
    return true;
}

static bool is_leaving(const mr_receiver *receiver) {
    return receiver->closing || (receiver->withdrawn && !receiver->held);
}

static bool next_of(mr_receiver *receiver, origin *from, mr_action *action) {
    bool leaving = is_leaving(receiver);
    if (from->state == SENDER_THERE &&
        receiver->now_ns - from->heard_ns >= receiver->params.self.timing.silence_ns) {
        receiver_break(receiver, from, MR_PEER_SILENT, "nothing was heard of it");
        return next_event(receiver, action);
    }
    if (from->state == SENDER_THERE && (must_report(receiver, from) || (leaving && from->pending_count))) {
        report(receiver, from, action);
        return true;
    }
    if (from->state == SENDER_THERE && (leaving || from->bye)) {
        address(receiver, from, MR_MESSAGE_BYE, action)->bye.text = receiver->closing ? receiver->closing_text
                                                                    : from->bye       ? "all is done"
                                                                                      : "it was asked to end";
        from->state = SENDER_LEFT;
        from->session = 0;
        from->bye = false;
        from->hello_ns = receiver->now_ns + receiver->params.self.timing.silence_ns;
        return true;
    }
    bool away = !leaving && receiver_asks(from);
    if (away && renew(receiver, from, action))
        return true;
    if (away && receiver->now_ns >= from->hello_ns) {
        say_hello(receiver, (uint32_t)(from - receiver->origins), action);
        return true;
    }
    return false;
}

bool mr_receiver_next(mr_receiver *receiver, int64_t now_ns, mr_action *action) {
    receiver->now_ns = now_ns;
    *action = (mr_action){.kind = MR_ACTION_NONE};
    if (next_event(receiver, action))
        return true;
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        if (next_of(receiver, &receiver->origins[i], action))
            return true;
    return false;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t mr_receiver_wake_ns(const mr_receiver *receiver) {
    const mr_session_timing *timing = &receiver->params.self.timing;
    int64_t wake = receiver->event_count ? receiver->now_ns : INT64_MAX;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        const origin *from = &receiver->origins[i];
        if (receiver_asks(from) && !is_leaving(receiver))
            wake = earlier(wake, earlier(from->hello_ns, renewal_ns(receiver, from)));
        if (from->state != SENDER_THERE)
            continue;
        wake = earlier(wake, earlier(from->heard_ns + timing->silence_ns, from->said_ns + timing->beat_ns));
        if (must_report(receiver, from))
            wake = receiver->now_ns;
        if (from->pending_ns)
            wake = earlier(wake, from->pending_ns + timing->report_ns);
    }
    return wake;
}

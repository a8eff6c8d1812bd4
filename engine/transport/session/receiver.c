/* A cut's receiver: the identity table, the interface and the next action. receiver_input.c reads messages. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/data/gap.h"
#include "engine/transport/session/receiver_parts.h"
#include "millrace/status.h"

/* ---- the table of identities ------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t value) {
    /* SplitMix64's finalizer (Steele, Lea, Flood 2014). */
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* This many consecutive frames share neighbouring buckets, and so the same cached memory. */
enum { NEIGHBOURS = 64 };

static int32_t *bucket_of(mr_receiver *receiver, const mr_identity *identity) {
    uint64_t hash = mix(identity->seq / NEIGHBOURS ^ (uint64_t)identity->source << 40 ^ (uint64_t)identity->sub << 52) ^
                    mix(identity->epoch + UINT64_C(0x9e3779b97f4a7c15));
    return &receiver->bucket[(hash + identity->seq % NEIGHBOURS) & (receiver->buckets - 1)];
}

int32_t mr_receiver_table_find(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender) {
    int32_t other = NOWHERE;
    for (int32_t at = *bucket_of(receiver, &item->identity); at != NOWHERE; at = receiver->table[at].next) {
        const entry *e = &receiver->table[at];
        uint64_t claim = *claim_of(receiver, at, sender);
        if (e->kind != item->kind || mr_identity_compare(&e->identity, &item->identity) != 0)
            continue;
        if (claim == item->position)
            return at;
        if (!claim)
            other = at;
    }
    return other;
}

static void leave_bucket(mr_receiver *receiver, int32_t place) {
    int32_t *link = bucket_of(receiver, &receiver->table[place].identity);
    while (*link != place)
        link = &receiver->table[*link].next;
    *link = receiver->table[place].next;
}

static void forget(mr_receiver *receiver, int32_t place) {
    entry *e = &receiver->table[place];
    leave_bucket(receiver, place);
    memset(claim_of(receiver, place, 0), 0, receiver->params.senders * sizeof *receiver->claims);
    e->state = ENTRY_FREE;
    e->generation++;
    e->next = receiver->free;
    receiver->free = place;
}

/* The mark after a frame's objects tells that it has no more. */
static bool remember(mr_receiver *receiver, const entry *e) {
    mr_identity last = e->identity;
    if (e->kind == MR_CUT_FRAME)
        return mr_identity_set_add(&receiver->settled, &last) == MR_OK;
    if (e->kind != MR_CUT_GAP || !mr_identity_ends_objects(&last))
        return true;
    last.sub = mr_identity_objects(&last);
    return mr_identity_set_fill(&receiver->settled, &last) == MR_OK;
}

static void forget_oldest(mr_receiver *receiver) {
    int32_t place = receiver->oldest;
    if (place == NOWHERE)
        return;
    const entry *e = &receiver->table[place];
    receiver->oldest = e->later;
    if (receiver->oldest == NOWHERE)
        receiver->newest = NOWHERE;
    if (receiver->params.remembers_all)
        receiver->forgets |= !remember(receiver, e);
    forget(receiver, place);
}

void mr_receiver_table_forget_settled(mr_receiver *receiver) {
    while (receiver->oldest != NOWHERE) {
        const int32_t place = receiver->oldest;
        receiver->oldest = receiver->table[place].later;
        forget(receiver, place);
    }
    receiver->newest = NOWHERE;
    mr_identity_set_fini(&receiver->settled);
}

int32_t mr_receiver_table_add(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender) {
    if (receiver->free == NOWHERE)
        forget_oldest(receiver);
    int32_t place = receiver->free;
    if (place == NOWHERE)
        return NOWHERE;
    entry *e = &receiver->table[place];
    receiver->free = e->next;
    int32_t *bucket = bucket_of(receiver, &item->identity);
    *e = (entry){.state = ENTRY_HELD, .kind = item->kind, .identity = item->identity, .sender = sender,
                 .bytes = item->bytes, .generation = e->generation, .next = *bucket, .later = NOWHERE};
    *bucket = place;
    *claim_of(receiver, place, sender) = item->position;
    receiver->held += item->kind == MR_CUT_FRAME;
    return place;
}

void mr_receiver_table_settle(mr_receiver *receiver, int32_t place, mr_note outcome, const char *stage,
                              const char *reason) {
    entry *e = &receiver->table[place];
    e->state = ENTRY_SETTLED;
    e->outcome = outcome;
    e->stage = stage;
    e->reason = reason;
    e->later = NOWHERE;
    receiver->held -= e->kind == MR_CUT_FRAME;
    if (receiver->newest == NOWHERE)
        receiver->oldest = place;
    else
        receiver->table[receiver->newest].later = place;
    receiver->newest = place;
}

void mr_receiver_table_forget_claims(mr_receiver *receiver, uint32_t sender) {
    for (uint32_t i = 0; i < receiver->places; i++)
        *claim_of(receiver, (int32_t)i, sender) = 0;
}

void mr_receiver_table_clear(mr_receiver *receiver) {
    receiver->free = receiver->oldest = receiver->newest = NOWHERE;
    receiver->held = 0;
    mr_identity_set_fini(&receiver->settled);
    for (uint32_t i = 0; i < receiver->buckets; i++)
        receiver->bucket[i] = NOWHERE;
    memset(receiver->claims, 0, (size_t)receiver->places * receiver->params.senders * sizeof *receiver->claims);
    for (uint32_t i = receiver->places; i-- > 0;) {
        entry *e = &receiver->table[i];
        e->state = ENTRY_FREE;
        e->generation++;
        e->next = receiver->free;
        receiver->free = (int32_t)i;
    }
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* Large enough to be no bound, while the grants of a whole session still fit into 64 bits. */
static const uint64_t MOST_CREDIT_BYTES = UINT64_C(1) << 56;

static bool create_origins(mr_receiver *receiver) {
    receiver->origins = mr_calloc(receiver->params.senders, sizeof *receiver->origins);
    for (uint32_t i = 0; receiver->origins && i < receiver->params.senders; i++) {
        origin *from = &receiver->origins[i];
        from->pending = mr_calloc(receiver->places, sizeof *from->pending);
        from->ended = mr_calloc(receiver->params.self.source_count, sizeof *from->ended);
        from->end_received = mr_calloc(receiver->params.self.source_count, sizeof *from->end_received);
        if (!from->pending || !from->ended || !from->end_received)
            return false;
    }
    return receiver->origins != NULL;
}

int mr_receiver_create(mr_receiver **receiver, const mr_receiver_params *params) {
    mr_receiver *made = mr_calloc(1, sizeof *made);
    if (!made)
        goto fail;
    made->params = *params;
    if (params->credit_bytes > MOST_CREDIT_BYTES)
        made->params.credit_bytes = MOST_CREDIT_BYTES;
    made->places = params->memory * 2; /* half of them for retained items */
    made->buckets = 64;
    while (made->buckets < made->places)
        made->buckets *= 2;
    made->table = mr_calloc(made->places, sizeof *made->table);
    made->claims = mr_calloc((size_t)made->places * params->senders, sizeof *made->claims);
    made->bucket = mr_calloc(made->buckets, sizeof *made->bucket);
    made->ended = mr_calloc(params->self.source_count, sizeof *made->ended);
    made->events = mr_calloc(RECEIVER_EVENTS, sizeof *made->events);
    if (!made->table || !made->claims || !made->bucket || !made->ended || !made->events || !create_origins(made))
        goto fail;
    mr_receiver_table_clear(made);
    *receiver = made;
    return MR_OK;
fail:
    mr_receiver_destroy(&made);
    return mr_fail(MR_ERROR_MEMORY, "no memory for the cut %s that remembers %u frames", params->self.cut,
                   params->memory);
}

void mr_receiver_destroy(mr_receiver **receiver) {
    mr_receiver *gone = *receiver;
    *receiver = NULL;
    if (!gone)
        return;
    for (uint32_t i = 0; gone->origins && i < gone->params.senders; i++) {
        mr_free(gone->origins[i].pending);
        mr_free(gone->origins[i].ended);
        mr_free(gone->origins[i].end_received);
    }
    mr_free(gone->origins);
    mr_free(gone->table);
    mr_free(gone->claims);
    mr_free(gone->bucket);
    mr_free(gone->ended);
    mr_free(gone->events);
    mr_identity_set_fini(&gone->settled);
    mr_free(gone);
}

/* ---- the graph's progress ---------------------------------------------------------------------------------------- */

/* A ticket's frame. NULL if it was forgotten. */
static entry *entry_of(mr_receiver *receiver, uint64_t ticket) {
    uint32_t place = (uint32_t)ticket;
    if (place >= receiver->places)
        return NULL;
    entry *e = &receiver->table[place];
    return e->state != ENTRY_FREE && e->generation == (uint32_t)(ticket >> 32) ? e : NULL;
}

void mr_receiver_take(mr_receiver *receiver, uint64_t ticket) {
    entry *e = entry_of(receiver, ticket);
    if (!e || e->taken)
        return;
    origin *from = &receiver->origins[e->sender];
    e->taken = true;
    from->untaken_frames--;
    from->untaken_bytes -= e->bytes;
    from->granted_frames++;
    from->granted_bytes += e->bytes;
    if (!from->pending_ns)
        from->pending_ns = receiver->now_ns;
    receiver->work++;
}

bool mr_receiver_report(mr_receiver *receiver, origin *from, const mr_settled *range) {
    mr_settled *last = from->pending_count ? &from->pending[from->pending_count - 1] : NULL;
    if (!from->pending_ns)
        from->pending_ns = receiver->now_ns;
    from->pending_items += range->count;
    if (last && last->first + last->count == range->first && last->outcome == range->outcome &&
        last->stage == range->stage && last->reason == range->reason) {
        last->count += range->count;
        return true;
    }
    if (from->pending_count == receiver->places)
        return false;
    from->pending[from->pending_count++] = *range;
    return true;
}

void mr_receiver_settle(mr_receiver *receiver, uint64_t ticket, mr_note outcome, const char *stage,
                        const char *reason, int64_t now_ns) {
    entry *e = entry_of(receiver, ticket);
    receiver->now_ns = now_ns;
    if (!e || e->state != ENTRY_HELD)
        return;
    mr_receiver_take(receiver, ticket);
    int32_t place = (int32_t)(e - receiver->table);
    mr_receiver_table_settle(receiver, place, outcome, stage, reason);
    receiver->work++;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        origin *from = &receiver->origins[i];
        const mr_settled range = {*claim_of(receiver, place, i), 1, outcome, stage, reason};
        /* With no room for more, the session ends, and the next one begins with everything. */
        if (range.first && from->state == SENDER_THERE && !mr_receiver_report(receiver, from, &range))
            mr_receiver_break(receiver, from, MR_PEER_BROKEN, "more was settled than one report can hold");
    }
}

void mr_receiver_progress(mr_receiver *receiver, uint64_t progress) {
    receiver->progress = progress;
}

uint32_t mr_receiver_held(const mr_receiver *receiver) {
    return receiver->held;
}

bool mr_receiver_waits(const mr_receiver *receiver, uint32_t *sender) {
    for (*sender = 0; !receiver->closing && !receiver->withdrawn && *sender < receiver->params.senders; ++*sender)
        if (receiver->origins[*sender].state == SENDER_AWAY || receiver->origins[*sender].state == SENDER_REFUSED)
            return true;
    return false;
}

uint64_t mr_receiver_maker(const mr_receiver *receiver, uint32_t sender) {
    const origin *from = &receiver->origins[sender];
    return receiver->params.returns ? from->incarnation : from->made_by;
}

bool mr_receiver_lacks(const mr_receiver *receiver) {
    bool lacks = false;
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        lacks |= receiver->origins[i].state == SENDER_AWAY || receiver->origins[i].state == SENDER_REFUSED;
    return lacks;
}

mr_run_state mr_receiver_run_state(const mr_receiver *receiver, bool *absent) {
    bool known = true, any = false;
    *absent = true;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        const origin *from = &receiver->origins[i];
        if (from->run_state == MR_RUN_GOES_ON)
            return MR_RUN_GOES_ON;
        if (from->state == SENDER_GIVEN_UP)
            continue;
        known &= from->run_state == MR_RUN_BEGINS;
        any |= from->run_state == MR_RUN_BEGINS;
        *absent &= from->run_state == MR_RUN_BEGINS || !from->incarnation;
    }
    *absent &= any;
    return known && any ? MR_RUN_BEGINS : MR_RUN_UNKNOWN;
}

bool mr_receiver_forgets(const mr_receiver *receiver) {
    return receiver->forgets;
}

bool mr_receiver_finished(const mr_receiver *receiver) {
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        if (receiver->origins[i].state != SENDER_LEFT && receiver->origins[i].state != SENDER_GIVEN_UP)
            return false;
    return true;
}

void mr_receiver_withdraw(mr_receiver *receiver) {
    for (uint32_t i = 0; !receiver->withdrawn && i < receiver->params.senders; i++)
        receiver->origins[i].urgent = true;
    receiver->withdrawn = true;
}

void mr_receiver_close(mr_receiver *receiver, const char *text) {
    receiver->closing = true;
    strncpy(receiver->closing_text, text, sizeof receiver->closing_text - 1);
}

mr_session_counts mr_receiver_counts(const mr_receiver *receiver) {
    mr_session_counts counts = receiver->counts;
    uint32_t sender;
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        counts.peers += receiver->origins[i].state == SENDER_THERE;
    counts.absent = !counts.peers && mr_receiver_waits(receiver, &sender);
    return counts;
}

/* ---- actions ----------------------------------------------------------------------------------------------------- */

/* At this many ranges a report is sent at once, however soon they came. */
enum { REPORT_RANGES = 256 };
/* The longest wait for a HELLO's answer or a connection, in HELLO intervals, before the connection is renewed again. */
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
    message->hello.refused = from->refused;
    message->hello.kinds = self->kinds ? self->kinds->id : NULL;
    message->hello.kind_count = self->kinds ? self->kinds->count : 0;
    for (int i = 0; i < MR_DIGEST_BYTES; i++)
        message->hello.digest[i] = self->digest[i];
}

static mr_cut_message *address(mr_receiver *receiver, origin *from, mr_message_kind kind, mr_action *action) {
    *action = (mr_action){.kind = MR_ACTION_SEND, .peer = (uint32_t)(from - receiver->origins)};
    action->message = (mr_cut_message){
        .kind = kind, .version = from->version, .session = from->session, .number = ++from->sent_number};
    from->sent_ns = receiver->now_ns;
    return &action->message;
}

/* True if the unreported grants are worth a message: half of all, or any if the sender could otherwise send nothing. */
static bool credit_pending(const mr_receiver *receiver, const origin *from) {
    uint64_t frames = from->granted_frames - from->reported_frames, bytes = from->granted_bytes - from->reported_bytes;
    return frames * 2 > receiver->params.credit_frames || bytes * 2 > receiver->params.credit_bytes ||
           ((frames || bytes) &&
            (from->used_frames == from->reported_frames || from->used_bytes == from->reported_bytes));
}

/* With nothing left to do here, nothing would make a batch complete. */
static bool must_report(const mr_receiver *receiver, const origin *from) {
    const mr_session_timing *timing = &receiver->params.self.timing;
    return from->urgent || from->pending_count >= REPORT_RANGES || (from->pending_count && !receiver->held) ||
           (receiver->params.report_items && from->pending_items >= receiver->params.report_items) ||
           (!receiver->withdrawn && credit_pending(receiver, from)) ||
           (from->pending_ns && receiver->now_ns - from->pending_ns >= timing->report_ns) ||
           receiver->now_ns - from->sent_ns >= timing->beat_ns;
}

static size_t list_ends(mr_receiver *receiver, const origin *from) {
    size_t count = 0;
    for (uint32_t i = 0; from->ends_changed && i < receiver->params.self.source_count; i++)
        if (from->end_received[i])
            receiver->ended[count++] = i;
    return count;
}

static void report(mr_receiver *receiver, origin *from, mr_action *action) {
    mr_cut_message *message = address(receiver, from, MR_MESSAGE_REPORT, action);
    if (!receiver->withdrawn) {
        from->reported_frames = from->granted_frames;
        from->reported_bytes = from->granted_bytes;
    }
    message->report.granted_frames = from->reported_frames;
    message->report.granted_bytes = from->reported_bytes;
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

/* When the connection is to be renewed. Not repeatedly if it is the other end that sends garbage. */
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
        receiver->now_ns - from->received_ns >= receiver->params.self.timing.silence_ns) {
        mr_receiver_break(receiver, from, MR_PEER_SILENT, "no heartbeat from it");
        return next_event(receiver, action);
    }
    if (from->state == SENDER_THERE && (must_report(receiver, from) || (leaving && from->pending_count))) {
        report(receiver, from, action);
        return true;
    }
    if (from->state == SENDER_THERE && (leaving || from->bye)) {
        address(receiver, from, MR_MESSAGE_BYE, action)->bye.text = receiver->closing ? receiver->closing_text
                                                                    : from->bye       ? "done"
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

int64_t mr_receiver_wake_ns(const mr_receiver *receiver) {
    const mr_session_timing *timing = &receiver->params.self.timing;
    int64_t wake = receiver->event_count ? receiver->now_ns : INT64_MAX;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        const origin *from = &receiver->origins[i];
        if (receiver_asks(from) && !is_leaving(receiver))
            wake = mr_earlier_ns(wake, mr_earlier_ns(from->hello_ns, renewal_ns(receiver, from)));
        if (from->state != SENDER_THERE)
            continue;
        wake = mr_earlier_ns(wake, from->received_ns + timing->silence_ns);
        wake = mr_earlier_ns(wake, from->sent_ns + timing->beat_ns);
        if (must_report(receiver, from))
            wake = receiver->now_ns;
        if (from->pending_ns)
            wake = mr_earlier_ns(wake, from->pending_ns + timing->report_ns);
    }
    return wake;
}

/* A sender's sessions with peers: their messages, timeouts, lost peers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/transport/session/sender_parts.h"
#include "millrace/status.h"

/* One report may settle a frame this many times. */
enum { REPORTED_TIMES = 4 };

event *mr_sender_event(mr_sender *sender, mr_action_kind kind, uint32_t route) {
    if (sender->event_count < SENDER_EVENTS)
        sender->event_count++;
    event *e = &sender->events[(sender->event_first + sender->event_count - 1) % SENDER_EVENTS];
    *e = (event){.action = {.kind = kind, .peer = route}};
    return e;
}

void mr_sender_address(mr_sender *sender, peer *p, mr_message_kind kind, mr_action *action) {
    action->kind = MR_ACTION_SEND;
    action->peer = p->route;
    action->message = (mr_cut_message){
        .kind = kind, .version = p->version, .session = p->session, .number = ++p->sent_number};
    p->sent_ns = sender->now_ns;
}

static void copy_text(char *to, size_t room, const char *from) {
    size_t bytes = strnlen(from, room - 1);
    memcpy(to, from, bytes);
    to[bytes] = 0;
}

static void report_once(mr_sender *sender, const peer *p, mr_peer_change change, const char *text) {
    event *e = mr_sender_event(sender, MR_ACTION_PEER, p->route);
    e->action.of.change = change;
    e->action.of.incarnation = p->incarnation;
    e->action.of.session = p->session;
    copy_text(e->name, sizeof e->name, p->name);
    copy_text(e->text, sizeof e->text, text);
}

static void reject(mr_sender *sender, uint32_t route, uint64_t session, uint64_t attempt, mr_reject_reason reason,
                   const char *text) {
    event *e = mr_sender_event(sender, MR_ACTION_SEND, route);
    e->action.message = (mr_cut_message){.kind = MR_MESSAGE_REJECT, .version = MR_PROTOCOL_NEWEST, .session = session};
    e->action.message.reject.reason = reason;
    e->action.message.reject.attempt = attempt;
    copy_text(e->text, sizeof e->text, text);
}

/* From now on the peer uses that connection, which is known as the peer's. */
static void lead_to(mr_sender *sender, peer *p, uint32_t route) {
    p->route = route;
    mr_sender_event(sender, MR_ACTION_ROUTE, route)->action.of.index = index_of(sender, p);
}

/* A transport that makes a connection anew by itself says no word of it: messages just come over another one. */
static void follow(mr_sender *sender, peer *p, uint32_t route) {
    if (p->route != route)
        lead_to(sender, p, route);
}

/* Ends the session; items under way stay leased to the peer until it reconnects or is marked dead. */
static void end_session(mr_sender *sender, peer *p, mr_peer_change change, const char *text) {
    if (!p->session)
        return;
    report_once(sender, p, change, text);
    p->session = 0;
    p->resumed = false;
}

/* ---- hello ------------------------------------------------------------------------------------------------------- */

static peer *peer_by_name(mr_sender *sender, const char *name) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        if (sender->peers[i].used && strcmp(sender->peers[i].name, name) == 0)
            return &sender->peers[i];
    return NULL;
}

static peer *peer_by_session(const mr_sender *sender, uint64_t session) {
    for (uint32_t i = 0; session && i < sender->params.most_peers; i++)
        if (sender->peers[i].used && sender->peers[i].session == session)
            return &sender->peers[i];
    return NULL;
}

/* Reuses a peer's record for another process, which has been sent nothing yet. */
static void take_record(mr_sender *sender, peer *p, const mr_cut_message *hello) {
    peer kept = *p;
    size_t sources = sender->params.self.source_count;
    memset(kept.end_sent, 0, sources * sizeof *kept.end_sent);
    memset(kept.end_confirmed, 0, sources * sizeof *kept.end_confirmed);
    *p = (peer){.used = true, .incarnation = hello->hello.incarnation, .lane_leased = kept.lane_leased,
                .end_sent = kept.end_sent, .end_confirmed = kept.end_confirmed};
    copy_text(p->name, sizeof p->name, hello->hello.name);
    mr_sender_note_consumer(sender, hello->hello.incarnation);
    for (uint64_t position = sender->base; position != sender->next; position++) {
        slot *s = slot_at(sender, position);
        s->had &= ~(UINT64_C(1) << index_of(sender, p));
        s->blamed &= ~(UINT64_C(1) << index_of(sender, p));
    }
    /* A decoder that starts within packets needs a key frame first. */
    for (size_t i = 0; sender->params.live && i < sources; i++)
        sender->lanes[i].waits_for_key = true;
}

static peer *free_record(mr_sender *sender) {
    peer *away = NULL;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used)
            return p;
        if (!p->session && !p->leased && !away)
            away = p;
    }
    return away;
}

/* ---- whether the run goes on ------------------------------------------------------------------------------------- */

uint32_t mr_sender_replica_of(const mr_sender *sender, const char *name) {
    const char *dot = strrchr(name, '.');
    unsigned long replica = dot ? strtoul(dot + 1, NULL, 10) : 0;
    return replica < sender->params.receivers ? (uint32_t)replica : 0;
}

static void note_delivered(mr_sender *sender, const peer *p) {
    served *by = &sender->served[mr_sender_replica_of(sender, p->name)];
    by->earlier |= by->incarnation && by->incarnation != p->incarnation;
    by->incarnation = p->incarnation;
}

mr_run_state mr_sender_run_state(const mr_sender *sender, const peer *p) {
    const served *by = &sender->served[mr_sender_replica_of(sender, p->name)];
    bool earlier = by->earlier || (by->incarnation && by->incarnation != p->incarnation);
    return earlier ? MR_RUN_GOES_ON : sender->before;
}

void mr_sender_set_run_state(mr_sender *sender, mr_run_state before) {
    sender->before = before;
}

/* ---- hello, continued -------------------------------------------------------------------------------------------- */

static void begin_session(mr_sender *sender, peer *p) {
    p->session = p->latest = ++sender->last_session;
    p->resumed = p->withdrawn = p->bye_sent = false;
    p->sent_number = p->received_number = 0;
    p->granted_frames = p->granted_bytes = p->used_frames = p->used_bytes = 0;
    p->progress_ns = sender->now_ns;
    p->progress = 0;
    sender->counts.sessions++;
    for (uint64_t position = sender->base; p->leased && position != sender->next; position++)
        slot_at(sender, position)->vouched = false;
}

void mr_sender_welcome(mr_sender *sender, peer *p, mr_action *action) {
    action->kind = MR_ACTION_SEND;
    action->peer = p->route;
    action->message = (mr_cut_message){.kind = MR_MESSAGE_WELCOME, .version = p->version, .session = p->session};
    action->message.welcome.version = p->version;
    action->message.welcome.attempt = p->attempt;
    action->message.welcome.incarnation = sender->params.self.incarnation;
    action->message.welcome.run = sender->params.run;
    action->message.welcome.beat_ns = sender->params.self.timing.beat_ns;
    action->message.welcome.live = sender->params.live;
    p->reported = action->message.welcome.run_state = mr_sender_run_state(sender, p);
    action->message.welcome.memory = sender->params.self.memory;
    p->sent_ns = sender->now_ns;
}

/* Answers a HELLO: a session begins. The peer may have a session that it has not answered. It can have sent this HELLO
 * before that WELCOME arrived. That session has sent nothing else, so the HELLO refers to it, and the peer may use
 * whichever WELCOME it receives first. */
static void welcome(mr_sender *sender, peer *p, uint32_t route, const mr_cut_message *hello) {
    bool again = p->session;
    const uint32_t newest = hello->hello.newest_version;
    p->version = newest < MR_PROTOCOL_NEWEST ? newest : MR_PROTOCOL_NEWEST;
    p->attempt = hello->hello.attempt;
    p->refused |= hello->hello.refused && hello->hello.refused == p->latest;
    p->closed = false;
    p->received_ns = sender->now_ns;
    if (!again)
        begin_session(sender, p);
    lead_to(sender, p, route);
    mr_sender_welcome(sender, p, &mr_sender_event(sender, MR_ACTION_SEND, route)->action);
    if (again)
        return;
    report_once(sender, p, MR_PEER_JOINED, "");
    event *e = &sender->events[(sender->event_first + sender->event_count - 1) % SENDER_EVENTS];
    e->action.of.index = index_of(sender, p);
    copy_text(e->memory, sizeof e->memory, hello->hello.memory);
}

/* Whether this is a process name on the consuming node: "worker", or "worker.0" and so on if there are several. */
static bool is_planned(const mr_sender *sender, const char *name) {
    const char *consumer = sender->params.consumer;
    size_t length = consumer ? strlen(consumer) : 0;
    char *end = NULL;
    if (!consumer || strcmp(name, consumer) == 0)
        return true;
    if (strncmp(name, consumer, length) != 0 || name[length] != '.')
        return false;
    const char *number = name + length + 1;
    if (*number < '0' || *number > '9' || (*number == '0' && number[1]))
        return false;
    return strtoul(number, &end, 10) < sender->params.receivers && !*end;
}

/* A result kind that this end has and the other does not know. NULL: it knows all. */
static const mr_result_kind *find_unknown_kind(const mr_kinds *ours, const mr_cut_message *message) {
    for (size_t i = 0; ours && i < ours->count; i++) {
        size_t at = 0;
        while (at < message->hello.kind_count && message->hello.kinds[at] != ours->id[i])
            at++;
        if (at == message->hello.kind_count)
            return ours->kind[i];
    }
    return NULL;
}

/* Why a HELLO is not for this cut; MR_REJECT_UNKNOWN if it is. */
static mr_reject_reason judge(const mr_sender *sender, const mr_cut_message *message, char *text, size_t bytes) {
    const mr_session_self *self = &sender->params.self;
    text[0] = 0;
    if (message->hello.oldest_version > MR_PROTOCOL_NEWEST || message->hello.newest_version < MR_PROTOCOL_OLDEST) {
        snprintf(text, bytes, "node %.32s speaks versions %u to %u of the messages, node %.32s %d to %d: give them a "
                              "version of millrace that fits",
                 message->hello.name, message->hello.oldest_version, message->hello.newest_version, self->name,
                 MR_PROTOCOL_OLDEST, MR_PROTOCOL_NEWEST);
        return MR_REJECT_VERSION;
    }
    if (strcmp(message->hello.cut, self->cut) != 0) {
        snprintf(text, bytes, "this is the cut %s, not %s", self->cut, message->hello.cut);
        return MR_REJECT_CUT;
    }
    if (memcmp(message->hello.digest, self->digest, MR_DIGEST_BYTES) != 0) {
        snprintf(text, bytes, "node %s runs a different pipeline, or another version of it: all nodes need the same "
                              "file, variables and overrides", message->hello.name);
        return MR_REJECT_DIGEST;
    }
    if (strcmp(message->hello.formats, self->formats) != 0) {
        snprintf(text, bytes, "it expects %s, this node has %s", message->hello.formats, self->formats);
        return MR_REJECT_FORMATS;
    }
    const mr_result_kind *unknown = find_unknown_kind(self->kinds, message);
    if (unknown) {
        snprintf(text, bytes, "it does not know results of the kind \"%.64s\", or has other fields for them: give all "
                              "nodes the same plugins", unknown->name);
        return MR_REJECT_FORMATS;
    }
    if (!message->hello.incarnation || !*message->hello.name || strlen(message->hello.name) >= MR_PEER_NAME) {
        snprintf(text, bytes, "a name of 1 to %d bytes and an incarnation are needed", MR_PEER_NAME - 1);
        return MR_REJECT_MALFORMED;
    }
    if (!is_planned(sender, message->hello.name)) {
        snprintf(text, bytes, "this cut is for %s, and %s is not one of its processes", sender->params.consumer,
                 message->hello.name);
        return MR_REJECT_CUT;
    }
    return MR_REJECT_UNKNOWN;
}

/* A refused process asks again. Whether this refusal was already reported; it counts as reported from now on. */
static bool is_reported(mr_sender *sender, uint64_t incarnation, mr_reject_reason reason) {
    for (int i = 0; i < SENDER_REFUSED_KEPT; i++)
        if (sender->refused[i].incarnation == incarnation && sender->refused[i].reason == reason)
            return true;
    sender->refused[sender->refused_turn++ % SENDER_REFUSED_KEPT] = (refusal){incarnation, reason};
    return false;
}

static int refuse(mr_sender *sender, uint32_t route, const mr_cut_message *hello, mr_reject_reason reason,
                  const char *text) {
    sender->counts.rejected++;
    reject(sender, route, 0, hello->hello.attempt, reason, text);
    if (is_reported(sender, hello->hello.incarnation, reason))
        return MR_OK;
    peer stranger = {.route = route, .incarnation = hello->hello.incarnation};
    copy_text(stranger.name, sizeof stranger.name, hello->hello.name);
    report_once(sender, &stranger, MR_PEER_REJECTED, text);
    sender->events[(sender->event_first + sender->event_count - 1) % SENDER_EVENTS].action.of.reason = reason;
    return MR_OK;
}

static int receive_hello(mr_sender *sender, uint32_t route, const mr_cut_message *message) {
    char text[SENDER_TEXT];
    mr_reject_reason reason = judge(sender, message, text, sizeof text);
    if (reason)
        return refuse(sender, route, message, reason, text);
    if (sender->closing)
        return refuse(sender, route, message, MR_REJECT_FULL, "this node is ending");
    if (sender->served[mr_sender_replica_of(sender, message->hello.name)].given_up)
        return MR_OK; /* It was sent before. */
    peer *p = peer_by_name(sender, message->hello.name);
    if (p && p->incarnation == message->hello.incarnation) {
        if (message->hello.attempt <= p->attempt)
            return MR_OK; /* It has come twice, or late. */
        if (p->left) {
            p->attempt = message->hello.attempt;
            follow(sender, p, route);
            return MR_OK; /* It asks whether there is another process here. */
        }
        if (p->resumed)
            end_session(sender, p, MR_PEER_BROKEN, "it starts a new session");
        if (!p->stalled)
            mr_sender_clear(sender, p);
    } else if (p) {
        if (p->session && message->hello.incarnation < p->incarnation)
            return refuse(sender, route, message, MR_REJECT_REPLACED, "a later process of that name is connected");
        end_session(sender, p, MR_PEER_RESTARTED, "another process has taken its place");
        mr_sender_mark_dead(sender, p, true);
        take_record(sender, p, message);
    } else {
        p = free_record(sender);
        if (!p)
            return refuse(sender, route, message, MR_REJECT_FULL, "the maximum number of receivers is connected");
        take_record(sender, p, message);
    }
    welcome(sender, p, route, message);
    return MR_OK;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* A frame that was taken from a peer that reconnected, and that was not sent to another peer since, is leased to it
 * again. */
static void vouch(mr_sender *sender, peer *p, uint64_t position) {
    slot *s = slot_at(sender, position);
    if (s->state == SLOT_QUEUED && !p->stalled)
        mr_sender_lease(sender, position, p);
    s->vouched = s->vouched || s->peer == index_of(sender, p);
}

static void settle_range(mr_sender *sender, peer *p, const mr_settled *range, bool first_report) {
    uint64_t from = range->first < sender->base ? sender->base : range->first;
    for (uint64_t position = from; position < range->first + range->count; position++) {
        slot *s = slot_at(sender, position);
        if (s->state == SLOT_SETTLED || !(s->had >> index_of(sender, p) & 1))
            continue;
        if (range->outcome == MR_NOTE_DELIVERED && s->item.kind == MR_CUT_FRAME)
            note_delivered(sender, p);
        if (range->outcome != MR_NOTE_NONE)
            mr_sender_settle(sender, position, range->outcome, range->stage, range->reason);
        else if (first_report)
            vouch(sender, p, position);
    }
}

/* Items that a reconnected peer does not report as held did not arrive. */
static void resume(mr_sender *sender, peer *p) {
    uint32_t index = index_of(sender, p);
    if (p->refused)
        mr_sender_accuse_refused(sender, p);
    p->refused = false;
    for (uint64_t position = sender->base; position != sender->next && p->leased; position++) {
        slot *s = slot_at(sender, position);
        if (s->state == SLOT_LEASED && s->peer == index && !s->vouched)
            mr_sender_take_back(sender, position);
    }
    memcpy(p->end_sent, p->end_confirmed, sender->params.self.source_count * sizeof *p->end_sent);
    p->resumed = true;
    mr_sender_schedule_loss_reports(sender);
}

/* How many frames in the window a report covers. An honest report names each once, or twice if it came again. A hostile
 * one must not make the sender walk the whole window for each of half a million ranges. */
static uint64_t count_settled(const mr_sender *sender, const mr_cut_message *message) {
    uint64_t count = 0;
    for (size_t i = 0; i < message->report.settled_count; i++) {
        const mr_settled *range = &message->report.settled[i];
        uint64_t end = range->first + range->count, from = range->first < sender->base ? sender->base : range->first;
        count += end > from ? end - from : 0;
    }
    return count;
}

static bool is_sound(const mr_sender *sender, const peer *p, const mr_cut_message *message) {
    if (message->report.granted_frames < p->granted_frames || message->report.granted_bytes < p->granted_bytes)
        return false;
    for (size_t i = 0; i < message->report.settled_count; i++) {
        const mr_settled *range = &message->report.settled[i];
        if (!range->first || !range->count || range->first >= sender->next ||
            range->count > sender->next - range->first)
            return false;
    }
    for (size_t i = 0; i < message->report.ended_count; i++)
        if (message->report.ended[i] >= sender->params.self.source_count)
            return false;
    return count_settled(sender, message) <= REPORTED_TIMES * (sender->next - sender->base);
}

static void confirm_end(peer *p, uint32_t source) {
    p->ends_confirmed += !p->end_confirmed[source];
    p->end_confirmed[source] = true;
}

static int break_protocol(mr_sender *sender, peer *p, const char *what) {
    sender->counts.malformed++;
    reject(sender, p->route, p->session, 0, MR_REJECT_MALFORMED, what);
    end_session(sender, p, MR_PEER_BROKEN, what);
    return mr_fail(MR_ERROR_PROTOCOL, "node %s breaks the protocol: %s", p->name, what);
}

static int receive_report(mr_sender *sender, peer *p, const mr_cut_message *message) {
    if (!is_sound(sender, p, message))
        return break_protocol(
            sender, p, "its report withdraws credit, or settles a frame that was never sent, or one frame many times");
    bool first = !p->resumed;
    p->stalled = p->stalled && message->report.progress == p->stalled_at;
    for (size_t i = 0; i < message->report.settled_count; i++)
        settle_range(sender, p, &message->report.settled[i], first);
    for (size_t i = 0; i < message->report.ended_count; i++)
        if (p->end_sent[message->report.ended[i]])
            confirm_end(p, message->report.ended[i]);
    if (first)
        resume(sender, p);
    p->granted_frames = message->report.granted_frames;
    p->granted_bytes = message->report.granted_bytes;
    p->withdrawn = message->report.withdrawn;
    if (message->report.progress != p->progress)
        p->progress_ns = sender->now_ns;
    p->progress = message->report.progress;
    return MR_OK;
}

static int receive_bye(mr_sender *sender, peer *p, const mr_cut_message *message) {
    p->left = p->bye_sent;
    end_session(sender, p, MR_PEER_LEFT, message->bye.text);
    mr_sender_mark_dead(sender, p, false);
    return MR_OK;
}

bool mr_sender_may_receive(const mr_sender *sender, uint64_t session, uint64_t number, uint32_t *route) {
    const peer *p = peer_by_session(sender, session);
    if (!p || number > p->received_number + 1)
        return false;
    *route = p->route;
    return true;
}

bool mr_sender_knows(const mr_sender *sender, uint64_t session, uint32_t *index) {
    const peer *p = peer_by_session(sender, session);
    *index = p ? index_of(sender, p) : 0;
    return p != NULL;
}

int mr_sender_receive(mr_sender *sender, uint32_t route, const mr_cut_message *message, int64_t now_ns) {
    sender->now_ns = now_ns;
    if (message->kind == MR_MESSAGE_HELLO)
        return receive_hello(sender, route, message);
    peer *p = peer_by_session(sender, message->session);
    if (!p) {
        sender->counts.stale++;
        if (message->kind != MR_MESSAGE_REJECT)
            reject(sender, route, message->session, 0, MR_REJECT_STALE, "it was restarted");
        return MR_OK;
    }
    if (message->kind == MR_MESSAGE_REJECT) {
        sender->counts.rejected++;
        end_session(sender, p, MR_PEER_BROKEN, message->reject.text);
        return MR_OK;
    }
    if (message->number <= p->received_number)
        return MR_OK;
    if (message->number != p->received_number + 1) {
        reject(sender, route, p->session, 0, MR_REJECT_STALE, "messages were lost");
        end_session(sender, p, MR_PEER_BROKEN, "messages were lost");
        return MR_OK;
    }
    p->received_number = message->number;
    p->received_ns = now_ns;
    follow(sender, p, route);
    if (message->kind == MR_MESSAGE_REPORT)
        return receive_report(sender, p, message);
    if (message->kind == MR_MESSAGE_BYE)
        return receive_bye(sender, p, message);
    return break_protocol(sender, p, "a receiver sends hellos, reports and byes, and nothing else");
}

void mr_sender_malformed(mr_sender *sender, uint32_t route) {
    sender->counts.malformed++;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (p->used && p->session && p->route == route) {
            reject(sender, route, p->session, 0, MR_REJECT_MALFORMED, "malformed message");
            end_session(sender, p, MR_PEER_BROKEN, "malformed message");
            return;
        }
    }
}

void mr_sender_unwritten(mr_sender *sender, uint64_t session) {
    peer *p = peer_by_session(sender, session);
    if (!p)
        return;
    p->refused = true;
    reject(sender, p->route, session, 0, MR_REJECT_STALE, "a message could not be written");
    end_session(sender, p, MR_PEER_BROKEN, "a message for it could not be written");
}

/* ---- lost peers -------------------------------------------------------------------------------------------------- */

void mr_sender_lost(mr_sender *sender, uint32_t route, int64_t now_ns) {
    sender->now_ns = now_ns;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || p->route != route)
            continue;
        p->closed = true;
        end_session(sender, p, MR_PEER_BROKEN, "the connection was closed");
    }
}

void mr_sender_give_up(mr_sender *sender, uint32_t receiver, int64_t now_ns) {
    sender->now_ns = now_ns;
    if (sender->served[receiver].given_up)
        return;
    sender->served[receiver].given_up = true;
    sender->given_up++;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || mr_sender_replica_of(sender, p->name) != receiver)
            continue;
        end_session(sender, p, MR_PEER_LEFT, "it has failed");
        mr_sender_mark_dead(sender, p, true);
        p->left = true;
    }
    mr_sender_schedule_loss_reports(sender); /* it may have had the last ones */
}

bool mr_sender_is_forsaken(const mr_sender *sender) {
    return sender->given_up >= sender->params.receivers;
}

void mr_sender_look_at_peers(mr_sender *sender, int64_t now_ns) {
    const mr_session_timing *timing = &sender->params.self.timing;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || (!p->session && !p->leased))
            continue;
        if (now_ns - p->received_ns >= timing->silence_ns) {
            end_session(sender, p, MR_PEER_SILENT, "no heartbeat from it");
            mr_sender_mark_dead(sender, p, p->closed);
        } else if (p->session && p->leased && timing->stall_ns && now_ns - p->progress_ns >= timing->stall_ns) {
            reject(sender, p->route, p->session, 0, MR_REJECT_STALE, "no progress was made");
            p->stalled = true;
            p->stalled_at = p->progress;
            end_session(sender, p, MR_PEER_STALLED, "it has frames but makes no progress");
            mr_sender_mark_dead(sender, p, true);
        }
    }
}

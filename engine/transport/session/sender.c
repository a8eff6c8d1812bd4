/* A cut's sender: the ring of items, and the interface. sender_peers.c runs sessions with peers, sender_send.c chooses
 * the next action.
 *
 * Losses. A live cut drops frames while no consumer is connected, and frames on a connection that breaks. A process
 * that ended can know losses that its successor does not know. The other side cannot see these losses. A join there may
 * wait for the frames, and so may the whole pipeline. So the sender remembers for each source how far it is settled. If
 * that can be news to the peers, one mark reports it (engine/data/gap.h) after everything that is queued. It needs no
 * credit, as any mark, and stays pending until a peer connects. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/gap.h"
#include "engine/transport/session/sender_parts.h"
#include "millrace/status.h"

static void enqueue(mr_sender *sender, const mr_cut_item *item) {
    uint64_t position = sender->next++;
    slot *s = slot_at(sender, position);
    *s = (slot){.item = *item, .state = SLOT_QUEUED};
    s->item.position = position;
    lane *l = &sender->lanes[item->identity.source];
    l->queued++;
    l->unsettled++;
    if (item->kind == MR_CUT_FRAME) {
        sender->frames++;
        sender->queued_frames++;
        sender->bytes += item->bytes;
        sender->queued_bytes += item->bytes;
    }
}

/* ---- losses to report -------------------------------------------------------------------------------------------- */

static void note_gap(mr_sender *sender, const mr_identity *gone) {
    lane *l = &sender->lanes[gone->source];
    if (!sender->params.reports_lost || mr_identity_is_away(gone) ||
        (l->known && mr_identity_compare(gone, &l->gone) <= 0))
        return;
    l->gone = mr_identity_lost(*gone);
    l->known = true;
}

static void schedule_loss_report(mr_sender *sender, uint32_t source) {
    lane *l = &sender->lanes[source];
    if (!sender->params.reports_lost || l->loss_pending || !(l->known || l->away))
        return;
    l->loss_pending = true;
    sender->losses_pending++;
}

void mr_sender_miss(mr_sender *sender, const mr_identity *gone) {
    note_gap(sender, gone);
    schedule_loss_report(sender, gone->source);
}

void mr_sender_schedule_loss_reports(mr_sender *sender) {
    for (uint32_t source = 0; source < sender->params.self.source_count; source++)
        schedule_loss_report(sender, source);
}

/* If the source has ended, the end mark says more. */
static bool may_queue_loss_report(const mr_sender *sender, uint32_t source) {
    enum { MARKS = 2 };
    const lane *from = &sender->lanes[source];
    return from->loss_pending && !from->ended && mr_sender_anybody_open(sender, source) &&
           sender->next - sender->base + MARKS <= sender->room;
}

void mr_sender_queue_loss_reports(mr_sender *sender) {
    for (uint32_t source = 0; sender->losses_pending && source < sender->params.self.source_count; source++) {
        lane *l = &sender->lanes[source];
        if (!may_queue_loss_report(sender, source))
            continue;
        const mr_cut_item lost = {.kind = MR_CUT_GAP, .identity = l->gone},
                          away = {.kind = MR_CUT_GAP, .identity = mr_identity_away(source)};
        if (l->known)
            enqueue(sender, &lost);
        if (l->away)
            enqueue(sender, &away);
        l->loss_pending = false;
        sender->losses_pending--;
    }
}

/* ---- items: queued, leased, taken back, settled ------------------------------------------------------------------ */

static void leave_queue(mr_sender *sender, slot *s) {
    sender->lanes[s->item.identity.source].queued--;
    if (s->item.kind == MR_CUT_FRAME) {
        sender->queued_frames--;
        sender->queued_bytes -= s->item.bytes;
    }
}

static void leave_peer(mr_sender *sender, slot *s) {
    peer *p = &sender->peers[s->peer];
    p->leased--;
    p->lane_leased[s->item.identity.source]--;
    p->suspects -= s->deaths > 0;
}

void mr_sender_settle(mr_sender *sender, uint64_t position, mr_note outcome, const char *stage, const char *reason) {
    slot *s = slot_at(sender, position);
    if (s->state == SLOT_QUEUED)
        leave_queue(sender, s);
    else
        leave_peer(sender, s);
    s->state = SLOT_SETTLED;
    s->settled = (mr_settled){.first = position, .count = 1, .outcome = outcome, .stage = stage, .reason = reason};
    sender->lanes[s->item.identity.source].unsettled--;
    note_gap(sender, &s->item.identity);
    if (s->item.kind == MR_CUT_FRAME) {
        sender->frames--;
        sender->bytes -= s->item.bytes;
    }
    sender->settled[(sender->settled_first + sender->settled_count++) & (sender->room - 1)] = position;
}

void mr_sender_lease(mr_sender *sender, uint64_t position, peer *p) {
    slot *s = slot_at(sender, position);
    leave_queue(sender, s);
    s->state = SLOT_LEASED;
    s->peer = index_of(sender, p);
    s->had |= UINT64_C(1) << s->peer;
    if (!p->leased)
        p->progress_ns = sender->now_ns;
    p->leased++;
    p->lane_leased[s->item.identity.source]++;
    p->suspects += s->deaths > 0;
    if (s->deaths)
        p->alone_until_ns = sender->now_ns + sender->params.self.timing.alone_ns;
}

/* Packets that follow one that is lost could not be decoded. */
static void lose(mr_sender *sender, uint64_t position) {
    const mr_cut_item *item = &slot_at(sender, position)->item;
    bool packet = item->kind == MR_CUT_FRAME && item->packet;
    if (packet)
        sender->lanes[item->identity.source].waits_for_key = true;
    mr_sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, "connection lost");
    schedule_loss_report(sender, item->identity.source);
}

void mr_sender_take_back(mr_sender *sender, uint64_t position) {
    slot *s = slot_at(sender, position);
    if (sender->params.live) {
        lose(sender, position);
        return;
    }
    leave_peer(sender, s);
    s->state = SLOT_QUEUED;
    sender->lanes[s->item.identity.source].queued++;
    if (s->item.kind == MR_CUT_FRAME) {
        sender->queued_frames++;
        sender->queued_bytes += s->item.bytes;
    }
    if (position < sender->first_queued)
        sender->first_queued = position;
}

/* True if the frame must be set aside. One frame among several under way may be innocent; it is sent alone once more,
 * but not without end. The frame is leased: the caller takes it back, which counts the suspicion again. */
static bool suspect(mr_sender *sender, slot *s, bool alone) {
    uint32_t limit = sender->params.deaths;
    sender->peers[s->peer].suspects += s->deaths == 0;
    s->deaths++;
    s->blamed |= UINT64_C(1) << s->peer;
    return s->deaths >= (alone ? limit : 2 * limit) && !sender->params.live;
}

void mr_sender_clear(mr_sender *sender, const peer *p) {
    uint64_t bit = UINT64_C(1) << index_of(sender, p);
    for (uint64_t position = sender->base; position != sender->next; position++) {
        slot *s = slot_at(sender, position);
        if (!(s->blamed & bit))
            continue;
        s->blamed &= ~bit;
        s->deaths--;
        if (s->state == SLOT_LEASED && !s->deaths)
            sender->peers[s->peer].suspects--;
    }
}

/* Frames are usually processed in order, so the first one in hand is the most likely cause. */
static void suspect_first(mr_sender *sender, const peer *p) {
    uint32_t index = index_of(sender, p);
    slot *first = NULL;
    for (uint64_t position = sender->base; position != sender->next && !first; position++) {
        slot *s = slot_at(sender, position);
        if (s->state == SLOT_LEASED && s->peer == index && s->item.kind == MR_CUT_FRAME)
            first = s;
    }
    if (!first || ++first->fatal < 2)
        return;
    event *e = mr_sender_event(sender, MR_ACTION_SUSPECT, p->route);
    e->action.item = first->item;
    e->action.item.frame = NULL;
    memcpy(e->name, p->name, sizeof e->name);
}

static void set_aside(mr_sender *sender, uint64_t position, const char *reason) {
    slot_at(sender, position)->set_aside = true;
    sender->counts.set_aside++;
    mr_sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, reason);
}

void mr_sender_mark_dead(mr_sender *sender, peer *p, bool died) {
    if (died && !sender->params.deaths && !sender->params.live)
        suspect_first(sender, p);
    uint32_t index = index_of(sender, p), suspects = p->suspects;
    bool alone = (suspects ? suspects : p->leased) == 1;
    for (uint64_t position = sender->base; position != sender->next && p->leased; position++) {
        slot *s = slot_at(sender, position);
        if (s->state != SLOT_LEASED || s->peer != index)
            continue;
        bool accused = died && sender->params.deaths && s->item.kind == MR_CUT_FRAME && (!suspects || s->deaths);
        if (accused && suspect(sender, s, alone)) {
            set_aside(sender, position, "set aside");
        } else {
            mr_sender_take_back(sender, position);
        }
    }
}

/* ---- refused messages -------------------------------------------------------------------------------------------- */

/* Whether the peer was sent the item in this session, or the one before, and has not received it. */
static bool is_missing(const mr_sender *sender, const slot *s, const peer *p) {
    return s->state == SLOT_LEASED && s->peer == index_of(sender, p) && !s->vouched;
}

void mr_sender_accuse_refused(mr_sender *sender, const peer *p) {
    uint64_t first = UINT64_MAX;
    uint32_t items = 0;
    for (uint64_t position = sender->base; position != sender->next; position++) {
        const slot *s = slot_at(sender, position);
        if (!is_missing(sender, s, p) || s->number > first)
            continue;
        items = s->number < first ? 1 : items + 1;
        first = s->number;
    }
    for (uint64_t position = sender->base; position != sender->next; position++) {
        slot *s = slot_at(sender, position);
        if (!is_missing(sender, s, p) || s->number != first)
            continue;
        s->refused++;
        bool enough = sender->params.refusals && s->refused >= sender->params.refusals && items == 1;
        if (enough && s->item.kind == MR_CUT_FRAME && !sender->params.live)
            set_aside(sender, position, "refused");
    }
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* Marks need no window, but they need room in the ring. So do settled items after an unsettled one. */
static uint64_t ring_room(const mr_sender_params *params) {
    uint64_t room = 64;
    while (room < (uint64_t)params->window_frames * 4)
        room *= 2;
    return room;
}

static bool create_peers(mr_sender *sender) {
    size_t sources = sender->params.self.source_count;
    sender->peers = mr_calloc(sender->params.most_peers, sizeof *sender->peers);
    for (uint32_t i = 0; sender->peers && i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        p->lane_leased = mr_calloc(sources, sizeof *p->lane_leased);
        p->end_sent = mr_calloc(sources, sizeof *p->end_sent);
        p->end_confirmed = mr_calloc(sources, sizeof *p->end_confirmed);
        if (!p->lane_leased || !p->end_sent || !p->end_confirmed)
            return false;
    }
    return sender->peers != NULL;
}

int mr_sender_create(mr_sender **sender, const mr_sender_params *params) {
    mr_sender *made = mr_calloc(1, sizeof *made);
    if (!made)
        goto fail;
    made->params = *params;
    if (made->params.most_peers > MR_CUT_MOST_PEERS)
        made->params.most_peers = MR_CUT_MOST_PEERS;
    made->room = ring_room(params);
    made->base = made->next = made->first_queued = 1;
    made->last_session = params->self.incarnation;
    made->ring = mr_calloc(made->room, sizeof *made->ring);
    made->settled = mr_calloc(made->room, sizeof *made->settled);
    made->lanes = mr_calloc(params->self.source_count, sizeof *made->lanes);
    made->events = mr_calloc(SENDER_EVENTS, sizeof *made->events);
    made->batch = mr_calloc(params->batch_frames + 1, sizeof *made->batch);
    made->served = mr_calloc(params->receivers ? params->receivers : 1, sizeof *made->served);
    if (!made->served || !made->ring || !made->settled || !made->lanes || !made->events || !made->batch ||
        !create_peers(made))
        goto fail;
    *sender = made;
    return MR_OK;
fail:
    mr_sender_destroy(&made);
    return mr_fail(MR_ERROR_MEMORY, "no memory for the cut %s with a window of %u frames", params->self.cut,
                   params->window_frames);
}

void mr_sender_destroy(mr_sender **sender) {
    mr_sender *gone = *sender;
    *sender = NULL;
    if (!gone)
        return;
    for (uint32_t i = 0; gone->peers && i < gone->params.most_peers; i++) {
        mr_free(gone->peers[i].lane_leased);
        mr_free(gone->peers[i].end_sent);
        mr_free(gone->peers[i].end_confirmed);
    }
    mr_free(gone->peers);
    mr_free(gone->served);
    mr_free(gone->ring);
    mr_free(gone->settled);
    mr_free(gone->lanes);
    mr_free(gone->events);
    mr_free(gone->batch);
    mr_free(gone);
}

/* Grants are not trusted: the sum may overflow, but is never less than a part of it. */
static uint64_t add(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Whether credit is left for one frame more than those that are queued. */
static bool has_credit(const mr_sender *sender, uint64_t bytes) {
    uint64_t frames_left = 0, bytes_left = 0;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        const peer *p = &sender->peers[i];
        if (!is_there(p) || p->withdrawn)
            continue;
        frames_left = add(frames_left, p->granted_frames - p->used_frames);
        bytes_left = add(bytes_left, p->granted_bytes - p->used_bytes);
    }
    return frames_left > sender->queued_frames && bytes_left >= sender->queued_bytes + bytes;
}

bool mr_sender_has_room(const mr_sender *sender, uint64_t bytes) {
    const mr_sender_params *params = &sender->params;
    return sender->frames < params->window_frames && sender->bytes + bytes <= params->window_bytes &&
           sender->next - sender->base < sender->room && (!params->live || has_credit(sender, bytes));
}

bool mr_sender_lacks(const mr_sender *sender) {
    uint32_t there = sender->given_up;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        there += is_there(&sender->peers[i]);
    return there < sender->params.receivers;
}

bool mr_sender_has_peer(const mr_sender *sender) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        if (is_there(&sender->peers[i]))
            return true;
    return false;
}

static int offer_frame(mr_sender *sender, const mr_cut_item *item) {
    if (item->bytes > sender->params.window_bytes)
        return mr_fail(MR_ERROR_DATA, "a frame of %llu bytes is more than the %llu that the cut %s may hold",
                       (unsigned long long)item->bytes, (unsigned long long)sender->params.window_bytes,
                       sender->params.self.cut);
    lane *l = &sender->lanes[item->identity.source];
    bool useless = l->waits_for_key && item->packet && !item->key;
    /* An item that is dropped at once only needs room in the ring. */
    if (useless ? sender->next - sender->base >= sender->room : !mr_sender_has_room(sender, item->bytes))
        return MR_ERROR_AGAIN;
    enqueue(sender, item);
    l->away = false;
    if (useless) {
        mr_sender_settle(sender, sender->next - 1, MR_NOTE_DROPPED, sender->params.stage, "gop");
        schedule_loss_report(sender, item->identity.source);
    } else if (item->key)
        l->waits_for_key = false;
    return MR_OK;
}

/* A live cut without peers remembers the item as a gap. */
static int offer_mark(mr_sender *sender, const mr_cut_item *mark) {
    lane *l = &sender->lanes[mark->identity.source];
    bool no_consumer = sender->params.live && !mr_sender_has_peer(sender);
    if (!no_consumer && sender->next - sender->base >= sender->room)
        return MR_ERROR_AGAIN;
    l->away = mr_identity_is_away(&mark->identity);
    if (no_consumer)
        mr_sender_miss(sender, &mark->identity);
    else
        enqueue(sender, mark);
    return MR_OK;
}

int mr_sender_offer(mr_sender *sender, const mr_cut_item *item, int64_t now_ns) {
    lane *l = &sender->lanes[item->identity.source];
    sender->now_ns = now_ns;
    if (item->kind == MR_CUT_FRAME)
        return offer_frame(sender, item);
    if (item->kind == MR_CUT_END) {
        sender->lanes_ended += !l->ended;
        l->ended = true;
        l->reason = item->reason;
        return MR_OK;
    }
    return offer_mark(sender, item);
}

/* Without a mark nothing is known: an older millrace before this node says nothing. */
bool mr_sender_is_former(const mr_sender *sender, uint32_t source) {
    const uint64_t made_by = sender->lanes[source].made_by;
    return made_by && made_by < sender->newest;
}

static void drop_former(mr_sender *sender, uint32_t source) {
    for (uint64_t position = sender->base; position != sender->next; position++) {
        const slot *s = slot_at(sender, position);
        if (s->state != SLOT_SETTLED && s->item.identity.source == source)
            mr_sender_settle(sender, position, MR_NOTE_ABSORBED, sender->params.stage, MR_REASON_MADE_AGAIN);
    }
}

static void note_newest(mr_sender *sender, uint64_t incarnation) {
    sender->newest = incarnation > sender->newest ? incarnation : sender->newest;
    for (uint32_t source = 0; sender->lanes && source < sender->params.self.source_count; source++)
        if (mr_sender_is_former(sender, source))
            drop_former(sender, source);
}

void mr_sender_renew(mr_sender *sender, uint32_t source, uint64_t incarnation, int64_t now_ns) {
    sender->now_ns = now_ns;
    if ((!sender->params.renewed && !sender->params.passes) || incarnation <= sender->lanes[source].made_by)
        return;
    sender->lanes[source].made_by = incarnation;
    drop_former(sender, source);
    if (sender->params.passes)
        note_newest(sender, incarnation);
}

void mr_sender_note_consumer(mr_sender *sender, uint64_t incarnation) {
    if (sender->params.renewed)
        note_newest(sender, incarnation);
}

uint32_t mr_sender_unsettled(const mr_sender *sender) {
    return sender->frames;
}

/* Whether it can be there, or come back. */
static bool counts(const mr_sender *sender, const peer *p) {
    return p->used && !sender->served[mr_sender_replica_of(sender, p->name)].given_up;
}

/* How many receivers need no more ends. */
static size_t witnesses(const mr_sender *sender) {
    size_t count = sender->given_up;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        count += counts(sender, &sender->peers[i]) &&
                 sender->peers[i].ends_confirmed == sender->params.self.lane_count;
    return count;
}

/* Whether a receiver can still take an item of that source, or come to take it. */
static bool has_consumer(const mr_sender *sender, size_t source) {
    uint32_t without = sender->given_up;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        without += counts(sender, &sender->peers[i]) && sender->peers[i].end_confirmed[source];
    return without < sender->params.receivers;
}

void mr_sender_drop_orphans(mr_sender *sender) {
    if (!sender->given_up || mr_sender_is_forsaken(sender))
        return;
    for (uint64_t position = sender->base; position != sender->next; position++) {
        const slot *s = slot_at(sender, position);
        if (s->state == SLOT_QUEUED && !has_consumer(sender, s->item.identity.source))
            mr_sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, "no consumer");
    }
}

bool mr_sender_is_done(const mr_sender *sender) {
    return sender->lanes_ended == sender->params.self.lane_count && sender->base == sender->next &&
           witnesses(sender) >= sender->params.receivers;
}

bool mr_sender_waits(const mr_sender *sender) {
    return !sender->closing && !mr_sender_has_peer(sender) && !mr_sender_is_done(sender);
}

static bool is_waited_for(const mr_sender *sender, const peer *p) {
    return p->used && !p->left && sender->now_ns < patience_ends_ns(sender, p);
}

bool mr_sender_finished(const mr_sender *sender) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        if (is_waited_for(sender, &sender->peers[i]))
            return false;
    return mr_sender_is_done(sender);
}

void mr_sender_close(mr_sender *sender, const char *text) {
    sender->closing = true;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || !p->session)
            continue;
        event *e = mr_sender_event(sender, MR_ACTION_SEND, p->route);
        mr_sender_address(sender, p, MR_MESSAGE_BYE, &e->action);
        strncpy(e->text, text, sizeof e->text - 1);
        p->session = 0;
    }
}

void mr_sender_abandon(mr_sender *sender, const char *reason) {
    sender->abandoned = true;
    for (uint64_t position = sender->base; position != sender->next; position++)
        if (slot_at(sender, position)->state != SLOT_SETTLED)
            mr_sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, reason);
}

mr_session_counts mr_sender_counts(const mr_sender *sender) {
    mr_session_counts counts = sender->counts;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        counts.peers += sender->peers[i].used && sender->peers[i].session;
    counts.absent = !counts.peers && !sender->abandoned && !mr_sender_is_done(sender);
    return counts;
}

/* The next action of a sender: events first, then outcomes, then items as credit allows, then ends and beats. */
#include "engine/base/clock.h"
#include "engine/transport/session/sender_parts.h"

static bool next_event(mr_sender *sender, mr_action *action) {
    if (!sender->event_count)
        return false;
    event *e = &sender->events[sender->event_first];
    sender->event_first = (sender->event_first + 1) % SENDER_EVENTS;
    sender->event_count--;
    *action = e->action;
    if (action->kind == MR_ACTION_PEER || action->kind == MR_ACTION_SUSPECT) {
        action->of.name = e->name;
        action->of.memory = e->memory;
        action->of.text = e->text;
    } else if (action->kind == MR_ACTION_SEND && action->message.kind == MR_MESSAGE_REJECT) {
        action->message.reject.text = e->text;
    } else if (action->kind == MR_ACTION_SEND && action->message.kind == MR_MESSAGE_BYE) {
        action->message.bye.text = e->text;
    }
    return true;
}

/* Mark outcomes are not returned. */
static bool next_outcome(mr_sender *sender, mr_action *action) {
    bool found = false;
    while (!found && sender->settled_count) {
        slot *s = slot_at(sender, sender->settled[sender->settled_first++ & (sender->room - 1)]);
        sender->settled_count--;
        found = s->item.kind == MR_CUT_FRAME;
        if (found) {
            action->kind = s->set_aside ? MR_ACTION_SET_ASIDE : MR_ACTION_SETTLE;
            action->item = s->item;
            action->settled = s->settled;
        }
        s->item.position = 0; /* taken */
        while (sender->base != sender->next && !slot_at(sender, sender->base)->item.position)
            sender->base++;
    }
    return found;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static uint64_t first_queued(mr_sender *sender) {
    if (sender->first_queued < sender->base)
        sender->first_queued = sender->base;
    while (sender->first_queued != sender->next && slot_at(sender, sender->first_queued)->state != SLOT_QUEUED)
        sender->first_queued++;
    return sender->first_queued;
}

static bool has_credit_for(const peer *p, const slot *s) {
    return s->item.kind != MR_CUT_FRAME ||
           (p->granted_frames > p->used_frames && p->granted_bytes - p->used_bytes >= s->item.bytes);
}

/* Whether an item may go to a peer now. Until `alone_ns` is over nothing joins a frame under suspicion. */
static bool may_take(const mr_sender *sender, const peer *p, const slot *s) {
    return is_there(p) && !p->withdrawn && !p->stalled && !p->end_sent[s->item.identity.source] &&
           has_credit_for(p, s) && !(p->suspects && sender->now_ns < p->alone_until_ns);
}

/* Among peers that can take the item, the one with the most credit left. On a tie, the next one after the peer that got
 * the source's previous item. So no peer gets a whole source while another could take some. This matters to the stage
 * that restores order: it knows that a frame is missing only once each peer has passed later ones. */
static peer *choose(mr_sender *sender, const slot *s, bool only_idle) {
    const uint32_t before = sender->lanes[s->item.identity.source].consumer;
    peer *best = NULL;
    for (uint32_t i = 1; i <= sender->params.most_peers; i++) {
        peer *p = &sender->peers[(before + i) % sender->params.most_peers];
        if (may_take(sender, p, s) && !(only_idle && p->leased) &&
            (!best || p->granted_frames - p->used_frames > best->granted_frames - best->used_frames))
            best = p;
    }
    return best;
}

static uint32_t consumers(const mr_sender *sender, const slot *s) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        count += may_take(sender, &sender->peers[i], s);
    return count;
}

static void put(mr_sender *sender, peer *p, uint64_t position, mr_cut_message *message) {
    slot *s = slot_at(sender, position);
    mr_sender_lease(sender, position, p);
    sender->lanes[s->item.identity.source].consumer = (uint32_t)(p - sender->peers);
    if (s->item.kind == MR_CUT_FRAME) {
        p->used_frames++;
        p->used_bytes += s->item.bytes;
        *(s->sent ? &sender->counts.again : &sender->counts.frames) += 1;
        s->sent = true;
    }
    s->number = message->number;
    message->items.item[message->items.count++] = s->item;
}

/* Fills a message with items in order, as long as the peer can take them. If several peers wait, each gets a share. */
static void fill(mr_sender *sender, peer *p, uint64_t position, uint32_t share, mr_cut_message *message) {
    uint64_t bytes = 0, envelope_bytes = 0;
    for (; position != sender->next && message->items.count < share; position++) {
        slot *s = slot_at(sender, position);
        if (s->state != SLOT_QUEUED)
            continue;
        bool alone = s->deaths > 0 || s->refused > 0;
        bool full = bytes >= sender->params.batch_bytes ||
                    envelope_bytes + s->item.envelope_bytes > sender->params.batch_bytes;
        if (!may_take(sender, p, s) || (message->items.count && (alone || full)))
            return;
        bytes += s->item.bytes + s->item.envelope_bytes;
        envelope_bytes += s->item.envelope_bytes;
        put(sender, p, position, message);
        if (alone)
            return;
    }
}

/* The peer for the first queued item. One under suspicion waits for an idle peer, but not for ever: those that are at
 * work may wait for more. */
static peer *consumer_for(mr_sender *sender, const slot *s) {
    if (!s->deaths)
        return choose(sender, s, false);
    peer *p = choose(sender, s, true);
    if (p)
        return p;
    if (!sender->suspect_since_ns)
        sender->suspect_since_ns = sender->now_ns;
    bool patient = sender->now_ns - sender->suspect_since_ns < sender->params.self.timing.alone_ns;
    return patient ? NULL : choose(sender, s, false);
}

static bool another_is_open(const mr_sender *sender, const peer *p, size_t source) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        const peer *other = &sender->peers[i];
        if (other != p && is_there(other) && !other->withdrawn && !other->end_sent[source])
            return true;
    }
    return false;
}

bool mr_sender_anybody_open(const mr_sender *sender, size_t source) {
    return another_is_open(sender, NULL, source);
}

static bool is_alone(const mr_sender *sender) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        if (is_there(&sender->peers[i]))
            return false;
    return true;
}

/* The first queued item that a peer may be sent, and that peer. Order is kept, except for items that no connected peer
 * may have any more, which wait for another process. */
static peer *find_items(mr_sender *sender, uint64_t *position) {
    const uint64_t end = is_alone(sender) ? sender->base : sender->next;
    for (*position = first_queued(sender); *position < end; ++*position) {
        const slot *s = slot_at(sender, *position);
        if (s->state != SLOT_QUEUED)
            continue;
        peer *p = consumer_for(sender, s);
        if (p || !s->deaths)
            sender->suspect_since_ns = 0;
        if (p || mr_sender_anybody_open(sender, s->item.identity.source))
            return p;
    }
    sender->suspect_since_ns = 0;
    return NULL;
}

static bool next_items(mr_sender *sender, mr_action *action) {
    uint64_t position;
    peer *p = find_items(sender, &position);
    if (!p)
        return false;
    const slot *s = slot_at(sender, position);
    uint32_t others = consumers(sender, s), queued = sender->queued_frames;
    uint32_t share = others > 1 ? queued / others + 1 : sender->params.batch_frames;
    if (share > sender->params.batch_frames)
        share = sender->params.batch_frames;
    mr_sender_address(sender, p, MR_MESSAGE_ITEMS, action);
    action->message.items.item = sender->batch;
    action->message.items.count = 0;
    action->message.items.made_by = sender->params.passes ? sender->newest : 0;
    fill(sender, p, position, share, &action->message);
    return true;
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* After all items, and only if another peer remains that can take over lost ones. */
static bool may_end(const mr_sender *sender, const peer *p, size_t source) {
    const lane *l = &sender->lanes[source];
    return l->ended && !l->queued && !p->end_sent[source] &&
           (l->unsettled == p->lane_leased[source] || another_is_open(sender, p, source));
}

static bool next_end(mr_sender *sender, mr_action *action) {
    for (uint32_t i = 0; sender->lanes_ended && i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        size_t source = 0, sources = sender->params.self.source_count;
        if (!is_there(p) || p->ends_confirmed == sender->params.self.lane_count)
            continue;
        while (source < sources && !may_end(sender, p, source))
            source++;
        if (source == sources)
            continue;
        p->end_sent[source] = true;
        mr_sender_address(sender, p, MR_MESSAGE_ITEMS, action);
        sender->batch[0] = (mr_cut_item){
            .kind = MR_CUT_END, .identity = {.source = (uint32_t)source}, .reason = sender->lanes[source].reason};
        action->message.items.item = sender->batch;
        action->message.items.count = 1;
        action->message.items.made_by = sender->params.passes ? sender->newest : 0;
        return true;
    }
    return false;
}

/* Once everything is done, all peers get BYE and answer. */
static bool next_bye(mr_sender *sender, mr_action *action) {
    bool done = !sender->closing && mr_sender_is_done(sender);
    for (uint32_t i = 0; done && i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!is_there(p) || p->bye_sent || p->ends_confirmed != sender->params.self.lane_count)
            continue;
        p->bye_sent = true;
        mr_sender_address(sender, p, MR_MESSAGE_BYE, action);
        action->message.bye.text = "done";
        return true;
    }
    return false;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static bool must_beat(const mr_sender *sender, const peer *p) {
    return sender->now_ns - p->sent_ns >= sender->params.self.timing.beat_ns ||
           (p->reported == MR_RUN_UNKNOWN && mr_sender_run_state(sender, p) != MR_RUN_UNKNOWN);
}

/* A peer that has not answered its WELCOME may not have received it. */
static bool next_beat(mr_sender *sender, mr_action *action) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || !p->session || !must_beat(sender, p))
            continue;
        if (p->resumed) {
            mr_sender_address(sender, p, MR_MESSAGE_BEAT, action);
            p->reported = action->message.beat.run_state = mr_sender_run_state(sender, p);
        } else {
            mr_sender_welcome(sender, p, action);
        }
        return true;
    }
    return false;
}

bool mr_sender_next(mr_sender *sender, int64_t now_ns, mr_action *action) {
    sender->now_ns = now_ns;
    *action = (mr_action){.kind = MR_ACTION_NONE};
    mr_sender_look_at_peers(sender, now_ns);
    mr_sender_drop_orphans(sender);
    if (sender->losses_pending)
        mr_sender_queue_loss_reports(sender);
    return next_event(sender, action) || next_outcome(sender, action) || next_items(sender, action) ||
           next_end(sender, action) || next_bye(sender, action) || next_beat(sender, action);
}

int64_t mr_sender_wake_ns(const mr_sender *sender) {
    const mr_session_timing *timing = &sender->params.self.timing;
    int64_t wake = INT64_MAX;
    if (sender->event_count || sender->settled_count)
        return sender->now_ns;
    if (sender->suspect_since_ns && sender->suspect_since_ns + timing->alone_ns > sender->now_ns)
        wake = sender->suspect_since_ns + timing->alone_ns;
    bool done = mr_sender_is_done(sender);
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        const peer *p = &sender->peers[i];
        if (done && p->used && !p->left && patience_ends_ns(sender, p) > sender->now_ns)
            wake = mr_earlier_ns(wake, patience_ends_ns(sender, p));
        if (!p->used || (!p->session && !p->leased))
            continue;
        wake = mr_earlier_ns(wake, p->received_ns + timing->silence_ns);
        if (p->session)
            wake = mr_earlier_ns(wake, p->sent_ns + timing->beat_ns);
        if (p->session && p->leased && timing->stall_ns)
            wake = mr_earlier_ns(wake, p->progress_ns + timing->stall_ns);
        if (p->suspects && p->alone_until_ns > sender->now_ns)
            wake = mr_earlier_ns(wake, p->alone_until_ns);
    }
    return wake;
}

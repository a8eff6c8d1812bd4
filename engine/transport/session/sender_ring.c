/* What becomes of the items of a sender: queued, leased, taken back, settled. */
#include <string.h>

#include "engine/transport/session/sender.h"

void sender_enqueue(mr_sender *sender, const mr_cut_item *item) {
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

void sender_settle(mr_sender *sender, uint64_t position, mr_note outcome, const char *stage, const char *reason) {
    slot *s = slot_at(sender, position);
    if (s->state == SLOT_QUEUED)
        leave_queue(sender, s);
    else
        leave_peer(sender, s);
    s->state = SLOT_SETTLED;
    s->settled = (mr_settled){.first = position, .count = 1, .outcome = outcome, .stage = stage, .reason = reason};
    sender->lanes[s->item.identity.source].unsettled--;
    sender_note_gone(sender, &s->item.identity);
    if (s->item.kind == MR_CUT_FRAME) {
        sender->frames--;
        sender->bytes -= s->item.bytes;
    }
    sender->settled[(sender->settled_first + sender->settled_count++) & (sender->room - 1)] = position;
}

void sender_lease(mr_sender *sender, uint64_t position, peer *p) {
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
    sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, "connection lost");
    sender_owe(sender, item->identity.source);
}

void sender_take_back(mr_sender *sender, uint64_t position) {
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

/* True where that was once too often. One of several that were in hand may be innocent, and goes alone once more; but
 * not without end. The frame is leased: whoever takes it back counts the suspicion anew. */
static bool suspect(mr_sender *sender, slot *s, bool alone) {
    uint32_t limit = sender->params.deaths;
    sender->peers[s->peer].suspects += s->deaths == 0;
    s->deaths++;
    s->blamed |= UINT64_C(1) << s->peer;
    return s->deaths >= (alone ? limit : 2 * limit) && !sender->params.live;
}

void sender_exonerate(mr_sender *sender, const peer *p) {
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

/* Frames are worked on in order, as a rule: of those in hand the first is the most likely cause. */
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
    event *e = sender_event(sender, MR_ACTION_SUSPECT, p->route);
    e->action.item = first->item;
    e->action.item.frame = NULL;
    memcpy(e->name, p->name, sizeof e->name);
}

void sender_bury(mr_sender *sender, peer *p, bool died) {
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
            s->set_aside = true;
            sender->counts.set_aside++;
            sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, "set aside");
        } else {
            sender_take_back(sender, position);
        }
    }
}

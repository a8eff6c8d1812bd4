/* The sender of a cut: what is asked of it from outside, but for messages (sender_peers.c). */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/flow/gone.h"
#include "engine/transport/session/sender.h"
#include "millrace/status.h"

/* Marks need no window, but they need room in the ring; so do settled items behind one that is not. */
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
        p->end_told = mr_calloc(sources, sizeof *p->end_told);
        p->end_confirmed = mr_calloc(sources, sizeof *p->end_confirmed);
        if (!p->lane_leased || !p->end_told || !p->end_confirmed)
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
    if (!made->served || !made->ring || !made->settled || !made->lanes || !made->events || !made->batch || !create_peers(made))
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
        mr_free(gone->peers[i].end_told);
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

/* What peers grant is their word: however much it is together, it is not less than a part of it. */
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
    /* What is dropped at once needs room in the ring only. */
    if (useless ? sender->next - sender->base >= sender->room : !mr_sender_has_room(sender, item->bytes))
        return MR_ERROR_AGAIN;
    sender_enqueue(sender, item);
    l->away = false;
    if (useless) {
        sender_settle(sender, sender->next - 1, MR_NOTE_DROPPED, sender->params.stage, "gop");
        sender_owe(sender, item->identity.source);
    } else if (item->key)
        l->waits_for_key = false;
    return MR_OK;
}

/* Where a live cut has nobody to send it to, it is remembered as what is gone. */
static int offer_mark(mr_sender *sender, const mr_cut_item *mark) {
    lane *l = &sender->lanes[mark->identity.source];
    bool deserted = sender->params.live && !mr_sender_has_peer(sender);
    if (!deserted && sender->next - sender->base >= sender->room)
        return MR_ERROR_AGAIN;
    l->away = mr_identity_is_away(&mark->identity);
    if (deserted)
        mr_sender_miss(sender, &mark->identity);
    else
        sender_enqueue(sender, mark);
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

uint32_t mr_sender_unsettled(const mr_sender *sender) {
    return sender->frames;
}

static size_t witnesses(const mr_sender *sender) {
    size_t count = 0;
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        count += sender->peers[i].used && sender->peers[i].ends_confirmed == sender->params.self.lane_count;
    return count;
}

bool sender_is_done(const mr_sender *sender) {
    return sender->lanes_ended == sender->params.self.lane_count && sender->base == sender->next &&
           witnesses(sender) >= sender->params.receivers;
}

bool mr_sender_waits(const mr_sender *sender) {
    return !sender->closing && !mr_sender_has_peer(sender) && !sender_is_done(sender);
}

static bool is_waited_for(const mr_sender *sender, const peer *p) {
    return p->used && !p->left && sender->now_ns < patience_ends_ns(sender, p);
}

bool mr_sender_finished(const mr_sender *sender) {
    for (uint32_t i = 0; i < sender->params.most_peers; i++)
        if (is_waited_for(sender, &sender->peers[i]))
            return false;
    return sender_is_done(sender);
}

void mr_sender_close(mr_sender *sender, const char *text) {
    sender->closing = true;
    for (uint32_t i = 0; i < sender->params.most_peers; i++) {
        peer *p = &sender->peers[i];
        if (!p->used || !p->session)
            continue;
        event *e = sender_event(sender, MR_ACTION_SEND, p->route);
        sender_address(sender, p, MR_MESSAGE_BYE, &e->action);
        strncpy(e->text, text, sizeof e->text - 1);
        p->session = 0;
    }
}

void mr_sender_abandon(mr_sender *sender, const char *reason) {
    for (uint64_t position = sender->base; position != sender->next; position++)
        if (slot_at(sender, position)->state != SLOT_SETTLED)
            sender_settle(sender, position, MR_NOTE_DROPPED, sender->params.stage, reason);
}

mr_session_counts mr_sender_counts(const mr_sender *sender) {
    return sender->counts;
}

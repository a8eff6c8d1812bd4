#include <string.h>

#include "engine/data/gap.h"
#include "millrace/status.h"
#include "tests/support/transport/cut_world_parts.h"

/* ---- processes ------------------------------------------------------------------------------------------------- */

static const uint8_t digest[MR_DIGEST_BYTES] = {1, 2, 3};

static mr_session_self self_of(const char *name, uint64_t incarnation) {
    mr_session_self self = {.name = name, .incarnation = incarnation, .cut = "a->b", .formats = "pictures",
                            .memory = "", .source_count = SOURCES, .lane_count = SOURCES,
                            .timing = {.hello_ns = 8 * MS, .beat_ns = 6 * MS, .silence_ns = 40 * MS,
                                       .stall_ns = 150 * MS, .report_ns = 3 * MS, .alone_ns = 200 * MS}};
    memcpy(self.digest, digest, sizeof digest);
    return self;
}

void world_start_sender(world *w) {
    const mr_sender_params params = {.self = self_of("a", ++w->sender_incarnation * 1000000), .run = 7, .live = w->live,
                                     .reports_lost = w->reports_lost, .receivers = w->worker_count,
                                     .most_peers = WORKERS + 1, .window_frames = w->window,
                                     .window_bytes = w->window * 100, .batch_frames = BATCH,
                                     .batch_bytes = 250, .deaths = w->deaths,
                                     .refusals = w->unreadable ? 3 : 0, .stage = "b"};
    assert_int_equal(mr_sender_create(&w->sender, &params), MR_OK);
    w->sender_up = true;
    for (int s = 0; s < SOURCES; s++) {
        w->next_offer[s] = 0;
        w->end_offered[s] = w->away_offered[s] = false;
    }
    for (int i = 0; i < SOURCES * FRAMES; i++)
        w->frames[i].offered = false;
}

static const char *const worker_names[WORKERS] = {"w.0", "w.1", "w.2"};

void world_start_worker(world *w, worker *r) {
    const mr_receiver_params params = {
        .self = self_of(worker_names[r - w->workers], ++r->incarnation), .senders = 1, .credit_frames = w->credit,
        .credit_bytes = w->credit * 60 + 40, .memory = 2 * FRAMES * SOURCES};
    assert_int_equal(mr_receiver_create(&r->session, &params), MR_OK);
    r->hands = 0;
    r->seen = 0;
    r->up = true;
    r->hung = false;
    r->paused_until_ns = 0;
    for (int s = 0; s < SOURCES; s++) {
        r->last_seq[s] = r->lost[s] = r->passed[s] = -1;
        r->ended[s] = r->away[s] = false;
    }
    r->route = ++w->routes;
}

void world_kill_worker(world *w, worker *r) {
    w->died++;
    mr_receiver_destroy(&r->session);
    r->up = false;
    r->down_until_ns = w->now_ns + below(w, 60 * MS);
    world_cut_channel(w, &r->to_sender);
    world_cut_channel(w, &r->from_sender);
    if (w->sender_up && chance(w, 50))
        mr_sender_lost(w->sender, r->route, w->now_ns);
}

void world_fail_worker(world *w, worker *r) {
    world_kill_worker(w, r);
    r->failed = true;
    w->failed++;
}

void world_kill_sender(world *w) {
    mr_sender_destroy(&w->sender);
    w->sender_up = false;
    w->sender_died = true;
    w->sender_down_until_ns = w->now_ns + below(w, 60 * MS);
    for (uint32_t i = 0; i < w->worker_count; i++)
        world_reconnect(w, &w->workers[i], chance(w, 50));
}

/* ---- the sender's node ----------------------------------------------------------------------------------------- */

static mr_note outcome_of(int frame) {
    static const mr_note outcome[] = {MR_NOTE_DELIVERED, MR_NOTE_DELIVERED, MR_NOTE_DROPPED, MR_NOTE_ABSORBED};
    return outcome[frame * 7 % 4];
}

static uint64_t bytes_of(int frame) {
    return (uint64_t)(frame * 13 % 40) + 1;
}

static void look_at_settled(world *w, const mr_action *action) {
    int frame = (int)((uintptr_t)action->item.frame - 1);
    truth *t = &w->frames[frame];
    CHECK(w, t->offered && !t->settled);
    CHECK(w, action->item.identity.source * FRAMES + action->item.identity.seq == (uint64_t)frame);
    t->settled = true;
    bool own = action->settled.outcome == MR_NOTE_DROPPED && strcmp(action->settled.stage, "b") == 0;
    if (action->kind == MR_ACTION_SET_ASIDE) {
        CHECK(w, (w->died >= w->deaths || w->unreadable) && !w->live);
        w->result->set_aside++;
        w->result->innocent += !((w->poison | w->unreadable) >> frame & 1);
    } else if (own) {
        CHECK(w, w->live || (w->failed && strcmp(action->settled.reason, "no consumer") == 0));
        w->result->lost++;
    } else {
        CHECK(w, action->settled.outcome == outcome_of(frame) || w->sender_died);
        w->result->delivered += action->settled.outcome == MR_NOTE_DELIVERED;
        w->result->dropped += action->settled.outcome == MR_NOTE_DROPPED;
        w->result->absorbed += action->settled.outcome == MR_NOTE_ABSORBED;
    }
}

static worker *worker_at(world *w, uint32_t route) {
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (w->workers[i].route == route)
            return &w->workers[i];
    return NULL;
}

void world_drive_sender(world *w) {
    mr_action action;
    int guard = 0;
    while (mr_sender_next(w->sender, w->now_ns, &action)) {
        CHECK(w, ++guard < 10000);
        worker *to = action.kind == MR_ACTION_SEND ? worker_at(w, action.peer) : NULL;
        if (to)
            world_post(w, &to->from_sender, &action.message);
        else if (action.kind == MR_ACTION_PEER)
            w->died += action.of.change == MR_PEER_STALLED;
        else if (action.kind == MR_ACTION_SETTLE || action.kind == MR_ACTION_SET_ASIDE)
            look_at_settled(w, &action);
    }
    CHECK(w, mr_sender_unsettled(w->sender) <= w->window);
    CHECK(w, mr_sender_wake_ns(w->sender) > w->now_ns);
}

/* Frames not consumed in time are dropped: by the queue before the cut, which leaves a mark, or because no consumer is
 * connected. */
static void miss(world *w, uint32_t source, int seq) {
    const mr_cut_item gone = {.kind = MR_CUT_GAP, .identity = {.source = source, .seq = (uint64_t)seq}};
    w->frames[source * FRAMES + (uint32_t)seq].settled = true;
    if (chance(w, 50) || mr_sender_offer(w->sender, &gone, w->now_ns))
        mr_sender_miss(w->sender, &gone.identity);
}

/* Whether joins after a live cut have nothing to wait for: they must know for each frame that it has come or will not.
 * If the last mark was a pause, they must know that too. */
static bool all_is_known(const world *w, uint32_t source) {
    bool passed = false, away = !w->away_offered[source];
    for (uint32_t i = 0; i < w->worker_count; i++) {
        const worker *r = &w->workers[i];
        passed |= r->up && r->passed[source] == w->frame_count - 1;
        away |= r->up && (r->away[source] || w->worker_count > 1);
    }
    return passed && away;
}

/* The end would imply all that, so it must not come before it is known. */
static void offer_end(world *w, uint32_t source) {
    const mr_cut_item end = {.kind = MR_CUT_END, .identity = {.source = source}},
                      away = {.kind = MR_CUT_GAP, .identity = mr_identity_away(source)};
    if (w->live && !w->away_offered[source] && w->seed % 2) {
        w->away_offered[source] = mr_sender_offer(w->sender, &away, w->now_ns) == MR_OK;
    } else if (!w->live || all_is_known(w, source)) {
        assert_int_equal(mr_sender_offer(w->sender, &end, w->now_ns), MR_OK);
        w->end_offered[source] = true;
    }
}

void world_offer(world *w) {
    uint32_t source = below(w, SOURCES);
    int *next = &w->next_offer[source];
    while (*next < w->frame_count && w->frames[source * FRAMES + (uint32_t)*next].settled)
        ++*next; /* a restarted source continues after its settled position */
    mr_cut_item item = {.identity = {.source = source, .seq = (uint64_t)*next}};
    int frame = (int)source * FRAMES + *next;
    if (*next < w->frame_count) {
        item.frame = (mr_frame *)(uintptr_t)(frame + 1);
        item.bytes = bytes_of(frame);
        item.packet = source == 1;
        item.key = frame % 4 == 0;
        int status = mr_sender_offer(w->sender, &item, w->now_ns);
        CHECK(w, status == MR_OK || status == MR_ERROR_AGAIN);
        w->frames[frame].offered = w->frames[frame].offered || status == MR_OK;
        *next += status == MR_OK;
        /* A live source cannot wait. */
        if (status && w->live)
            miss(w, source, (*next)++);
    } else if (!w->end_offered[source]) {
        offer_end(w, source);
    }
    if (chance(w, 10) && *next > 0 && *next < w->frame_count) {
        item = (mr_cut_item){.kind = MR_CUT_GAP, .identity = {.source = source, .seq = (uint64_t)*next - 1, .sub = 1}};
        mr_sender_offer(w->sender, &item, w->now_ns);
    }
}

void world_send_garbage(world *w) {
    mr_settled range = {.first = below(w, 40), .count = below(w, 9), .outcome = MR_NOTE_DELIVERED};
    mr_cut_message message = {.kind = (mr_message_kind)(1 + below(w, 7)), .session = draw(w) % 3000000,
                              .number = below(w, 6)};
    if (message.kind == MR_MESSAGE_HELLO) {
        message.hello.name = chance(w, 50) ? "stranger" : "";
        message.hello.cut = chance(w, 50) ? "a->b" : "x";
        message.hello.formats = chance(w, 50) ? "pictures" : "tensors";
        message.hello.memory = "";
        message.hello.newest_version = below(w, 3);
        memcpy(message.hello.digest, digest, sizeof digest);
    } else if (message.kind == MR_MESSAGE_WELCOME) {
        message.welcome.memory = "";
    } else if (message.kind == MR_MESSAGE_REJECT) {
        message.reject.text = "";
    } else if (message.kind == MR_MESSAGE_REPORT) {
        message.report.settled = &range;
        message.report.settled_count = 1;
    } else if (message.kind == MR_MESSAGE_BYE) {
        message.bye.text = "";
    }
    w->garbage_sent = true;
    mr_sender_receive(w->sender, 1000000, &message, w->now_ns);
}

/* ---- a receiver's node ----------------------------------------------------------------------------------------- */

/* Handles a mark for frames that will not come. A frame implies that mark for all earlier ones. */
static void accept_mark(world *w, worker *r, const mr_cut_item *item) {
    uint32_t source = item->identity.source;
    int64_t seq = (int64_t)item->identity.seq;
    bool gone = item->kind == MR_CUT_GAP, away = gone && mr_identity_is_away(&item->identity);
    r->away[source] = away;
    if (item->kind == MR_CUT_END || away || (gone && item->identity.sub == 1))
        return;
    CHECK(w, seq < w->frame_count);
    if (gone && mr_identity_is_lost(&item->identity))
        r->lost[source] = seq;
    if (seq > r->passed[source])
        r->passed[source] = seq;
}

static void accept_items(world *w, worker *r, const mr_cut_message *message) {
    for (size_t i = 0; i < message->items.count; i++) {
        const mr_cut_item *item = &message->items.item[i];
        uint32_t source = item->identity.source;
        if (!item->fresh)
            continue;
        CHECK(w, !r->ended[source]);
        r->ended[source] = item->kind == MR_CUT_END;
        accept_mark(w, r, item);
        if (item->kind != MR_CUT_FRAME)
            continue;
        CHECK(w, w->worker_count > 1 || (int64_t)item->identity.seq > r->lost[source]);
        int frame = (int)((uintptr_t)item->frame - 1);
        CHECK(w, !(r->seen >> frame & 1));
        r->seen |= UINT64_C(1) << frame;
        CHECK(w, w->worker_count > 1 || (int64_t)item->identity.seq > r->last_seq[source]);
        r->last_seq[source] = (int64_t)item->identity.seq;
        CHECK(w, r->hands < FRAMES * SOURCES);
        r->hand[r->hands++] = (task){.ticket = item->ticket, .frame = frame};
    }
    uint32_t untaken = 0;
    for (size_t i = 0; i < r->hands; i++)
        untaken += !r->hand[i].taken;
    CHECK(w, untaken <= w->credit);
    CHECK(w, mr_receiver_held(r->session) == r->hands);
}

static bool is_unreadable(const world *w, const mr_cut_message *message) {
    bool unreadable = false;
    for (size_t i = 0; message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++)
        if (message->items.item[i].kind == MR_CUT_FRAME)
            unreadable |= w->unreadable >> ((uintptr_t)message->items.item[i].frame - 1) & 1;
    return unreadable;
}

void world_hear(world *w, worker *r) {
    message_in *l;
    while (r->up && w->now_ns >= r->paused_until_ns && (l = world_arrive(w, &r->from_sender)) != NULL) {
        if ((w->faulty && w->faults->damage && chance(w, 2)) || is_unreadable(w, &l->message)) {
            mr_receiver_malformed(r->session, 0);
        } else {
            int status = mr_receiver_receive(r->session, 0, &l->message, w->now_ns);
            if (status)
                print_error("%s\n", mr_message());
            CHECK(w, status == MR_OK);
            if (l->message.kind == MR_MESSAGE_ITEMS)
                accept_items(w, r, &l->message);
        }
        world_give_back(w, l);
    }
    while (w->sender_up && (l = world_arrive(w, &r->to_sender)) != NULL) {
        if (w->faulty && w->faults->damage && chance(w, 2)) {
            mr_sender_malformed(w->sender, r->route);
        } else {
            int status = mr_sender_receive(w->sender, r->route, &l->message, w->now_ns);
            if (status)
                print_error("%s\n", mr_message());
            CHECK(w, status == MR_OK);
        }
        world_give_back(w, l);
    }
}

static void finish_task(world *w, worker *r, size_t at) {
    task done = r->hand[at];
    mr_note outcome = outcome_of(done.frame);
    mr_receiver_settle(r->session, done.ticket, outcome, outcome == MR_NOTE_DELIVERED ? NULL : "w",
                       outcome == MR_NOTE_DELIVERED ? NULL : "because", w->now_ns);
    memmove(&r->hand[at], &r->hand[at + 1], (--r->hands - at) * sizeof *r->hand);
}

/* Takes and finishes frames at random. A batch is finished when it is full, or nothing more can come. Poison kills. */
static void work(world *w, worker *r) {
    bool all_ended = true, waits = w->faults->batches && r->hands < 3;
    for (int s = 0; s < SOURCES; s++)
        all_ended = all_ended && r->ended[s];
    if (waits && !all_ended && !chance(w, 5))
        return;
    for (size_t i = r->hands; i-- > 0;) {
        if (!r->hand[i].taken && chance(w, 60)) {
            r->hand[i].taken = true;
            mr_receiver_take(r->session, r->hand[i].ticket);
        } else if (r->hand[i].taken && w->poison >> r->hand[i].frame & 1) {
            if (chance(w, 50)) {
                world_kill_worker(w, r);
                return;
            }
            r->hung = true;
        } else if (r->hand[i].taken && !r->hung && chance(w, 40)) {
            finish_task(w, r, i);
        }
    }
}

/* The last messages may or may not still arrive. */
static void leave(worker *r) {
    r->gone = true;
    r->up = false;
    mr_receiver_destroy(&r->session);
}

void world_drive_worker(world *w, worker *r) {
    if (!r->up || w->now_ns < r->paused_until_ns)
        return;
    if (!r->hung) {
        mr_receiver_progress(r->session, ++r->turns);
        work(w, r);
    }
    mr_action action;
    int guard = 0;
    while (r->up && mr_receiver_next(r->session, w->now_ns, &action)) {
        CHECK(w, ++guard < 1000);
        CHECK(w, action.kind != MR_ACTION_NEW_RUN);
        if (action.kind == MR_ACTION_SEND)
            world_post(w, &r->to_sender, &action.message);
        else if (action.kind == MR_ACTION_RENEW)
            world_reconnect(w, r, false);
    }
    CHECK(w, !r->up || mr_receiver_wake_ns(r->session) > w->now_ns);
    if (r->up && !r->hands && !w->faults->senders_die && mr_receiver_finished(r->session))
        leave(r);
}

#include "tests/support/cut_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/transport/session.h"
#include "millrace/status.h"

enum { SOURCES = 2, FRAMES = 24, WORKERS = 3, QUEUE = 192, BATCH = 4, ITEMS = 8, RANGES = 300, STEPS_TO_HEAL = 6000 };
enum { MS = 1000000 };

/* Messages as they lie in the network. */
typedef struct letter {
    mr_cut_message message;
    mr_cut_item item[ITEMS];
    mr_settled settled[RANGES];
    uint32_t ended[SOURCES];
    int64_t due_ns;
} letter;

typedef struct channel {
    letter *queue[QUEUE];
    size_t count;
    bool wedged; /* nothing comes out any more */
} channel;

typedef struct task {
    uint64_t ticket;
    int frame;
    bool taken;
    int64_t done_ns;
} task;

typedef struct worker {
    mr_receiver *session;
    uint64_t incarnation;
    uint32_t route;
    uint64_t turns;
    channel to_sender, from_sender;
    task hand[FRAMES * SOURCES];
    size_t hands;
    uint64_t seen;              /* bit: the frame was given to this process's graph */
    int64_t last_seq[SOURCES];
    bool ended[SOURCES];
    bool up, hung;
    bool gone; /* for good: it has ended, and the sender needs nothing more of it */
    int64_t paused_until_ns, down_until_ns;
} worker;

typedef struct truth {
    bool offered, settled;
} truth;

typedef struct world {
    uint64_t seed, random;
    const world_faults *faults;
    world_result *result;
    bool live, faulty;
    int64_t now_ns;
    mr_sender *sender;
    uint64_t sender_incarnation;
    bool sender_up;
    int64_t sender_down_until_ns;
    worker workers[WORKERS];
    uint32_t worker_count, window, credit, deaths;
    uint32_t died; /* or stalled, or fell silent: processes of receivers, so far */
    truth frames[SOURCES * FRAMES];
    int next_offer[SOURCES];
    bool end_offered[SOURCES];
    int frame_count;
    uint64_t poison; /* bit: that frame kills */
    bool sender_died, garbage_sent;
    uint32_t routes;
    letter *spare[QUEUE * WORKERS * 2];
    size_t spares;
} world;

#define CHECK(w, condition)                                                                                            \
    do                                                                                                                 \
        if (!(condition))                                                                                              \
            fail_msg("seed %llu%s: %s:%d: not so: %s", (unsigned long long)(w)->seed, (w)->live ? " (live)" : "",      \
                     __FILE__, __LINE__, #condition);                                                                  \
    while (0)

static uint64_t draw(world *w) {
    /* xorshift64* (Vigna 2016). */
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return w->random * UINT64_C(0x2545f4914f6cdd1d);
}

static uint32_t below(world *w, uint32_t limit) {
    return (uint32_t)((draw(w) >> 32) * limit >> 32);
}

static bool chance(world *w, uint32_t percent) {
    return below(w, 100) < percent;
}

/* ---- the network ----------------------------------------------------------------------------------------------- */

static letter *take_letter(world *w) {
    letter *made = w->spares ? w->spare[--w->spares] : malloc(sizeof *made);
    assert_non_null(made);
    return made;
}

static void give_back(world *w, letter *gone) {
    w->spare[w->spares++] = gone;
}

static void cut_channel(world *w, channel *c) {
    c->wedged = false;
    while (c->count)
        give_back(w, c->queue[--c->count]);
}

static void put_letter(world *w, channel *c, const mr_cut_message *message, int64_t due_ns) {
    if (c->count == QUEUE)
        return; /* lost */
    letter *made = take_letter(w);
    made->message = *message;
    mr_cut_message *m = &made->message;
    if (m->kind == MR_MESSAGE_ITEMS) {
        CHECK(w, m->items.count <= ITEMS);
        memcpy(made->item, message->items.item, m->items.count * sizeof *made->item);
        m->items.item = made->item;
    } else if (m->kind == MR_MESSAGE_REPORT) {
        CHECK(w, m->report.settled_count <= RANGES && m->report.ended_count <= SOURCES);
        memcpy(made->settled, message->report.settled, m->report.settled_count * sizeof *made->settled);
        memcpy(made->ended, message->report.ended, m->report.ended_count * sizeof *made->ended);
        m->report.settled = made->settled;
        m->report.ended = made->ended;
    } else if (m->kind == MR_MESSAGE_REJECT) {
        m->reject.text = "";
    } else if (m->kind == MR_MESSAGE_BYE) {
        m->bye.text = "";
    }
    made->due_ns = due_ns;
    c->queue[c->count++] = made;
}

/* In order: nothing arrives before what was sent before it. */
static void post(world *w, channel *c, const mr_cut_message *message) {
    if (c->wedged || (w->faulty && w->faults->loss && chance(w, 3)))
        return;
    int64_t due_ns = w->now_ns + below(w, 3 * MS), last_ns = c->count ? c->queue[c->count - 1]->due_ns : 0;
    if (w->faulty && chance(w, 2))
        due_ns += below(w, 40 * MS);
    due_ns = due_ns > last_ns ? due_ns : last_ns;
    put_letter(w, c, message, due_ns);
    if (w->faulty && w->faults->duplicates && chance(w, 3))
        put_letter(w, c, message, due_ns);
}

static letter *arrive(world *w, channel *c) {
    if (!c->count || c->queue[0]->due_ns > w->now_ns)
        return NULL;
    letter *first = c->queue[0];
    memmove(c->queue, c->queue + 1, --c->count * sizeof *c->queue);
    return first;
}

/* A new connection; the transport may or may not have told of the old one. */
static void reconnect(world *w, worker *r, bool told) {
    cut_channel(w, &r->to_sender);
    cut_channel(w, &r->from_sender);
    w->died += told; /* who does not come back soon is taken for dead */
    if (told && w->sender_up)
        mr_sender_lost(w->sender, r->route, w->now_ns);
    if (told && r->up)
        mr_receiver_lost(r->session, 0, w->now_ns);
    if (chance(w, 50))
        r->route = ++w->routes;
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

static const uint8_t digest[MR_DIGEST_BYTES] = {1, 2, 3};

static mr_session_self self_of(const char *name, uint64_t incarnation) {
    mr_session_self self = {.name = name, .incarnation = incarnation, .cut = "a->b", .formats = "pictures", .memory = "",
                            .source_count = SOURCES, .lane_count = SOURCES,
                            .timing = {.hello_ns = 8 * MS, .beat_ns = 6 * MS, .silence_ns = 40 * MS,
                                       .stall_ns = 150 * MS, .report_ns = 3 * MS, .alone_ns = 200 * MS}};
    memcpy(self.digest, digest, sizeof digest);
    return self;
}

static void start_sender(world *w) {
    const mr_sender_params params = {.self = self_of("a", ++w->sender_incarnation * 1000000), .run = 7, .live = w->live,
                                     .receivers = w->worker_count, .most_peers = WORKERS + 1,
                                     .window_frames = w->window, .window_bytes = w->window * 100, .batch_frames = BATCH,
                                     .batch_bytes = 250, .deaths = w->deaths, .stage = "b"};
    assert_int_equal(mr_sender_create(&w->sender, &params), MR_OK);
    w->sender_up = true;
    for (int s = 0; s < SOURCES; s++) {
        w->next_offer[s] = 0;
        w->end_offered[s] = false;
    }
    for (int i = 0; i < SOURCES * FRAMES; i++)
        w->frames[i].offered = false;
}

static const char *const worker_names[WORKERS] = {"w0", "w1", "w2"};

static void start_worker(world *w, worker *r) {
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
        r->last_seq[s] = -1;
        r->ended[s] = false;
    }
    r->route = ++w->routes;
}

static void kill_worker(world *w, worker *r) {
    w->died++;
    mr_receiver_destroy(&r->session);
    r->up = false;
    r->down_until_ns = w->now_ns + below(w, 60 * MS);
    cut_channel(w, &r->to_sender);
    cut_channel(w, &r->from_sender);
    if (w->sender_up && chance(w, 50))
        mr_sender_lost(w->sender, r->route, w->now_ns);
}

static void kill_sender(world *w) {
    mr_sender_destroy(&w->sender);
    w->sender_up = false;
    w->sender_died = true;
    w->sender_down_until_ns = w->now_ns + below(w, 60 * MS);
    for (uint32_t i = 0; i < w->worker_count; i++)
        reconnect(w, &w->workers[i], chance(w, 50));
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
        CHECK(w, w->died >= w->deaths && !w->live);
        w->result->set_aside++;
        w->result->innocent += !(w->poison >> frame & 1);
    } else if (own) {
        CHECK(w, w->live);
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

static void drive_sender(world *w) {
    mr_action action;
    int guard = 0;
    while (mr_sender_next(w->sender, w->now_ns, &action)) {
        CHECK(w, ++guard < 10000);
        worker *to = action.kind == MR_ACTION_SEND ? worker_at(w, action.peer) : NULL;
        if (to)
            post(w, &to->from_sender, &action.message);
        else if (action.kind == MR_ACTION_PEER)
            w->died += action.of.change == MR_PEER_STALLED;
        else if (action.kind == MR_ACTION_SETTLE || action.kind == MR_ACTION_SET_ASIDE)
            look_at_settled(w, &action);
    }
    CHECK(w, mr_sender_unsettled(w->sender) <= w->window);
    CHECK(w, mr_sender_wake_ns(w->sender) > w->now_ns);
}

static void offer(world *w) {
    uint32_t source = below(w, SOURCES);
    int *next = &w->next_offer[source];
    while (*next < w->frame_count && w->frames[source * FRAMES + (uint32_t)*next].settled)
        ++*next; /* a source that was restarted goes on behind what it knows to be done */
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
        /* A live source does not wait. */
        if (status && w->live) {
            w->frames[frame].settled = true;
            ++*next;
        }
    } else if (!w->end_offered[source]) {
        item.kind = MR_CUT_END;
        assert_int_equal(mr_sender_offer(w->sender, &item, w->now_ns), MR_OK);
        w->end_offered[source] = true;
    }
    if (chance(w, 10) && *next < w->frame_count && !w->end_offered[source]) {
        item = (mr_cut_item){.kind = MR_CUT_GONE, .identity = {.source = source, .seq = (uint64_t)*next, .sub = 1}};
        mr_sender_offer(w->sender, &item, w->now_ns);
    }
}

/* What no receiver would say. */
static void send_garbage_to_sender(world *w) {
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

static void accept_items(world *w, worker *r, const mr_cut_message *message) {
    for (size_t i = 0; i < message->items.count; i++) {
        const mr_cut_item *item = &message->items.item[i];
        uint32_t source = item->identity.source;
        if (!item->fresh)
            continue;
        CHECK(w, !r->ended[source]);
        r->ended[source] = item->kind == MR_CUT_END;
        if (item->kind != MR_CUT_FRAME)
            continue;
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

static void hear(world *w, worker *r) {
    letter *l;
    while (r->up && w->now_ns >= r->paused_until_ns && (l = arrive(w, &r->from_sender)) != NULL) {
        if (w->faulty && w->faults->damage && chance(w, 2)) {
            mr_receiver_malformed(r->session, 0);
        } else {
            int status = mr_receiver_receive(r->session, 0, &l->message, w->now_ns);
            if (status)
                print_error("%s\n", mr_message());
            CHECK(w, status == MR_OK);
            if (l->message.kind == MR_MESSAGE_ITEMS)
                accept_items(w, r, &l->message);
        }
        give_back(w, l);
    }
    while (w->sender_up && (l = arrive(w, &r->to_sender)) != NULL) {
        if (w->faulty && w->faults->damage && chance(w, 2)) {
            mr_sender_malformed(w->sender, r->route);
        } else {
            int status = mr_sender_receive(w->sender, r->route, &l->message, w->now_ns);
            if (status)
                print_error("%s\n", mr_message());
            CHECK(w, status == MR_OK);
        }
        give_back(w, l);
    }
}

static void finish_task(world *w, worker *r, size_t at) {
    task done = r->hand[at];
    mr_note outcome = outcome_of(done.frame);
    mr_receiver_settle(r->session, done.ticket, outcome, outcome == MR_NOTE_DELIVERED ? NULL : "w",
                       outcome == MR_NOTE_DELIVERED ? NULL : "because", w->now_ns);
    memmove(&r->hand[at], &r->hand[at + 1], (--r->hands - at) * sizeof *r->hand);
}

/* Takes and finishes frames at random; a batch is finished when it is full, or nothing more can come. Poison
 * kills. */
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
                kill_worker(w, r);
                return;
            }
            r->hung = true;
        } else if (r->hand[i].taken && !r->hung && chance(w, 40)) {
            finish_task(w, r, i);
        }
    }
}

/* What it has said last may still arrive, or not. */
static void leave(worker *r) {
    r->gone = true;
    r->up = false;
    mr_receiver_destroy(&r->session);
}

static void drive_worker(world *w, worker *r) {
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
            post(w, &r->to_sender, &action.message);
        else if (action.kind == MR_ACTION_RENEW)
            reconnect(w, r, false);
    }
    CHECK(w, !r->up || mr_receiver_wake_ns(r->session) > w->now_ns);
    if (r->up && !r->hands && !w->faults->senders_die && mr_receiver_finished(r->session))
        leave(r);
}

/* ---- faults ---------------------------------------------------------------------------------------------------- */

static void hang_over(world *w, worker *r) {
    /* Whoever hangs is stopped by its own watchdog some time later. */
    if (r->up && r->hung && chance(w, 1))
        kill_worker(w, r);
}

static void cause_faults(world *w) {
    const world_faults *faults = w->faults;
    worker *r = &w->workers[below(w, w->worker_count)];
    if (faults->closing && chance(w, 2))
        reconnect(w, r, chance(w, 60));
    if (faults->wedges && chance(w, 1))
        (chance(w, 50) ? &r->to_sender : &r->from_sender)->wedged = true;
    if (faults->receivers_die && r->up && chance(w, 1))
        kill_worker(w, r);
    if (faults->senders_die && w->sender_up && chance(w, 1))
        kill_sender(w);
    if (faults->pauses && r->up && chance(w, 1)) {
        r->paused_until_ns = w->now_ns + below(w, 100 * MS);
        w->died++; /* it may be taken for dead */
    }
    if (faults->garbage && w->sender_up && chance(w, 5))
        send_garbage_to_sender(w);
}

static void revive(world *w) {
    if (!w->sender_up && w->now_ns >= w->sender_down_until_ns)
        start_sender(w);
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (!w->workers[i].up && !w->workers[i].gone && w->now_ns >= w->workers[i].down_until_ns)
            start_worker(w, &w->workers[i]);
}

static void step(world *w) {
    w->now_ns += 1 + below(w, 2 * MS);
    if (w->faulty)
        cause_faults(w);
    revive(w);
    for (uint32_t i = 0; i < w->worker_count; i++) {
        hang_over(w, &w->workers[i]);
        hear(w, &w->workers[i]);
        drive_worker(w, &w->workers[i]);
    }
    if (!w->sender_up)
        return;
    for (uint32_t i = below(w, 4); i > 0; i--)
        offer(w);
    drive_sender(w);
}

static bool all_done(world *w) {
    for (int s = 0; s < SOURCES; s++)
        if (w->next_offer[s] < w->frame_count || !w->end_offered[s])
            return false;
    if (!w->sender_up || !mr_sender_finished(w->sender))
        return false;
    for (uint32_t i = 0; i < w->worker_count; i++)
        for (int s = 0; s < SOURCES; s++)
            if (!w->workers[i].gone && (!w->workers[i].up || !w->workers[i].ended[s]))
                return false;
    return true;
}

static void check_end(world *w) {
    CHECK(w, mr_sender_unsettled(w->sender) == 0);
    for (int s = 0; s < SOURCES; s++)
        for (int i = 0; i < w->frame_count; i++)
            CHECK(w, w->frames[s * FRAMES + i].settled);
    mr_session_counts counts = mr_sender_counts(w->sender);
    w->result->resent += counts.again;
    w->result->sessions += counts.sessions;
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (w->workers[i].up)
            w->result->duplicates += mr_receiver_counts(w->workers[i].session).again;
}

void world_run(uint64_t seed, bool live, const world_faults *faults, world_result *result) {
    static world w;
    letter *spare[QUEUE];
    size_t spares = w.spares < QUEUE ? w.spares : QUEUE;
    memcpy(spare, w.spare, spares * sizeof *spare);
    for (size_t i = spares; i < w.spares; i++)
        free(w.spare[i]);
    w = (world){.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .faults = faults, .result = result,
                .live = live, .spares = spares, .now_ns = MS};
    memcpy(w.spare, spare, spares * sizeof *spare);
    for (int i = 0; i < 4; i++)
        draw(&w);
    w.worker_count = 1 + below(&w, WORKERS);
    w.window = 1 + below(&w, 12);
    w.credit = 1 + below(&w, 6);
    w.deaths = 2;
    w.frame_count = 1 + (int)below(&w, FRAMES);
    if (faults->poison)
        w.poison = UINT64_C(1) << below(&w, SOURCES * FRAMES);
    start_sender(&w);
    for (uint32_t i = 0; i < w.worker_count; i++)
        start_worker(&w, &w.workers[i]);
    w.faulty = true;
    for (uint32_t i = 40 + below(&w, 120); i > 0; i--)
        step(&w);
    w.faulty = false;
    int steps = 0;
    while (!all_done(&w)) {
        CHECK(&w, ++steps < STEPS_TO_HEAL);
        step(&w);
    }
    check_end(&w);
    mr_sender_destroy(&w.sender);
    for (uint32_t i = 0; i < w.worker_count; i++) {
        mr_receiver_destroy(&w.workers[i].session);
        cut_channel(&w, &w.workers[i].to_sender);
        cut_channel(&w, &w.workers[i].from_sender);
    }
}

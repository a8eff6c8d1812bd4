/* Only for cut_world*.c. */
#pragma once

#include "engine/transport/session/receiver.h"
#include "engine/transport/session/sender.h"
#include "tests/support/suite.h"
#include "tests/support/transport/cut_world.h"

enum { SOURCES = 2, FRAMES = 24, WORKERS = 3, QUEUE = 192, BATCH = 4, ITEMS = 8, RANGES = 300, STEPS_TO_HEAL = 6000 };
enum { MS = 1000000 };

/* Messages in the network. */
typedef struct message_in {
    mr_cut_message message;
    mr_cut_item item[ITEMS];
    mr_settled settled[RANGES];
    uint32_t ended[SOURCES];
    int64_t due_ns;
} message_in;

typedef struct channel {
    message_in *queue[QUEUE];
    size_t count;
    bool wedged; /* nothing comes out */
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
    uint64_t seen;              /* bit: this process's graph got the frame */
    int64_t last_seq[SOURCES];
    int64_t lost[SOURCES];      /* by a mark, no frame up to this one will come; -1: no such mark */
    int64_t passed[SOURCES];    /* the last frame for which a later join need not wait; -1: none */
    bool away[SOURCES];         /* the last mark says that the source pauses */
    bool ended[SOURCES];
    bool up, hung;
    bool gone; /* for good: it has ended, and the sender needs nothing more from it */
    bool failed; /* for good, in the middle of its work */
    int64_t paused_until_ns, down_until_ns;
} worker;

typedef struct truth {
    bool offered, settled;
} truth;

typedef struct world {
    uint64_t seed, random;
    const world_faults *faults;
    world_result *result;
    bool live, reports_lost, faulty;
    int64_t now_ns;
    mr_sender *sender;
    uint64_t sender_incarnation;
    bool sender_up;
    int64_t sender_down_until_ns;
    worker workers[WORKERS];
    uint32_t worker_count, window, credit, deaths;
    uint32_t died; /* receiver processes so far that died, stalled or fell silent */
    uint32_t failed; /* workers */
    truth frames[SOURCES * FRAMES];
    int next_offer[SOURCES];
    bool end_offered[SOURCES];
    bool away_offered[SOURCES]; /* before the end, a mark reported a pause */
    int frame_count;
    uint64_t poison; /* bit: this frame kills */
    uint64_t unreadable; /* bit: a message with this frame is malformed */
    bool sender_died, garbage_sent;
    uint32_t routes;
    message_in *spare[QUEUE * WORKERS * 2];
    size_t spares;
} world;

#define CHECK(w, condition)                                                                                            \
    do                                                                                                                 \
        if (!(condition))                                                                                              \
            fail_msg("seed %llu%s: %s:%d: not so: %s", (unsigned long long)(w)->seed, (w)->live ? " (live)" : "",      \
                     __FILE__, __LINE__, #condition);                                                                  \
    while (0)

static inline uint64_t draw(world *w) {
    /* xorshift64* (Vigna 2016). */
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return w->random * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint32_t below(world *w, uint32_t limit) {
    return (uint32_t)((draw(w) >> 32) * limit >> 32);
}

static inline bool chance(world *w, uint32_t percent) {
    return below(w, 100) < percent;
}

/* cut_world_net.c: messages arrive in order, late, or never. */
void world_post(world *w, channel *c, const mr_cut_message *message);
/* The next message due, which the caller must release; NULL: none. */
message_in *world_arrive(world *w, channel *c);
void world_give_back(world *w, message_in *gone);
void world_cut_channel(world *w, channel *c);
/* Makes a new connection; `reported`: the transport reported the old one's end. */
void world_reconnect(world *w, worker *r, bool reported);

/* cut_world_nodes.c: processes, and each one's turn. */
void world_start_sender(world *w);
void world_kill_sender(world *w);
void world_start_worker(world *w, worker *r);
void world_kill_worker(world *w, worker *r);
void world_fail_worker(world *w, worker *r);
/* Offers the source's next frame, mark or end; sends messages that no receiver would send. */
void world_offer(world *w);
void world_send_garbage(world *w);
void world_drive_sender(world *w);
/* Handles messages that have arrived at either end of the worker's connection. */
void world_hear(world *w, worker *r);
void world_drive_worker(world *w, worker *r);

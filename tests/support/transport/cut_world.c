#include <stdlib.h>
#include <string.h>

#include "tests/support/transport/cut_world_parts.h"

/* ---- faults ---------------------------------------------------------------------------------------------------- */

static void hang_over(world *w, worker *r) {
    /* A watchdog stops a hung process some time later. */
    if (r->up && r->hung && chance(w, 1))
        world_kill_worker(w, r);
}

static void cause_faults(world *w) {
    const world_faults *faults = w->faults;
    worker *r = &w->workers[below(w, w->worker_count)];
    if (faults->closing && chance(w, 2))
        world_reconnect(w, r, chance(w, 60));
    if (faults->wedges && chance(w, 1))
        (chance(w, 50) ? &r->to_sender : &r->from_sender)->wedged = true;
    if (faults->receivers_die && r->up && chance(w, 1))
        world_kill_worker(w, r);
    if (faults->failures && r->up && w->failed + 1 < w->worker_count && chance(w, 2))
        world_fail_worker(w, r);
    if (faults->senders_die && w->sender_up && chance(w, 1))
        world_kill_sender(w);
    if (faults->pauses && r->up && chance(w, 1)) {
        r->paused_until_ns = w->now_ns + below(w, 100 * MS);
        w->died++; /* it may be considered dead */
    }
    if (faults->garbage && w->sender_up && chance(w, 5))
        world_send_garbage(w);
}

static void revive(world *w) {
    if (!w->sender_up && w->now_ns >= w->sender_down_until_ns)
        world_start_sender(w);
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (!w->workers[i].up && !w->workers[i].gone && !w->workers[i].failed &&
            w->now_ns >= w->workers[i].down_until_ns)
            world_start_worker(w, &w->workers[i]);
}

static void step(world *w) {
    w->now_ns += 1 + below(w, 2 * MS);
    if (w->faulty)
        cause_faults(w);
    revive(w);
    for (uint32_t i = 0; i < w->worker_count; i++) {
        hang_over(w, &w->workers[i]);
        world_hear(w, &w->workers[i]);
        world_drive_worker(w, &w->workers[i]);
    }
    if (!w->sender_up)
        return;
    for (uint32_t i = 0; i < w->worker_count; i++)
        if (w->workers[i].failed)
            mr_sender_give_up(w->sender, i, w->now_ns);
    for (uint32_t i = below(w, 4); i > 0; i--)
        world_offer(w);
    world_drive_sender(w);
}

static bool all_done(world *w) {
    for (int s = 0; s < SOURCES; s++)
        if (w->next_offer[s] < w->frame_count || !w->end_offered[s])
            return false;
    if (!w->sender_up || !mr_sender_finished(w->sender))
        return false;
    for (uint32_t i = 0; i < w->worker_count; i++)
        for (int s = 0; s < SOURCES; s++)
            if (!w->workers[i].gone && !w->workers[i].failed && (!w->workers[i].up || !w->workers[i].ended[s]))
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
    message_in *spare[QUEUE];
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
    w.reports_lost = live || w.seed % 2;
    w.frame_count = 1 + (int)below(&w, FRAMES);
    if (faults->poison)
        w.poison = UINT64_C(1) << below(&w, SOURCES * FRAMES);
    if (faults->refusals)
        w.unreadable = UINT64_C(1) << below(&w, SOURCES * FRAMES) | UINT64_C(1) << below(&w, SOURCES * FRAMES);
    world_start_sender(&w);
    for (uint32_t i = 0; i < w.worker_count; i++)
        world_start_worker(&w, &w.workers[i]);
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
        world_cut_channel(&w, &w.workers[i].to_sender);
        world_cut_channel(&w, &w.workers[i].from_sender);
    }
}

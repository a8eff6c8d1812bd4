#include <stdlib.h>
#include <string.h>

#include "tests/support/transport/cut_world_parts.h"

static message_in *take_message(world *w) {
    message_in *made = w->spares ? w->spare[--w->spares] : malloc(sizeof *made);
    assert_non_null(made);
    return made;
}

void world_give_back(world *w, message_in *gone) {
    w->spare[w->spares++] = gone;
}

void world_cut_channel(world *w, channel *c) {
    c->wedged = false;
    while (c->count)
        world_give_back(w, c->queue[--c->count]);
}

static void put_ring_message(world *w, channel *c, const mr_cut_message *message, int64_t due_ns) {
    if (c->count == QUEUE)
        return; /* lost */
    message_in *made = take_message(w);
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

/* In order: no message may overtake an earlier one. */
void world_post(world *w, channel *c, const mr_cut_message *message) {
    if (c->wedged || (w->faulty && w->faults->loss && chance(w, 3)))
        return;
    int64_t due_ns = w->now_ns + below(w, 3 * MS), last_ns = c->count ? c->queue[c->count - 1]->due_ns : 0;
    if (w->faulty && chance(w, 2))
        due_ns += below(w, 40 * MS);
    due_ns = due_ns > last_ns ? due_ns : last_ns;
    put_ring_message(w, c, message, due_ns);
    if (w->faulty && w->faults->duplicates && chance(w, 3))
        put_ring_message(w, c, message, due_ns);
}

message_in *world_arrive(world *w, channel *c) {
    if (!c->count || c->queue[0]->due_ns > w->now_ns)
        return NULL;
    message_in *first = c->queue[0];
    memmove(c->queue, c->queue + 1, --c->count * sizeof *c->queue);
    return first;
}

void world_reconnect(world *w, worker *r, bool reported) {
    world_cut_channel(w, &r->to_sender);
    world_cut_channel(w, &r->from_sender);
    w->died += reported; /* a peer that does not return soon is considered dead */
    if (reported && w->sender_up)
        mr_sender_lost(w->sender, r->route, w->now_ns);
    if (reported && r->up)
        mr_receiver_lost(r->session, 0, w->now_ns);
    if (chance(w, 50))
        r->route = ++w->routes;
}

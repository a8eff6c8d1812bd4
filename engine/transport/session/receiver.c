/* The receiver of a cut: what is asked of it from outside, but for messages and actions. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/transport/session/receiver.h"
#include "millrace/status.h"

/* As good as without a bound, and what is granted over a whole session still fits into 64 bits. */
static const uint64_t MOST_CREDIT_BYTES = UINT64_C(1) << 56;

static bool create_origins(mr_receiver *receiver) {
    receiver->origins = mr_calloc(receiver->params.senders, sizeof *receiver->origins);
    for (uint32_t i = 0; receiver->origins && i < receiver->params.senders; i++) {
        origin *from = &receiver->origins[i];
        from->pending = mr_calloc(receiver->places, sizeof *from->pending);
        from->ended = mr_calloc(receiver->params.self.source_count, sizeof *from->ended);
        from->end_heard = mr_calloc(receiver->params.self.source_count, sizeof *from->end_heard);
        if (!from->pending || !from->ended || !from->end_heard)
            return false;
    }
    return receiver->origins != NULL;
}

int mr_receiver_create(mr_receiver **receiver, const mr_receiver_params *params) {
    mr_receiver *made = mr_calloc(1, sizeof *made);
    if (!made)
        goto fail;
    made->params = *params;
    if (params->credit_bytes > MOST_CREDIT_BYTES)
        made->params.credit_bytes = MOST_CREDIT_BYTES;
    made->places = params->memory * 2; /* half of them for what is held */
    made->buckets = 64;
    while (made->buckets < made->places)
        made->buckets *= 2;
    made->table = mr_calloc(made->places, sizeof *made->table);
    made->claims = mr_calloc((size_t)made->places * params->senders, sizeof *made->claims);
    made->bucket = mr_calloc(made->buckets, sizeof *made->bucket);
    made->ended = mr_calloc(params->self.source_count, sizeof *made->ended);
    made->events = mr_calloc(RECEIVER_EVENTS, sizeof *made->events);
    if (!made->table || !made->claims || !made->bucket || !made->ended || !made->events || !create_origins(made))
        goto fail;
    table_clear(made);
    *receiver = made;
    return MR_OK;
fail:
    mr_receiver_destroy(&made);
    return mr_fail(MR_ERROR_MEMORY, "no memory for the cut %s that remembers %u frames", params->self.cut,
                   params->memory);
}

void mr_receiver_destroy(mr_receiver **receiver) {
    mr_receiver *gone = *receiver;
    *receiver = NULL;
    if (!gone)
        return;
    for (uint32_t i = 0; gone->origins && i < gone->params.senders; i++) {
        mr_free(gone->origins[i].pending);
        mr_free(gone->origins[i].ended);
        mr_free(gone->origins[i].end_heard);
    }
    mr_free(gone->origins);
    mr_free(gone->table);
    mr_free(gone->claims);
    mr_free(gone->bucket);
    mr_free(gone->ended);
    mr_free(gone->events);
    mr_identity_set_fini(&gone->settled);
    mr_free(gone);
}

/* ---- what the graph did ---------------------------------------------------------------------------------------- */

/* The frame of a ticket; NULL where that is forgotten. */
static entry *entry_of(mr_receiver *receiver, uint64_t ticket) {
    uint32_t place = (uint32_t)ticket;
    if (place >= receiver->places)
        return NULL;
    entry *e = &receiver->table[place];
    return e->state != ENTRY_FREE && e->generation == (uint32_t)(ticket >> 32) ? e : NULL;
}

void mr_receiver_take(mr_receiver *receiver, uint64_t ticket) {
    entry *e = entry_of(receiver, ticket);
    if (!e || e->taken)
        return;
    origin *from = &receiver->origins[e->sender];
    e->taken = true;
    from->untaken_frames--;
    from->untaken_bytes -= e->bytes;
    from->granted_frames++;
    from->granted_bytes += e->bytes;
    if (!from->pending_ns)
        from->pending_ns = receiver->now_ns;
    receiver->work++;
}

bool receiver_report(mr_receiver *receiver, origin *from, const mr_settled *range) {
    mr_settled *last = from->pending_count ? &from->pending[from->pending_count - 1] : NULL;
    if (!from->pending_ns)
        from->pending_ns = receiver->now_ns;
    from->pending_items += range->count;
    if (last && last->first + last->count == range->first && last->outcome == range->outcome &&
        last->stage == range->stage && last->reason == range->reason) {
        last->count += range->count;
        return true;
    }
    if (from->pending_count == receiver->places)
        return false;
    from->pending[from->pending_count++] = *range;
    return true;
}

void mr_receiver_settle(mr_receiver *receiver, uint64_t ticket, mr_note outcome, const char *stage,
                        const char *reason, int64_t now_ns) {
    entry *e = entry_of(receiver, ticket);
    receiver->now_ns = now_ns;
    if (!e || e->state != ENTRY_HELD)
        return;
    mr_receiver_take(receiver, ticket);
    int32_t place = (int32_t)(e - receiver->table);
    table_settle(receiver, place, outcome, stage, reason);
    receiver->work++;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        origin *from = &receiver->origins[i];
        const mr_settled range = {*claim_of(receiver, place, i), 1, outcome, stage, reason};
        /* With no room for more, the session ends, and the next one begins with everything. */
        if (range.first && from->state == SENDER_THERE && !receiver_report(receiver, from, &range))
            receiver_break(receiver, from, MR_PEER_BROKEN, "more was settled than one report can say");
    }
}

void mr_receiver_progress(mr_receiver *receiver, uint64_t progress) {
    receiver->progress = progress;
}

uint32_t mr_receiver_held(const mr_receiver *receiver) {
    return receiver->held;
}

bool mr_receiver_waits(const mr_receiver *receiver, uint32_t *sender) {
    for (*sender = 0; !receiver->closing && !receiver->withdrawn && *sender < receiver->params.senders; ++*sender)
        if (receiver->origins[*sender].state == SENDER_AWAY || receiver->origins[*sender].state == SENDER_REFUSED)
            return true;
    return false;
}

bool mr_receiver_lacks(const mr_receiver *receiver) {
    bool lacks = false;
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        lacks |= receiver->origins[i].state != SENDER_THERE && receiver->origins[i].state != SENDER_LEFT;
    return lacks;
}

mr_run_state mr_receiver_run_state(const mr_receiver *receiver, bool *absent) {
    bool known = true, any = false;
    *absent = true;
    for (uint32_t i = 0; i < receiver->params.senders; i++) {
        const origin *from = &receiver->origins[i];
        if (from->run_state == MR_RUN_GOES_ON)
            return MR_RUN_GOES_ON;
        known &= from->run_state == MR_RUN_BEGINS;
        any |= from->run_state == MR_RUN_BEGINS;
        *absent &= from->run_state == MR_RUN_BEGINS || !from->incarnation;
    }
    *absent &= any;
    return known ? MR_RUN_BEGINS : MR_RUN_UNKNOWN;
}

bool mr_receiver_forgets(const mr_receiver *receiver) {
    return receiver->forgets;
}

bool mr_receiver_finished(const mr_receiver *receiver) {
    for (uint32_t i = 0; i < receiver->params.senders; i++)
        if (receiver->origins[i].state != SENDER_LEFT)
            return false;
    return true;
}

void mr_receiver_withdraw(mr_receiver *receiver) {
    for (uint32_t i = 0; !receiver->withdrawn && i < receiver->params.senders; i++)
        receiver->origins[i].urgent = true;
    receiver->withdrawn = true;
}

void mr_receiver_close(mr_receiver *receiver, const char *text) {
    receiver->closing = true;
    strncpy(receiver->closing_text, text, sizeof receiver->closing_text - 1);
}

mr_session_counts mr_receiver_counts(const mr_receiver *receiver) {
    return receiver->counts;
}

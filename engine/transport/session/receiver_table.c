/* What a receiver remembers of the frames and marks that came. */
#include <string.h>

#include "engine/transport/session/receiver.h"
#include "millrace/status.h"

static uint64_t mix(uint64_t value) {
    /* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* So many frames that follow each other have buckets that do, and so in memory that is at hand. */
enum { NEIGHBOURS = 64 };

static int32_t *bucket_of(mr_receiver *receiver, const mr_identity *identity) {
    uint64_t hash = mix(identity->seq / NEIGHBOURS ^ (uint64_t)identity->source << 40 ^ (uint64_t)identity->sub << 52) ^
                    mix(identity->epoch + UINT64_C(0x9e3779b97f4a7c15));
    return &receiver->bucket[(hash + identity->seq % NEIGHBOURS) & (receiver->buckets - 1)];
}

int32_t table_find(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender) {
    int32_t other = NOWHERE;
    for (int32_t at = *bucket_of(receiver, &item->identity); at != NOWHERE; at = receiver->table[at].next) {
        const entry *e = &receiver->table[at];
        uint64_t claim = *claim_of(receiver, at, sender);
        if (e->kind != item->kind || mr_identity_compare(&e->identity, &item->identity) != 0)
            continue;
        if (claim == item->position)
            return at;
        if (!claim)
            other = at;
    }
    return other;
}

static void leave_bucket(mr_receiver *receiver, int32_t place) {
    int32_t *link = bucket_of(receiver, &receiver->table[place].identity);
    while (*link != place)
        link = &receiver->table[*link].next;
    *link = receiver->table[place].next;
}

static void forget(mr_receiver *receiver, int32_t place) {
    entry *e = &receiver->table[place];
    leave_bucket(receiver, place);
    memset(claim_of(receiver, place, 0), 0, receiver->params.senders * sizeof *receiver->claims);
    e->state = ENTRY_FREE;
    e->generation++;
    e->next = receiver->free;
    receiver->free = place;
}

static void forget_oldest(mr_receiver *receiver) {
    int32_t place = receiver->oldest;
    if (place == NOWHERE)
        return;
    const entry *e = &receiver->table[place];
    receiver->oldest = e->later;
    if (receiver->oldest == NOWHERE)
        receiver->newest = NOWHERE;
    if (receiver->params.remembers_all && e->kind == MR_CUT_FRAME)
        receiver->forgets |= mr_identity_set_add(&receiver->settled, &e->identity) != MR_OK;
    forget(receiver, place);
}

int32_t table_add(mr_receiver *receiver, const mr_cut_item *item, uint32_t sender) {
    if (receiver->free == NOWHERE)
        forget_oldest(receiver);
    int32_t place = receiver->free;
    if (place == NOWHERE)
        return NOWHERE;
    entry *e = &receiver->table[place];
    receiver->free = e->next;
    int32_t *bucket = bucket_of(receiver, &item->identity);
    *e = (entry){.state = ENTRY_HELD, .kind = item->kind, .identity = item->identity, .sender = sender,
                 .bytes = item->bytes, .generation = e->generation, .next = *bucket, .later = NOWHERE};
    *bucket = place;
    *claim_of(receiver, place, sender) = item->position;
    receiver->held += item->kind == MR_CUT_FRAME;
    return place;
}

void table_settle(mr_receiver *receiver, int32_t place, mr_note outcome, const char *stage, const char *reason) {
    entry *e = &receiver->table[place];
    e->state = ENTRY_SETTLED;
    e->outcome = outcome;
    e->stage = stage;
    e->reason = reason;
    e->later = NOWHERE;
    receiver->held -= e->kind == MR_CUT_FRAME;
    if (receiver->newest == NOWHERE)
        receiver->oldest = place;
    else
        receiver->table[receiver->newest].later = place;
    receiver->newest = place;
}

void table_forget_claims(mr_receiver *receiver, uint32_t sender) {
    for (uint32_t i = 0; i < receiver->places; i++)
        *claim_of(receiver, (int32_t)i, sender) = 0;
}

void table_clear(mr_receiver *receiver) {
    receiver->free = receiver->oldest = receiver->newest = NOWHERE;
    receiver->held = 0;
    mr_identity_set_fini(&receiver->settled);
    for (uint32_t i = 0; i < receiver->buckets; i++)
        receiver->bucket[i] = NOWHERE;
    memset(receiver->claims, 0, (size_t)receiver->places * receiver->params.senders * sizeof *receiver->claims);
    for (uint32_t i = receiver->places; i-- > 0;) {
        entry *e = &receiver->table[i];
        e->state = ENTRY_FREE;
        e->generation++;
        e->next = receiver->free;
        receiver->free = (int32_t)i;
    }
}

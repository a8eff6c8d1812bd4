#include "engine/transport/cut_share.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/transport/shm.h"
#include "millrace/status.h"

/* Why frames cross inline, with the message of mr_fail, once for each end of a cut. */
static void tell(const mr_cut *cut, bool *told) {
    if (!*told)
        mr_log(MR_LOG_WARNING, "%s: frames cross as copies: %s", cut->name, mr_message());
    *told = true;
}

/* ---- the giving side ------------------------------------------------------------------------------------------- */

typedef struct lent_to {
    uint32_t route;
    mr_shm_peer *peer; /* NULL: the place is free */
} lent_to;

struct mr_cut_lender {
    const mr_cut *cut;
    bool told, lent; /* for the log */
    mr_shm_export *export;
    char text[MR_SHM_TEXT];
    mr_shm_peer *aim;
    size_t count;
    lent_to peers[];
};

int mr_cut_lender_create(mr_cut_lender **lender, const mr_cut *cut) {
    size_t count = cut->max_peers > 0 ? (size_t)cut->max_peers : 1;
    *lender = NULL;
    if (!cut->shared_memory)
        return MR_OK;
    mr_cut_lender *made = mr_calloc(1, sizeof *made + count * sizeof *made->peers);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", cut->name);
    made->cut = cut;
    made->count = count;
    if (mr_shm_export_create(&made->export, getenv("MILLRACE_RUNTIME"))) {
        tell(cut, &made->told);
        mr_cut_lender_destroy(&made);
        return MR_OK;
    }
    mr_shm_offer offer;
    mr_shm_export_offer(made->export, &offer);
    mr_shm_offer_print(&offer, made->text);
    *lender = made;
    return MR_OK;
}

void mr_cut_lender_destroy(mr_cut_lender **lender) {
    mr_cut_lender *gone = *lender;
    *lender = NULL;
    if (!gone)
        return;
    mr_shm_export_destroy(&gone->export);
    mr_free(gone);
}

const char *mr_cut_lender_text(const mr_cut_lender *lender) {
    return lender ? lender->text : "";
}

int mr_cut_lender_fd(const mr_cut_lender *lender) {
    return lender ? mr_shm_export_fd(lender->export) : -1;
}

void mr_cut_lender_work(mr_cut_lender *lender, bool sleeps) {
    if (lender)
        mr_shm_export_drive(lender->export, sleeps);
}

/* The place of a route, or of nobody. */
static lent_to *place_of(mr_cut_lender *lender, uint32_t route, bool taken) {
    for (size_t i = 0; i < lender->count; i++)
        if (taken ? lender->peers[i].peer && lender->peers[i].route == route : !lender->peers[i].peer)
            return &lender->peers[i];
    return NULL;
}

static void admit(mr_cut_lender *lender, uint32_t route, const char *memory) {
    mr_shm_guest guest;
    lent_to *place = place_of(lender, route, false);
    if (!place || !memory || !*memory)
        return;
    place->route = route;
    if (mr_shm_guest_parse(memory, &guest) || mr_shm_export_invite(lender->export, &guest, &place->peer))
        tell(lender->cut, &lender->told);
}

void mr_cut_lender_note(mr_cut_lender *lender, const mr_action *action) {
    lent_to *place = lender ? place_of(lender, action->peer, true) : NULL;
    if (place) {
        lender->aim = NULL;
        mr_shm_export_drop(lender->export, &place->peer);
    }
    if (lender && action->of.change == MR_PEER_JOINED)
        admit(lender, action->peer, action->of.memory);
}

void mr_cut_lender_aim(mr_cut_lender *lender, uint32_t route) {
    lent_to *place = lender ? place_of(lender, route, true) : NULL;
    if (lender)
        lender->aim = place ? place->peer : NULL;
}

bool mr_cut_lend(void *context, mr_buffer *buffer, size_t offset, size_t bytes, mr_shared_slot *slot) {
    mr_cut_lender *lender = context;
    mr_shm_reference lent;
    if (!lender->aim || bytes < MR_SHM_LEAST_BYTES ||
        mr_shm_export_lend(lender->export, lender->aim, buffer, offset, bytes, &lent))
        return false;
    *slot = (mr_shared_slot){.pool = lent.pool,
                             .slot = lent.slot,
                             .lease = lent.lease,
                             .generation = lent.generation,
                             .offset = lent.offset};
    if (!lender->lent)
        mr_log(MR_LOG_INFO, "%s: frames cross in shared memory", lender->cut->name);
    lender->lent = true;
    return true;
}

/* ---- the taking side ------------------------------------------------------------------------------------------- */

struct mr_cut_borrower {
    const mr_cut *cut;
    bool told;
    mr_shm_guest guest;
    char text[MR_SHM_TEXT];
    uint32_t aim;
    size_t count;
    mr_shm_import *imports[]; /* by route; NULL: nothing comes from there but inline */
};

int mr_cut_borrower_create(mr_cut_borrower **borrower, const mr_cut *cut) {
    *borrower = NULL;
    if (!cut->shared_memory)
        return MR_OK;
    mr_cut_borrower *made = mr_calloc(1, sizeof *made + cut->connect_count * sizeof(mr_shm_import *));
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", cut->name);
    made->cut = cut;
    made->count = cut->connect_count;
    if (mr_shm_guest_make(&made->guest)) {
        tell(cut, &made->told);
        mr_cut_borrower_destroy(&made);
        return MR_OK;
    }
    mr_shm_guest_print(&made->guest, made->text);
    *borrower = made;
    return MR_OK;
}

void mr_cut_borrower_destroy(mr_cut_borrower **borrower) {
    mr_cut_borrower *gone = *borrower;
    *borrower = NULL;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++)
        mr_shm_import_close(&gone->imports[i]);
    mr_free(gone);
}

const char *mr_cut_borrower_text(const mr_cut_borrower *borrower) {
    return borrower ? borrower->text : "";
}

/* What is heard here is of pools that have gone; that a giving side is gone, its session tells. */
void mr_cut_borrower_work(mr_cut_borrower *borrower) {
    uint64_t order;
    size_t bytes;
    for (size_t i = 0; borrower && i < borrower->count; i++)
        if (borrower->imports[i])
            mr_shm_import_fetch(borrower->imports[i], &order, NULL, 0, &bytes);
}

void mr_cut_borrower_note(mr_cut_borrower *borrower, const mr_action *action) {
    if (!borrower || action->peer >= borrower->count)
        return;
    mr_shm_import **import = &borrower->imports[action->peer];
    const char *memory = action->of.memory;
    mr_shm_offer offer;
    mr_shm_import_close(import);
    if (action->of.change != MR_PEER_JOINED || !memory || !*memory)
        return;
    if (mr_shm_offer_parse(memory, &offer) || mr_shm_import_open(import, &offer, &borrower->guest))
        tell(borrower->cut, &borrower->told);
}

void mr_cut_borrower_aim(mr_cut_borrower *borrower, uint32_t route) {
    if (borrower)
        borrower->aim = route;
}

int mr_cut_borrow(void *context, const mr_shared_slot *slot, uint64_t bytes, mr_buffer **buffer) {
    mr_cut_borrower *borrower = context;
    const mr_shm_reference lent = {.pool = slot->pool,
                                   .slot = slot->slot,
                                   .generation = slot->generation,
                                   .lease = slot->lease,
                                   .offset = slot->offset,
                                   .bytes = bytes};
    if (borrower->aim >= borrower->count || !borrower->imports[borrower->aim])
        return mr_fail(MR_ERROR_PROTOCOL, "a payload in shared memory, which is not shared");
    return mr_shm_import_take(borrower->imports[borrower->aim], &lent, buffer);
}

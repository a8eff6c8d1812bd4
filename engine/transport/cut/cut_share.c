#include "engine/transport/cut/cut_share.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/transport/shm/shm.h"
#include "millrace/status.h"

/* Why frames cross inline, with the message of mr_fail, once for each end of a cut. */
static void tell(const mr_cut *cut, bool *told) {
    if (!*told)
        mr_log(MR_LOG_WARNING, "%s: frames cross as copies: %s", cut->name, mr_message());
    *told = true;
}

/* Letters of one other end. */
typedef struct inbox {
    bool over; /* it will say nothing more */
    bool here; /* a letter is here, and not taken */
    mr_letter letter;
    _Alignas(8) uint8_t note[MR_SHM_NOTE_BYTES];
} inbox;

/* Makes a letter of the note that was fetched, where it was. That the other end is gone, its session tells; one that
 * breaks the rules here is not listened to here any more. */
static bool open_note(inbox *box, const mr_cut *cut, int status, size_t bytes) {
    if (!status)
        status = mr_letter_read(box->note, bytes, &box->letter);
    box->here = status == MR_OK;
    box->over = status && status != MR_ERROR_AGAIN;
    if (box->over && status != MR_ERROR_UNAVAILABLE)
        mr_log(MR_LOG_WARNING, "%s: %s", cut->name, mr_message());
    return box->here;
}

/* ---- the giving side --------------------------------------------------------------------------------------------- */

typedef struct lent_to {
    uint64_t session;
    mr_shm_peer *peer; /* NULL: the place is free */
    inbox box;
} lent_to;

struct mr_cut_lender {
    const mr_cut *cut;
    bool told, lent, crowded; /* for the log */
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

/* One whose next letter waits for its turn would keep this end awake, and so would one that is not listened to. */
void mr_cut_lender_work(mr_cut_lender *lender) {
    if (!lender)
        return;
    for (size_t i = 0; i < lender->count; i++) {
        const lent_to *place = &lender->peers[i];
        if (place->peer)
            mr_shm_export_heed(lender->export, place->peer, !place->box.here && !place->box.over);
    }
    mr_shm_export_drive(lender->export, true);
}

bool mr_cut_lender_look(mr_cut_lender *lender, bool last) {
    return lender && mr_shm_export_look(lender->export, last);
}

/* The place of a session, or of none. */
static lent_to *place_of(mr_cut_lender *lender, uint64_t session, bool taken) {
    for (size_t i = 0; i < lender->count; i++)
        if (taken ? lender->peers[i].peer && lender->peers[i].session == session : !lender->peers[i].peer)
            return &lender->peers[i];
    return NULL;
}

static void admit(mr_cut_lender *lender, uint64_t session, const char *memory) {
    mr_shm_guest guest;
    lent_to *place = place_of(lender, session, false);
    if (!place || !memory || !*memory)
        return;
    place->session = session;
    place->box.over = place->box.here = false;
    if (mr_shm_guest_parse(memory, &guest) || mr_shm_export_invite(lender->export, &guest, &place->peer))
        tell(lender->cut, &lender->told);
}

void mr_cut_lender_note(mr_cut_lender *lender, const mr_action *action) {
    lent_to *place = lender ? place_of(lender, action->of.session, true) : NULL;
    if (place) {
        lender->aim = NULL;
        mr_shm_export_drop(lender->export, &place->peer);
    }
    if (lender && action->of.change == MR_PEER_JOINED)
        admit(lender, action->of.session, action->of.memory);
}

void mr_cut_lender_aim(mr_cut_lender *lender, uint64_t session) {
    lent_to *place = lender ? place_of(lender, session, true) : NULL;
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

/* A full ring is no fault: the taker is behind, and ZeroMQ keeps what its credit allows. */
static void tell_crowded(mr_cut_lender *lender) {
    if (!lender->crowded)
        mr_log(MR_LOG_INFO, "%s: the ring beside ZeroMQ is full: messages go through ZeroMQ where it is",
               lender->cut->name);
    lender->crowded = true;
}

bool mr_cut_lender_post(mr_cut_lender *lender, const mr_cut_message *message, const mr_wire_part *parts, size_t count) {
    uint8_t *place;
    size_t bytes, room = lender && lender->aim && message->number
                             ? mr_shm_export_room(lender->export, lender->aim, &place) : 0;
    if (room && !mr_letter_write(place, room, message, parts, count, &bytes)) {
        mr_shm_export_post(lender->export, lender->aim, bytes);
        return true;
    }
    if (lender && lender->aim && room < MR_SHM_NOTE_BYTES && message->number &&
        mr_shm_export_attached(lender->export, lender->aim))
        tell_crowded(lender);
    return false;
}

size_t mr_cut_lender_places(const mr_cut_lender *lender) {
    return lender ? lender->count : 0;
}

/* Others' sessions are none of a taker's business. */
static bool fetch_from(const mr_cut_lender *lender, lent_to *place) {
    inbox *box = &place->box;
    size_t bytes = 0;
    int status = mr_shm_export_fetch(lender->export, place->peer, box->note, sizeof box->note, &bytes);
    if (!open_note(box, lender->cut, status, bytes) || box->letter.session == place->session)
        return box->here;
    mr_log(MR_LOG_WARNING, "%s: shared memory: a peer sends a note of another session", lender->cut->name);
    box->over = true;
    box->here = false;
    return false;
}

bool mr_cut_lender_next(mr_cut_lender *lender, size_t at, const mr_letter **letter) {
    lent_to *place = &lender->peers[at];
    if (!place->peer || (!place->box.here && (place->box.over || !fetch_from(lender, place))))
        return false;
    *letter = &place->box.letter;
    return true;
}

void mr_cut_lender_take(mr_cut_lender *lender, size_t place) {
    lender->peers[place].box.here = false;
}

/* ---- the taking side --------------------------------------------------------------------------------------------- */

/* What one giving side shares. */
typedef struct lender_seen {
    mr_shm_import *import; /* NULL: nothing comes from there but through ZeroMQ */
    inbox box;
} lender_seen;

struct mr_cut_borrower {
    const mr_cut *cut;
    bool told;
    int bell;
    mr_shm_guest guest;
    char text[MR_SHM_TEXT];
    uint32_t aim;
    size_t count;
    pthread_mutex_t looks; /* held to look, and to change which imports there are */
    lender_seen lenders[]; /* by route */
};

int mr_cut_borrower_create(mr_cut_borrower **borrower, const mr_cut *cut) {
    *borrower = NULL;
    if (!cut->shared_memory)
        return MR_OK;
    mr_cut_borrower *made = mr_calloc(1, sizeof *made + cut->connect_count * sizeof *made->lenders);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", cut->name);
    made->cut = cut;
    made->count = cut->connect_count;
    mr_lock_init(&made->looks);
    if (mr_shm_bell(&made->bell) || mr_shm_guest_make(&made->guest)) {
        tell(cut, &made->told);
        mr_cut_borrower_destroy(&made);
        return MR_OK;
    }
    mr_shm_guest_print(&made->guest, made->text);
    *borrower = made;
    return MR_OK;
}

static void close_lender(mr_cut_borrower *borrower, lender_seen *from) {
    pthread_mutex_lock(&borrower->looks);
    mr_shm_import_close(&from->import);
    pthread_mutex_unlock(&borrower->looks);
    from->box.over = from->box.here = false;
}

static int open_lender(mr_cut_borrower *borrower, lender_seen *from, const mr_shm_offer *offer) {
    mr_shm_import *import;
    int status = mr_shm_import_open(&import, offer, &borrower->guest, borrower->bell);
    pthread_mutex_lock(&borrower->looks);
    from->import = import;
    pthread_mutex_unlock(&borrower->looks);
    return status;
}

void mr_cut_borrower_destroy(mr_cut_borrower **borrower) {
    mr_cut_borrower *gone = *borrower;
    *borrower = NULL;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++)
        close_lender(gone, &gone->lenders[i]);
    if (gone->bell >= 0)
        close(gone->bell);
    pthread_mutex_destroy(&gone->looks);
    mr_free(gone);
}

const char *mr_cut_borrower_text(const mr_cut_borrower *borrower) {
    return borrower ? borrower->text : "";
}

int mr_cut_borrower_fd(const mr_cut_borrower *borrower) {
    return borrower ? borrower->bell : -1;
}

static bool fetch(const mr_cut_borrower *borrower, lender_seen *from) {
    inbox *box = &from->box;
    size_t bytes = 0;
    int status = mr_shm_import_fetch(from->import, box->note, sizeof box->note, &bytes);
    return open_note(box, borrower->cut, status, bytes);
}

bool mr_cut_borrower_next(mr_cut_borrower *borrower, uint32_t route, const mr_letter **letter) {
    lender_seen *from = borrower && route < borrower->count ? &borrower->lenders[route] : NULL;
    if (!from || !from->import || (!from->box.here && (from->box.over || !fetch(borrower, from))))
        return false;
    *letter = &from->box.letter;
    return true;
}

void mr_cut_borrower_take(mr_cut_borrower *borrower, uint32_t route) {
    borrower->lenders[route].box.here = false;
}

/* Where the giver's process was killed, the one that has come in its place is reached through ZeroMQ, and answers that
 * it knows of no such session. There is one report for many frames, so that to ask costs little. */
bool mr_cut_borrower_post(mr_cut_borrower *borrower, uint32_t route, const mr_cut_message *message,
                          const mr_wire_part *parts, size_t count) {
    uint8_t *place;
    mr_shm_import *import = borrower && route < borrower->count ? borrower->lenders[route].import : NULL;
    bool goes = import && message->number && !mr_shm_import_gone(import);
    size_t bytes, room = goes ? mr_shm_import_room(import, &place) : 0;
    if (!room || mr_letter_write(place, room, message, parts, count, &bytes))
        return false;
    mr_shm_import_post(import, bytes);
    return true;
}

/* One whose next letter waits for its turn would keep this end awake, and so would one that is not listened to. */
bool mr_cut_borrower_rest(mr_cut_borrower *borrower) {
    bool quiet = true;
    for (size_t i = 0; borrower && i < borrower->count; i++) {
        lender_seen *from = &borrower->lenders[i];
        if (from->import && !from->box.over && !from->box.here)
            quiet = mr_shm_import_rest(from->import) && quiet;
    }
    return quiet;
}

void mr_cut_borrower_hush(mr_cut_borrower *borrower) {
    uint64_t rings;
    ssize_t got = borrower ? read(borrower->bell, &rings, sizeof rings) : 0;
    (void)got; /* It may not have rung. */
}

bool mr_cut_borrower_look(mr_cut_borrower *borrower, bool last) {
    bool found = false;
    if (!borrower)
        return false;
    pthread_mutex_lock(&borrower->looks);
    for (size_t i = 0; i < borrower->count; i++)
        if (borrower->lenders[i].import)
            found = mr_shm_import_look(borrower->lenders[i].import, last) || found;
    pthread_mutex_unlock(&borrower->looks);
    return found;
}

void mr_cut_borrower_note(mr_cut_borrower *borrower, const mr_action *action) {
    if (!borrower || action->peer >= borrower->count)
        return;
    lender_seen *from = &borrower->lenders[action->peer];
    const char *memory = action->of.memory;
    mr_shm_offer offer;
    close_lender(borrower, from);
    if (action->of.change != MR_PEER_JOINED || !memory || !*memory)
        return;
    if (mr_shm_offer_parse(memory, &offer) || open_lender(borrower, from, &offer))
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
    if (borrower->aim >= borrower->count || !borrower->lenders[borrower->aim].import)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload in shared memory, which is not shared");
    return mr_shm_import_take(borrower->lenders[borrower->aim].import, &lent, buffer);
}

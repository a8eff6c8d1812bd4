#include "engine/transport/cut/cut_share.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/transport/shm/shm.h"
#include "millrace/log.h"
#include "millrace/status.h"

/* Logs why frames cross inline (the mr_fail message), once for each end. */
static void report_once(const mr_cut *cut, bool *reported) {
    if (!*reported)
        mr_log(MR_LOG_WARNING, "%s: frames cross as copies: %s", cut->name, mr_message());
    *reported = true;
}

/* One peer's ring messages. */
typedef struct inbox {
    bool over; /* it will say nothing more */
    bool here; /* a message was fetched, and not taken yet */
    mr_ring_message message_in;
    _Alignas(8) uint8_t record[MR_SHM_RECORD_BYTES];
} inbox;

/* Parses the fetched record, if there is one. The session reports a closed peer. A peer that breaks the rules here is
 * not read again. */
static bool open_note(inbox *box, const mr_cut *cut, int status, size_t bytes) {
    if (!status)
        status = mr_ring_message_read(box->record, bytes, &box->message_in);
    box->here = status == MR_OK;
    box->over = status && status != MR_ERROR_AGAIN;
    if (box->over && status != MR_ERROR_UNAVAILABLE)
        mr_log_repeating(MR_LOG_WARNING, cut->name, "%s: %s", cut->name, mr_message());
    return box->here;
}

/* ---- the giving side --------------------------------------------------------------------------------------------- */

typedef struct export_state {
    uint64_t session;
    mr_shm_peer *peer; /* NULL: the place is free */
    inbox box;
} export_state;

struct mr_cut_exporter {
    const mr_cut *cut;
    bool reported, leased, crowded; /* for the log */
    mr_shm_export *export;
    char text[MR_SHM_TEXT];
    mr_shm_peer *aim;
    size_t count;
    export_state peers[];
};

int mr_cut_exporter_create(mr_cut_exporter **exporter, const mr_cut *cut) {
    size_t count = cut->max_peers > 0 ? (size_t)cut->max_peers : 1;
    *exporter = NULL;
    if (!cut->shared_memory)
        return MR_OK;
    mr_cut_exporter *made = mr_calloc(1, sizeof *made + count * sizeof *made->peers);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", cut->name);
    made->cut = cut;
    made->count = count;
    if (mr_shm_export_create(&made->export, getenv("MILLRACE_RUNTIME"))) {
        report_once(cut, &made->reported);
        mr_cut_exporter_destroy(&made);
        return MR_OK;
    }
    mr_shm_offer offer;
    mr_shm_export_offer(made->export, &offer);
    mr_shm_offer_print(&offer, made->text);
    *exporter = made;
    return MR_OK;
}

void mr_cut_exporter_destroy(mr_cut_exporter **exporter) {
    mr_cut_exporter *gone = *exporter;
    *exporter = NULL;
    if (!gone)
        return;
    mr_shm_export_destroy(&gone->export);
    mr_free(gone);
}

const char *mr_cut_exporter_text(const mr_cut_exporter *exporter) {
    return exporter ? exporter->text : "";
}

int mr_cut_exporter_fd(const mr_cut_exporter *exporter) {
    return exporter ? mr_shm_export_fd(exporter->export) : -1;
}

/* A peer whose next message must wait would keep this end awake. So would a peer that is not read again. */
void mr_cut_exporter_work(mr_cut_exporter *exporter) {
    if (!exporter)
        return;
    for (size_t i = 0; i < exporter->count; i++) {
        const export_state *place = &exporter->peers[i];
        if (place->peer)
            mr_shm_export_watch(exporter->export, place->peer, !place->box.here && !place->box.over);
    }
    mr_shm_export_drive(exporter->export, true);
}

bool mr_cut_exporter_poll(mr_cut_exporter *exporter, bool last) {
    return exporter && mr_shm_export_poll(exporter->export, last);
}

/* The index for a session's peer, or none. */
static export_state *place_of(mr_cut_exporter *exporter, uint64_t session, bool taken) {
    for (size_t i = 0; i < exporter->count; i++)
        if (taken ? exporter->peers[i].peer && exporter->peers[i].session == session : !exporter->peers[i].peer)
            return &exporter->peers[i];
    return NULL;
}

static void admit(mr_cut_exporter *exporter, uint64_t session, const char *memory) {
    mr_shm_guest guest;
    export_state *place = place_of(exporter, session, false);
    if (!place || !memory || !*memory)
        return;
    place->session = session;
    place->box.over = place->box.here = false;
    if (mr_shm_guest_parse(memory, &guest) || mr_shm_export_invite(exporter->export, &guest, &place->peer))
        report_once(exporter->cut, &exporter->reported);
}

void mr_cut_exporter_update(mr_cut_exporter *exporter, const mr_action *action) {
    export_state *place = exporter ? place_of(exporter, action->of.session, true) : NULL;
    if (place) {
        exporter->aim = NULL;
        mr_shm_export_drop(exporter->export, &place->peer);
    }
    if (exporter && action->of.change == MR_PEER_JOINED)
        admit(exporter, action->of.session, action->of.memory);
}

void mr_cut_exporter_aim(mr_cut_exporter *exporter, uint64_t session) {
    export_state *place = exporter ? place_of(exporter, session, true) : NULL;
    if (exporter)
        exporter->aim = place ? place->peer : NULL;
}

bool mr_cut_export_buffer(void *context, mr_buffer *buffer, size_t offset, size_t bytes, mr_shm_reference *reference) {
    mr_cut_exporter *exporter = context;
    if (!exporter->aim || bytes < MR_SHM_LEAST_BYTES ||
        mr_shm_export_lend(exporter->export, exporter->aim, buffer, offset, bytes, reference))
        return false;
    if (!exporter->leased)
        mr_log_repeating(MR_LOG_INFO, exporter->cut->name, "%s: frames cross in shared memory", exporter->cut->name);
    exporter->leased = true;
    return true;
}

/* A full ring is not an error: the consumer is slow, and ZeroMQ queues as much as credit allows. */
static void report_crowded(mr_cut_exporter *exporter) {
    if (!exporter->crowded)
        mr_log_repeating(MR_LOG_INFO, exporter->cut->name,
                         "%s: the ring beside ZeroMQ is full: until it has room messages go through ZeroMQ",
                         exporter->cut->name);
    exporter->crowded = true;
}

bool mr_cut_exporter_post(mr_cut_exporter *exporter, const mr_cut_message *message, const mr_wire_part *parts,
                          size_t count) {
    uint8_t *place;
    size_t bytes, room = exporter && exporter->aim && message->number
                             ? mr_shm_export_room(exporter->export, exporter->aim, &place) : 0;
    if (room && !mr_ring_message_write(place, room, message, parts, count, &bytes)) {
        mr_shm_export_post(exporter->export, exporter->aim, bytes);
        return true;
    }
    if (exporter && exporter->aim && room < MR_SHM_RECORD_BYTES && message->number &&
        mr_shm_export_attached(exporter->export, exporter->aim))
        report_crowded(exporter);
    return false;
}

size_t mr_cut_exporter_places(const mr_cut_exporter *exporter) {
    return exporter ? exporter->count : 0;
}

/* A consumer's ring carries only its own session. */
static bool fetch_from(const mr_cut_exporter *exporter, export_state *place) {
    inbox *box = &place->box;
    size_t bytes = 0;
    int status = mr_shm_export_fetch(exporter->export, place->peer, box->record, sizeof box->record, &bytes);
    if (!open_note(box, exporter->cut, status, bytes) || box->message_in.session == place->session)
        return box->here;
    mr_log_repeating(MR_LOG_WARNING, exporter->cut->name,
                     "%s: shared memory: a peer sends a record of another session", exporter->cut->name);
    box->over = true;
    box->here = false;
    return false;
}

bool mr_cut_exporter_next(mr_cut_exporter *exporter, size_t at, const mr_ring_message **message_in) {
    export_state *place = &exporter->peers[at];
    if (!place->peer || (!place->box.here && (place->box.over || !fetch_from(exporter, place))))
        return false;
    *message_in = &place->box.message_in;
    return true;
}

void mr_cut_exporter_take(mr_cut_exporter *exporter, size_t place) {
    exporter->peers[place].box.here = false;
}

/* ---- the taking side --------------------------------------------------------------------------------------------- */

/* One producer's shared memory. */
typedef struct import_state {
    mr_shm_import *import; /* NULL: nothing comes from there but through ZeroMQ */
    inbox box;
} import_state;

struct mr_cut_importer {
    const mr_cut *cut;
    bool reported;
    int doorbell;
    mr_shm_guest guest;
    char text[MR_SHM_TEXT];
    uint32_t aim;
    size_t count;
    pthread_mutex_t looks; /* held while polling, and while changing the set of imports */
    import_state exporters[]; /* by route */
};

int mr_cut_importer_create(mr_cut_importer **importer, const mr_cut *cut) {
    *importer = NULL;
    if (!cut->shared_memory)
        return MR_OK;
    mr_cut_importer *made = mr_calloc(1, sizeof *made + cut->connect_count * sizeof *made->exporters);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", cut->name);
    made->cut = cut;
    made->count = cut->connect_count;
    mr_lock_init(&made->looks);
    if (mr_shm_doorbell(&made->doorbell) || mr_shm_guest_make(&made->guest)) {
        report_once(cut, &made->reported);
        mr_cut_importer_destroy(&made);
        return MR_OK;
    }
    mr_shm_guest_print(&made->guest, made->text);
    *importer = made;
    return MR_OK;
}

static void close_exporter(mr_cut_importer *importer, import_state *from) {
    pthread_mutex_lock(&importer->looks);
    mr_shm_import_close(&from->import);
    pthread_mutex_unlock(&importer->looks);
    from->box.over = from->box.here = false;
}

static int open_exporter(mr_cut_importer *importer, import_state *from, const mr_shm_offer *offer) {
    mr_shm_import *import;
    int status = mr_shm_import_open(&import, offer, &importer->guest, importer->doorbell);
    MR_LOCKED(&importer->looks);
    from->import = import;
    return status;
}

void mr_cut_importer_destroy(mr_cut_importer **importer) {
    mr_cut_importer *gone = *importer;
    *importer = NULL;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++)
        close_exporter(gone, &gone->exporters[i]);
    if (gone->doorbell >= 0)
        close(gone->doorbell);
    pthread_mutex_destroy(&gone->looks);
    mr_free(gone);
}

const char *mr_cut_importer_text(const mr_cut_importer *importer) {
    return importer ? importer->text : "";
}

int mr_cut_importer_fd(const mr_cut_importer *importer) {
    return importer ? importer->doorbell : -1;
}

static bool fetch(const mr_cut_importer *importer, import_state *from) {
    inbox *box = &from->box;
    size_t bytes = 0;
    int status = mr_shm_import_fetch(from->import, box->record, sizeof box->record, &bytes);
    return open_note(box, importer->cut, status, bytes);
}

bool mr_cut_importer_next(mr_cut_importer *importer, uint32_t route, const mr_ring_message **message_in) {
    import_state *from = importer && route < importer->count ? &importer->exporters[route] : NULL;
    if (!from || !from->import || (!from->box.here && (from->box.over || !fetch(importer, from))))
        return false;
    *message_in = &from->box.message_in;
    return true;
}

void mr_cut_importer_take(mr_cut_importer *importer, uint32_t route) {
    importer->exporters[route].box.here = false;
}

/* If the producer's process was killed, ZeroMQ reaches its successor, which answers that it has no such session. One
 * report covers many frames, so the check is cheap. */
bool mr_cut_importer_post(mr_cut_importer *importer, uint32_t route, const mr_cut_message *message,
                          const mr_wire_part *parts, size_t count) {
    uint8_t *place;
    mr_shm_import *import = importer && route < importer->count ? importer->exporters[route].import : NULL;
    bool goes = import && message->number && !mr_shm_import_is_closed(import);
    size_t bytes, room = goes ? mr_shm_import_room(import, &place) : 0;
    if (!room || mr_ring_message_write(place, room, message, parts, count, &bytes))
        return false;
    mr_shm_import_post(import, bytes);
    return true;
}

/* A peer whose next message must wait would keep this end awake. So would a peer that is not read again. */
bool mr_cut_importer_arm(mr_cut_importer *importer) {
    bool quiet = true;
    for (size_t i = 0; importer && i < importer->count; i++) {
        import_state *from = &importer->exporters[i];
        if (from->import && !from->box.over && !from->box.here)
            quiet = mr_shm_import_arm(from->import) && quiet;
    }
    return quiet;
}

void mr_cut_importer_clear_doorbell(mr_cut_importer *importer) {
    uint64_t rings;
    ssize_t got = importer ? read(importer->doorbell, &rings, sizeof rings) : 0;
    (void)got; /* It may not have rung. */
}

bool mr_cut_importer_poll(mr_cut_importer *importer, bool last) {
    bool found = false;
    if (!importer)
        return false;
    MR_LOCKED(&importer->looks);
    for (size_t i = 0; i < importer->count; i++)
        if (importer->exporters[i].import)
            found = mr_shm_import_poll(importer->exporters[i].import, last) || found;
    return found;
}

void mr_cut_importer_update(mr_cut_importer *importer, const mr_action *action) {
    if (!importer || action->peer >= importer->count)
        return;
    import_state *from = &importer->exporters[action->peer];
    const char *memory = action->of.memory;
    mr_shm_offer offer;
    close_exporter(importer, from);
    if (action->of.change != MR_PEER_JOINED || !memory || !*memory)
        return;
    if (mr_shm_offer_parse(memory, &offer) || open_exporter(importer, from, &offer))
        report_once(importer->cut, &importer->reported);
}

void mr_cut_importer_aim(mr_cut_importer *importer, uint32_t route) {
    if (importer)
        importer->aim = route;
}

int mr_cut_import_buffer(void *context, const mr_shm_reference *reference, mr_buffer **buffer) {
    mr_cut_importer *importer = context;
    if (importer->aim >= importer->count || !importer->exporters[importer->aim].import)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload in shared memory, although no memory is shared");
    return mr_shm_import_take(importer->exporters[importer->aim].import, reference, buffer);
}

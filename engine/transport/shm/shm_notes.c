#include "engine/transport/shm/shm_notes.h"

#include <string.h>

#include "engine/transport/shm/shm_limits.h"
#include "millrace/status.h"

/* The length before a note, and what all of it is a multiple of. */
enum { HEAD = sizeof(uint64_t) };

static uint64_t record_of(uint64_t bytes) {
    return HEAD + (bytes + HEAD - 1) / HEAD * HEAD;
}

static int refuse(void) {
    return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has counted its notes wrongly");
}

static uint8_t *at(const mr_shm_notes *notes, uint64_t count) {
    return notes->data + count % notes->size;
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

/* What the reader has read by now lies between what it had read and what was written. */
static int look_at_reader(mr_shm_notes *notes) {
    uint64_t read = atomic_load_explicit(&notes->channel->read, memory_order_acquire);
    if (notes->mine - read > notes->mine - notes->theirs || read % HEAD)
        return refuse();
    notes->theirs = read;
    return MR_OK;
}

static uint64_t free_bytes(const mr_shm_notes *notes) {
    return notes->size - (notes->mine - notes->theirs);
}

int mr_shm_notes_room(mr_shm_notes *notes, uint8_t **place, size_t *bytes) {
    *bytes = 0;
    if (mr_shm_notes_closed(notes))
        return MR_OK;
    int status = free_bytes(notes) < record_of(MR_SHM_NOTE_BYTES) ? look_at_reader(notes) : MR_OK;
    uint64_t room = free_bytes(notes);
    if (status || room <= HEAD)
        return status;
    *place = at(notes, notes->mine) + HEAD;
    *bytes = room - HEAD < MR_SHM_NOTE_BYTES ? (size_t)(room - HEAD) : MR_SHM_NOTE_BYTES;
    return MR_OK;
}

/* Of the two that write `written` and `reader` and then read the other's, at least one sees what the other wrote: all
 * four are sequentially consistent. */
bool mr_shm_notes_post(mr_shm_notes *notes, size_t bytes) {
    const uint64_t length = bytes;
    uint32_t asleep = MR_SHM_ASLEEP;
    memcpy(at(notes, notes->mine), &length, sizeof length);
    notes->mine += record_of(length);
    atomic_store(&notes->channel->written, notes->mine);
    return atomic_load(&notes->channel->reader) == MR_SHM_ASLEEP &&
           atomic_compare_exchange_strong(&notes->channel->reader, &asleep, MR_SHM_AWAKE);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static int look_at_writer(mr_shm_notes *notes) {
    uint64_t written = atomic_load_explicit(&notes->channel->written, memory_order_acquire);
    if (written - notes->mine > notes->size || written - notes->mine < notes->theirs - notes->mine || written % HEAD)
        return refuse();
    notes->theirs = written;
    return MR_OK;
}

int mr_shm_notes_fetch(mr_shm_notes *notes, void *data, size_t room, size_t *bytes) {
    notes->resting = false;
    int status = notes->theirs == notes->mine ? look_at_writer(notes) : MR_OK;
    if (status || notes->theirs == notes->mine)
        return status ? status : MR_ERROR_AGAIN;
    /* It is read once: what was checked and what is used are the same. */
    const _Atomic uint64_t *head = (const void *)at(notes, notes->mine);
    const uint64_t length = atomic_load_explicit(head, memory_order_relaxed);
    if (length > room || record_of(length) > notes->theirs - notes->mine)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end sends a note of a wrong size");
    if (length)
        memcpy(data, at(notes, notes->mine) + HEAD, (size_t)length);
    notes->mine += record_of(length);
    atomic_store_explicit(&notes->channel->read, notes->mine, memory_order_release);
    *bytes = (size_t)length;
    return MR_OK;
}

/* What it has said of itself is looked at, and not what it remembers: the writer may have changed that. */
bool mr_shm_notes_rest(mr_shm_notes *notes) {
    if (notes->theirs != notes->mine)
        return false;
    if (!mr_shm_notes_closed(notes))
        atomic_store(&notes->channel->reader, MR_SHM_ASLEEP);
    notes->resting = atomic_load(&notes->channel->written) == notes->mine;
    notes->told = false;
    return notes->resting;
}

bool mr_shm_notes_look(mr_shm_notes *notes, bool last) {
    uint32_t from = last ? MR_SHM_AWAKE : MR_SHM_ASLEEP;
    if (!notes->resting || (notes->told && !last))
        return false;
    if (atomic_load_explicit(&notes->channel->reader, memory_order_relaxed) == from)
        atomic_compare_exchange_strong(&notes->channel->reader, &from, last ? MR_SHM_ASLEEP : MR_SHM_AWAKE);
    const bool news = !notes->told && atomic_load(&notes->channel->written) != notes->mine;
    notes->told |= news;
    return news;
}

void mr_shm_notes_close(mr_shm_notes *notes) {
    atomic_store(&notes->channel->reader, MR_SHM_CLOSED);
}

bool mr_shm_notes_closed(const mr_shm_notes *notes) {
    return atomic_load_explicit(&notes->channel->reader, memory_order_relaxed) == MR_SHM_CLOSED;
}

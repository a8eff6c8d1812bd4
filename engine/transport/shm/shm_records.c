#include "engine/transport/shm/shm_records.h"

#include <string.h>

#include "engine/transport/shm/shm_limits.h"
#include "millrace/status.h"

/* The length before a record, and the alignment of records. */
enum { HEAD = sizeof(uint64_t) };

static uint64_t record_of(uint64_t bytes) {
    return HEAD + (bytes + HEAD - 1) / HEAD * HEAD;
}

static int refuse(void) {
    return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has miscounted its records");
}

static uint8_t *at(const mr_shm_records *records, uint64_t count) {
    return records->data + count % records->size;
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

/* The reader's count must lie between the last count it gave and the writer's. */
static int look_at_reader(mr_shm_records *records) {
    uint64_t read = atomic_load_explicit(&records->channel->read, memory_order_acquire);
    if (records->mine - read > records->mine - records->theirs || read % HEAD)
        return refuse();
    records->theirs = read;
    return MR_OK;
}

static uint64_t free_bytes(const mr_shm_records *records) {
    return records->size - (records->mine - records->theirs);
}

int mr_shm_records_room(mr_shm_records *records, uint8_t **place, size_t *bytes) {
    *bytes = 0;
    if (mr_shm_records_closed(records))
        return MR_OK;
    int status = free_bytes(records) < record_of(MR_SHM_RECORD_BYTES) ? look_at_reader(records) : MR_OK;
    uint64_t room = free_bytes(records);
    if (status || room <= HEAD)
        return status;
    *place = at(records, records->mine) + HEAD;
    *bytes = room - HEAD < MR_SHM_RECORD_BYTES ? (size_t)(room - HEAD) : MR_SHM_RECORD_BYTES;
    return MR_OK;
}

/* Each of the two ends writes one of `written` and `reader` and then reads the other: all four accesses are
 * sequentially consistent, so at least one end sees the other's write. */
bool mr_shm_records_post(mr_shm_records *records, size_t bytes) {
    const uint64_t length = bytes;
    uint32_t asleep = MR_SHM_ASLEEP;
    memcpy(at(records, records->mine), &length, sizeof length);
    records->mine += record_of(length);
    atomic_store(&records->channel->written, records->mine);
    return atomic_load(&records->channel->reader) == MR_SHM_ASLEEP &&
           atomic_compare_exchange_strong(&records->channel->reader, &asleep, MR_SHM_AWAKE);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static int look_at_writer(mr_shm_records *records) {
    uint64_t written = atomic_load_explicit(&records->channel->written, memory_order_acquire);
    if (written - records->mine > records->size || written - records->mine < records->theirs - records->mine ||
        written % HEAD)
        return refuse();
    records->theirs = written;
    return MR_OK;
}

int mr_shm_records_fetch(mr_shm_records *records, void *data, size_t room, size_t *bytes) {
    records->resting = false;
    int status = records->theirs == records->mine ? look_at_writer(records) : MR_OK;
    if (status || records->theirs == records->mine)
        return status ? status : MR_ERROR_AGAIN;
    /* The length is read once: the checked value is the one that is used. */
    const _Atomic uint64_t *head = (const void *)at(records, records->mine);
    const uint64_t length = atomic_load_explicit(head, memory_order_relaxed);
    if (length > room || record_of(length) > records->theirs - records->mine)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end sends a record of the wrong size");
    if (length)
        memcpy(data, at(records, records->mine) + HEAD, (size_t)length);
    records->mine += record_of(length);
    atomic_store_explicit(&records->channel->read, records->mine, memory_order_release);
    *bytes = (size_t)length;
    return MR_OK;
}

/* The shared state is checked, not a local copy: the writer may have changed it. */
bool mr_shm_records_rest(mr_shm_records *records) {
    if (records->theirs != records->mine)
        return false;
    if (!mr_shm_records_closed(records))
        atomic_store(&records->channel->reader, MR_SHM_ASLEEP);
    records->resting = atomic_load(&records->channel->written) == records->mine;
    records->reported = false;
    return records->resting;
}

bool mr_shm_records_look(mr_shm_records *records, bool last) {
    uint32_t from = last ? MR_SHM_AWAKE : MR_SHM_ASLEEP;
    if (!records->resting || (records->reported && !last))
        return false;
    if (atomic_load_explicit(&records->channel->reader, memory_order_relaxed) == from)
        atomic_compare_exchange_strong(&records->channel->reader, &from, last ? MR_SHM_ASLEEP : MR_SHM_AWAKE);
    const bool news = !records->reported && atomic_load(&records->channel->written) != records->mine;
    records->reported |= news;
    return news;
}

void mr_shm_records_close(mr_shm_records *records) {
    atomic_store(&records->channel->reader, MR_SHM_CLOSED);
}

bool mr_shm_records_closed(const mr_shm_records *records) {
    return atomic_load_explicit(&records->channel->reader, memory_order_relaxed) == MR_SHM_CLOSED;
}

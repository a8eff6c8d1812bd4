/* Records: small messages from one process to another through memory that both map: a byte ring per direction, with one
 * writer and one reader. A record is contiguous, after its length, at a multiple of 8 bytes. The ring is mapped twice
 * in a row, so that no record is split at the end. The writer fills free room and then posts. The reader must copy a
 * record out before it looks at it, since the other end can still change it.
 *
 * Each end counts the bytes that it has written or read in all. The other end's count is accepted only if it has not
 * gone back and is at most one ring apart: otherwise MR_ERROR_PROTOCOL.
 *
 * A reader that is about to sleep marks that; the next post finds the mark and asks for the reader's doorbell, once. So
 * no system call is needed while the reader keeps up, nor while another thread polls for it. A false mark harms only
 * the liar: its records wait longer, or it makes needless calls.
 *
 * Each end is used by one thread at a time. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/transport/shm/shm_limits.h"

/* The reader's state. */
typedef enum mr_shm_reader {
    MR_SHM_AWAKE,
    MR_SHM_ASLEEP, /* it waits for its doorbell */
    MR_SHM_CLOSED  /* it will read nothing more */
} mr_shm_reader;

/* As it lies in the file, each on a separate cache line. All zero except `reader`, to begin with. */
typedef struct mr_shm_channel {
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint64_t written; /* the writer's: bytes so far */
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint64_t read;    /* the reader's */
    /* mr_shm_reader: the reader's, but for the writer that is going to ring */
    _Alignas(MR_SHM_LINE_BYTES) _Atomic uint32_t reader;
} mr_shm_channel;

/* One end. */
typedef struct mr_shm_records {
    mr_shm_channel *channel;
    uint8_t *data;   /* `size` bytes, and the same bytes again after them */
    uint64_t size;   /* a power of two */
    uint64_t mine;   /* this end's count */
    uint64_t theirs; /* the other's, when last looked */
    bool resting;    /* the reader has armed the doorbell, and read nothing since */
    bool reported;       /* mr_shm_records_look has reported a record since then */
} mr_shm_records;

/* Writer only. Where the next record can go, and the most bytes it may have now, up to MR_SHM_RECORD_BYTES. *bytes is 0
 * if there is no room, or if the reader will read nothing more. MR_ERROR_PROTOCOL. */
int mr_shm_records_room(mr_shm_records *records, uint8_t **place, size_t *bytes);
/* Posts the first `bytes` filled bytes. Whether the caller must ring the reader's doorbell. */
bool mr_shm_records_post(mr_shm_records *records, size_t bytes);

/* The reader. Copies the next record out. MR_ERROR_AGAIN, without a message: none; MR_ERROR_PROTOCOL: malformed, or
 * longer than `room`. */
int mr_shm_records_fetch(mr_shm_records *records, void *data, size_t room, size_t *bytes);
/* Arms the doorbell. False: there are records, so do not sleep. */
bool mr_shm_records_rest(mr_shm_records *records);
/* Whether a record has arrived since it was armed, reported once; false if it is not armed. Disarms the doorbell,
 * unless this is the last poll: that arms it again. */
bool mr_shm_records_look(mr_shm_records *records, bool last);
/* It will read nothing more that is not there yet. */
void mr_shm_records_close(mr_shm_records *records);
/* Either end: whether the reader has closed. */
bool mr_shm_records_closed(const mr_shm_records *records);

/* Notes, small messages, from one process to another through memory that both have mapped: a ring of bytes for each
 * direction, with one writer and one reader.
 *
 * A note lies in one piece behind its length, at a multiple of 8 bytes; the ring is mapped twice in a row, so that none
 * is cut in two at its end. The writer fills the room that there is and then posts what it has filled; the reader
 * copies a note out before anything in it is looked at, since the other end could still change it. Each end counts the
 * bytes that it has written or read in all. The other's count is believed only where it has not gone back, and is at
 * most one ring apart: else MR_ERROR_PROTOCOL.
 *
 * A reader that is going to sleep says so; the next note that is posted finds that and asks for the reader's bell to be
 * rung, once. So while the reader keeps up no system call is needed for a note, nor where somebody looks for notes in
 * its place. A lie about that costs only who tells it: notes that wait longer, or needless calls.
 *
 * Each end is used by one thread at a time. */
#ifndef MILLRACE_TRANSPORT_SHM_RECORDS_H
#define MILLRACE_TRANSPORT_SHM_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the reader says of itself. */
typedef enum mr_shm_reader {
    MR_SHM_AWAKE,
    MR_SHM_ASLEEP, /* it wants its bell rung */
    MR_SHM_CLOSED  /* it will read nothing more */
} mr_shm_reader;

/* As it lies in the file: each on a cache line of its own. All zero but for `reader`, to begin with. */
typedef struct mr_shm_channel {
    _Alignas(64) _Atomic uint64_t written; /* the writer's: bytes so far */
    _Alignas(64) _Atomic uint64_t read;    /* the reader's */
    _Alignas(64) _Atomic uint32_t reader;  /* mr_shm_reader: the reader's, but for the writer that is going to ring */
} mr_shm_channel;

/* One end. */
typedef struct mr_shm_records {
    mr_shm_channel *channel;
    uint8_t *data;   /* `size` bytes, and the same once more behind them */
    uint64_t size;   /* a power of two */
    uint64_t mine;   /* this end's count */
    uint64_t theirs; /* the other's, when last looked */
    bool resting;    /* the reader has asked for the bell, and read nothing since */
    bool reported;       /* mr_shm_records_look has said since then that a note has come */
} mr_shm_records;

/* The writer. How many bytes a note may have now, at most MR_SHM_RECORD_BYTES, and where they are to lie. *bytes is 0
 * where there is no room, or the reader will read nothing more. MR_ERROR_PROTOCOL. */
int mr_shm_records_room(mr_shm_records *records, uint8_t **place, size_t *bytes);
/* Posts so many bytes of what was filled. Whether the reader's bell is to be rung. */
bool mr_shm_records_post(mr_shm_records *records, size_t bytes);

/* The reader. Copies the next note out. MR_ERROR_AGAIN, without a message: there is none; MR_ERROR_PROTOCOL: what is
 * there is none, or is longer than `room`. */
int mr_shm_records_fetch(mr_shm_records *records, void *data, size_t room, size_t *bytes);
/* Asks for the bell. False: there are notes, so do not sleep. */
bool mr_shm_records_rest(mr_shm_records *records);
/* Whether a note has come since it rests, told once; false where it does not rest. The bell is not rung from now on,
 * unless this is the last look: then it is, as if nobody had looked. */
bool mr_shm_records_look(mr_shm_records *records, bool last);
/* It will read nothing more that is not there yet. */
void mr_shm_records_close(mr_shm_records *records);
/* Either end: whether the reader has said so. */
bool mr_shm_records_closed(const mr_shm_records *records);

#endif

/* Vectors computed earlier: one file for each way to compute them, FOLDER/KEY.vectors. KEY begins with a digest of the
 * stages (mr_extraction.cache_key).
 *
 *     64 bytes   "MRVECT03", width, slots (uint64 each); then the key's first 40 characters
 *     vectors    slots x width floats
 *     records    slots x { content key (2 x uint64), 1 + picture time in ns (uint64; 0: no vector),
 *                checksum over vector and record (uint64) }
 *
 * A vector is found by its file's content: files can be moved and renamed, and data sets can share vectors. A vector
 * with a wrong checksum (a failing disk) is not found, and must be computed again. New vectors are appended to a
 * separate file (".part", locked while written), which then replaces the old one. Readers see the old file or the new
 * one, and a full disk leaves the old one.
 *
 * Records are written to the part when it is finished. Until then, a list next to it (".part.made") has the records of
 * vectors in the part, so that the next program can keep them if this one is killed:
 *
 *     64 bytes   as above, with "MRMADE01", and the old file's slots
 *     records    { record as above, slot after the old ones (uint64) }
 *
 * It keeps each vector with a right checksum. If the part is complete and only the name was not changed yet, it keeps
 * the part.
 *
 * Numbers are in machine order, like the vectors. One thread at a time; any thread may call _put, one at a time. */
#pragma once

#include <stdbool.h>

#include "millrace/dataset.h"

enum { MR_CACHE_GOOD = 1, MR_CACHE_DAMAGED };
enum { MR_CACHE_PATH = 4096, MR_CACHE_MOST_WIDTH = 1 << 24 }; /* width: numbers per vector */

typedef struct mr_cache_record {
    mr_content_key key;
    uint64_t made; /* 1: there is a vector; a video picture adds the time in ns */
    uint64_t sum;  /* _put makes it */
} mr_cache_record;

typedef struct mr_cache {
    char path[MR_CACHE_PATH], folder[MR_CACHE_PATH];
    const char *digest;
    size_t width, slots;
    const float *vectors; /* all slots; NULL: none */
    const mr_cache_record *records;
    void *mapped;
    size_t mapped_bytes;
    size_t *bucket; /* slots + 1 by key, hashed */
    size_t buckets;
    uint8_t *looked; /* per slot: 0, checksum not checked yet; else MR_CACHE_GOOD, MR_CACHE_DAMAGED */
    bool told_none, told_damaged;
} mr_cache;

/* Gives $XDG_CACHE_HOME/millrace/features or ~/.cache/millrace/features; `given` if not NULL. Creates the folder.
 * MR_ERROR_IO, MR_ERROR_PERMISSION. */
int mr_cache_folder(const char *given, char folder[MR_CACHE_PATH]);
/* Opens the cache for this digest; it is empty if there is none. An invalid file causes a warning and counts as none.
 * `digest` must stay valid. */
int mr_cache_open(mr_cache *cache, const char *folder, const char *digest);
void mr_cache_close(mr_cache *cache);
/* The slot with a valid vector for this content; SIZE_MAX: none. The first invalid one causes a warning. */
size_t mr_cache_find(mr_cache *cache, const mr_content_key *key);

/* A cache that is being written: the old slots, then `more`, which can grow. */
typedef struct mr_cache_writer {
    mr_cache *cache;
    char part[MR_CACHE_PATH + 8], list[MR_CACHE_PATH + 16];
    int fd, list_fd; /* list_fd -1: nothing is listed */
    bool locked, elsewhere;
    size_t list_bytes;
    size_t more, width;       /* width 0: no vector yet */
    size_t room;              /* how many `records` has room for */
    mr_cache_record *records; /* for the new slots */
} mr_cache_writer;
/* Locks the part and opens the cache again, since another program may have added vectors. A killed program's part is
 * first merged into the cache, which is logged. While another program holds it, this waits, which is logged;
 * MR_ERROR_CANCELLED if `stopped` says so. `elsewhere`: vectors are kept elsewhere until the part is finished, and come
 * again if this process is killed, so they are not listed. After success the caller must abandon the writer. */
int mr_cache_lock(mr_cache_writer *writer, mr_cache *cache, bool elsewhere, bool (*stopped)(void));
/* MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_cache_begin(mr_cache_writer *writer, size_t more);
/* Writes a new slot's vector. MR_CACHE_NEXT: appends one that is useful only together with others. It is not kept if
 * this process is killed before the part is complete. MR_ERROR_DATA if the length differs; MR_ERROR_IO,
 * MR_ERROR_MEMORY. */
#define MR_CACHE_NEXT SIZE_MAX
int mr_cache_put(mr_cache_writer *writer, size_t slot, const mr_cache_record *record, const float *vector,
                 size_t length);
/* Flushes it to disk, replaces the old file and opens it. */
int mr_cache_finish(mr_cache_writer *writer);
/* Removes the written part; does nothing after _finish. Keeps mr_message. */
void mr_cache_abandon(mr_cache_writer *writer);

/* Caches computed vectors. Each way to compute them has two files. KEY begins with a digest of the stages
 * (mr_extraction.cache_key).
 *
 *     KEY.vectors    slots x width floats
 *     KEY.made       64 bytes: "MRMADE02", width (uint64), the key's first 40 characters; then mr_cache_record for each
 *                    slot, zeros for an empty one
 *
 * Both files only grow. A vector is written before its record, which has a checksum over both. So a killed program or a
 * full disk loses no earlier vector. A vector with a wrong checksum (a failing disk, a power cut) is not found; it must
 * be computed again and then gets a new slot.
 *
 * A vector is found by its file's content: files can be moved and renamed, and data sets can share vectors. Numbers are
 * in machine order, like the vectors.
 *
 * Only one program at a time may write; others can read meanwhile. One thread at a time; any thread may call _put, one
 * at a time. */
#pragma once

#include <stdbool.h>

#include "millrace/dataset.h"

enum { MR_CACHE_PATH = 4096, MR_CACHE_MOST_WIDTH = 1 << 24 }; /* width: numbers per vector */

typedef struct mr_cache_record {
    mr_content_key key;
    int64_t at_ns; /* a video picture's time */
    uint64_t seq;  /* orders a video's pictures */
    uint32_t sub;  /* orders the frames derived from one picture */
    uint32_t zero;
    uint64_t sum; /* _put makes it */
} mr_cache_record;

typedef struct mr_cache_file {
    char path[MR_CACHE_PATH];
    int fd; /* -1: closed */
    void *data;
    size_t bytes;
} mr_cache_file;

typedef struct mr_cache {
    char folder[MR_CACHE_PATH];
    const char *digest;
    mr_cache_file vectors, made;
    size_t width, slots;            /* width 0: no vector yet */
    const mr_cache_record **sorted; /* by key and order; the newest of each */
    size_t sorted_count;
    uint8_t *looked; /* per slot: whether the checksum was checked, and is right */
    bool damaged;    /* _find met a wrong checksum; the first one causes a warning */
    bool told_other, told_damaged;
    size_t first, end; /* while writing: the first slot since _begin, the next one to append */
    size_t put_width;
} mr_cache;

/* Opens the cache for this digest; it is empty if there is none. An invalid file causes a warning and counts as none.
 * `digest` must stay valid. */
int mr_cache_open(mr_cache *cache, const char *folder, const char *digest);
/* Does nothing if it is all zeros. */
void mr_cache_close(mr_cache *cache);
/* Finds this content's vectors, in order: *records points to the first one. Returns their number; 0: none, or one is
 * damaged. */
size_t mr_cache_find(mr_cache *cache, const mr_content_key *key, const mr_cache_record *const **records);
const float *mr_cache_vector(const mr_cache *cache, const mr_cache_record *record);

/* Locks an open cache and reads it again, since another program may have added vectors. While another program holds it,
 * this waits and logs that. MR_ERROR_CANCELLED if `stopped` returns true. */
int mr_cache_lock(mr_cache *cache, bool (*stopped)(void));
/* Begins to write, after `reserved` slots that _put can name. Without a lock, another process must hold it for this
 * one. MR_ERROR_IO. */
int mr_cache_begin(mr_cache *cache, size_t reserved);
/* Writes a vector to a reserved slot. MR_CACHE_NEXT: appends it. Does nothing if the cache has had this picture's
 * vector since _begin. MR_ERROR_DATA if the length differs; MR_ERROR_IO. */
#define MR_CACHE_NEXT SIZE_MAX
int mr_cache_put(mr_cache *cache, size_t slot, const mr_cache_record *record, const float *vector, size_t length);
/* Flushes everything that this process or another wrote to the disk, so that it can be found. */
int mr_cache_update(mr_cache *cache);
/* Ends writing. Records that were read stay. */
void mr_cache_unlock(mr_cache *cache);

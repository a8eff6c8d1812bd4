/* One source's last packets, in memory, as whole groups that start with a key frame. The cache keeps a given number of
 * seconds before the newest packet, completed to a whole group, within a byte limit. One thread. All zero, with both
 * limits set, is empty. */
#pragma once

#include "millrace/stage.h"

typedef struct mr_cached {
    mr_frame frame;    /* a packet: a copy, which belongs to no run */
    int64_t time_ns;   /* decoding time; if unknown, the previous one's */
    bool written;
    struct mr_cached *next;
} mr_cached;

typedef struct mr_record_cache {
    int64_t keep_ns;
    size_t most_bytes;
    mr_cached *first, *last;
    size_t bytes;
    bool cut_short; /* it once had to drop below keep_ns */
} mr_record_cache;

/* Adds a copy of a packet. Packets before the first key frame are skipped: *added is then NULL. MR_ERROR_MEMORY. */
int mr_record_cache_add(mr_record_cache *cache, const mr_frame *packet, mr_cached **added);
/* The last unwritten key frame shown at or before that time, or else the first unwritten one. NULL: there is none. */
mr_cached *mr_record_cache_start(const mr_record_cache *cache, int64_t time_ns);
void mr_record_cache_clear(mr_record_cache *cache);

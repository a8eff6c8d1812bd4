/* Engines that a runtime has built for a network (TensorRT's, which takes minutes), kept in a folder for the next
 * start.
 *
 *     BASE/KEY/            the engines of one network, with a list of their names, sizes and SHA-256
 *     BASE/KEY.XXXXXX/     those that a process is building; locked as long as it does
 *
 * The key is a SHA-256 over everything an engine depends on: network, library versions, device, options. Engines are
 * code that the device runs. A folder that belongs to another user, is writable for others, or has files that do not
 * match its list must be removed and rebuilt. A complete folder is renamed to the final name, so any number of
 * processes can use the same base. If several start together, each builds, and the first result is kept.
 *
 * A missing folder is never an error: the reason is logged, and engines are built at each start. Only one thread at a
 * time may use a cache. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_ENGINE_KEY = 41 }; /* characters and a zero */

typedef struct mr_engine_cache {
    char key[MR_ENGINE_KEY];
    char base[PATH_MAX];   /* "": nothing is kept */
    char folder[PATH_MAX]; /* for the runtime: the key's folder, or a private one; "": none */
    bool kept;             /* it is the key's */
    int lock;              /* a private folder's lock; else -1 */
} mr_engine_cache;

/* One thing that engines depend on. */
typedef struct mr_engine_part {
    const void *data;
    size_t bytes;
} mr_engine_part;

/* `base`: NULL means $XDG_CACHE_HOME/millrace/engines or ~/.cache/millrace/engines; "-" means none. Creates it for this
 * user only. */
void mr_engine_cache_open(mr_engine_cache *cache, const char *base, const mr_engine_part *parts, size_t count);
/* Call when the private folder is complete: it becomes the key's folder. No effect if it is empty or already kept. */
void mr_engine_cache_keep(mr_engine_cache *cache);
/* Call if the runtime rejects the kept engines: removes them and uses a private folder instead. */
void mr_engine_cache_discard(mr_engine_cache *cache);
/* Removes engines that were not kept. Accepts an all-zero cache. */
void mr_engine_cache_close(mr_engine_cache *cache);

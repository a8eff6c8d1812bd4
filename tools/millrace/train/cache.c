#include "tools/millrace/train/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/log.h"

typedef struct header {
    char magic[8];
    uint64_t width, slots;
    char digest[40];
} header;

static const char magic[8] = "MRVECT02";

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Makes the folder and those above it. */
static int make_folders(char *path) {
    int status = MR_OK;
    for (char *at = path + 1; !status; at++)
        if (*at == '/' || !*at) {
            const char kept = *at;
            *at = 0;
            if (access(path, F_OK))
                status = mr_file_make_folder(path);
            *at = kept;
            if (!kept)
                break;
        }
    return status;
}

int mr_cache_folder(const char *given, char folder[MR_CACHE_PATH]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (given)
        length = snprintf(folder, MR_CACHE_PATH, "%s", given);
    else if (cache && *cache == '/')
        length = snprintf(folder, MR_CACHE_PATH, "%s/millrace/features", cache);
    else if (home && *home == '/')
        length = snprintf(folder, MR_CACHE_PATH, "%s/.cache/millrace/features", home);
    else
        return mr_fail(MR_ERROR_IO,
                       "neither XDG_CACHE_HOME nor HOME names a folder: say with --cache where vectors are kept");
    if (length >= MR_CACHE_PATH - 128)
        return mr_fail(MR_ERROR_IO, "the name of the cache's folder is too long");
    return make_folders(folder);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static size_t bytes_of(size_t width, size_t slots) {
    size_t vectors, records, all;
    if (__builtin_mul_overflow(width * sizeof(float), slots, &vectors) ||
        __builtin_mul_overflow(sizeof(mr_cache_record), slots, &records) ||
        __builtin_add_overflow(vectors, records, &all))
        return 0;
    return all + sizeof(header);
}

/* Records begin behind the vectors, at a multiple of 8. */
static size_t records_at(size_t width, size_t slots) {
    return sizeof(header) + (width * slots * sizeof(float) + 7) / 8 * 8;
}

static bool is_whole(const header *head, size_t bytes, const char *digest) {
    if (bytes < sizeof *head || memcmp(head->magic, magic, sizeof magic) != 0 || !head->width ||
        head->width > MR_CACHE_MOST_WIDTH)
        return false;
    if (strncmp(head->digest, digest, sizeof head->digest) != 0 || !bytes_of(head->width, head->slots))
        return false;
    return records_at(head->width, head->slots) + head->slots * sizeof(mr_cache_record) == bytes;
}

static size_t bucket_of(const mr_cache *cache, const mr_content_key *key) {
    return (size_t)(key->low ^ key->high * 0x9e3779b97f4a7c15u) & (cache->buckets - 1);
}

static int index_slots(mr_cache *cache) {
    for (cache->buckets = 16; cache->buckets < 2 * cache->slots; cache->buckets *= 2)
        ;
    cache->bucket = calloc(cache->buckets, sizeof *cache->bucket);
    cache->looked = calloc(cache->slots + 1, sizeof *cache->looked);
    if (!cache->bucket || !cache->looked)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    for (size_t i = 0; i < cache->slots; i++) {
        if (!cache->records[i].made)
            continue;
        size_t at = bucket_of(cache, &cache->records[i].key);
        while (cache->bucket[at])
            at = (at + 1) & (cache->buckets - 1);
        cache->bucket[at] = i + 1;
    }
    return MR_OK;
}

static uint64_t sum_of(const mr_cache_record *record, const float *vector, size_t width) {
    const mr_content_key sum = mr_content_key_join(&record->key, vector, width * sizeof *vector);
    return mr_content_key_join(&sum, &record->made, sizeof record->made).low;
}

static bool is_good(mr_cache *cache, size_t slot) {
    const mr_cache_record *record = &cache->records[slot];
    if (!cache->looked[slot])
        cache->looked[slot] = record->sum == sum_of(record, cache->vectors + slot * cache->width, cache->width)
                                  ? MR_CACHE_GOOD
                                  : MR_CACHE_DAMAGED;
    return cache->looked[slot] == MR_CACHE_GOOD;
}

/* Behind a slot that is damaged the same content may have another one, which was made since. */
size_t mr_cache_find(mr_cache *cache, const mr_content_key *key) {
    bool damaged = false;
    if (!cache->bucket)
        return SIZE_MAX;
    for (size_t at = bucket_of(cache, key); cache->bucket[at]; at = (at + 1) & (cache->buckets - 1)) {
        const size_t slot = cache->bucket[at] - 1;
        const mr_content_key *other = &cache->records[slot].key;
        if (other->low != key->low || other->high != key->high)
            continue;
        if (is_good(cache, slot))
            return slot;
        damaged = true;
    }
    if (damaged && !cache->told_damaged)
        mr_log(MR_LOG_WARNING, "%s: the file was damaged; what is not as it was written is made anew", cache->path);
    cache->told_damaged = cache->told_damaged || damaged;
    return SIZE_MAX;
}

static int map(mr_cache *cache, int fd) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_file_fail("look at", cache->path);
    if (!S_ISREG(found.st_mode))
        return mr_fail(MR_ERROR_IO, "%s is not a file: remove it, or name another folder with --cache", cache->path);
    size_t bytes = (size_t)found.st_size;
    void *mapped = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED && bytes)
        return mr_file_fail("map", cache->path);
    const header *head = mapped;
    if (!bytes || !is_whole(head, bytes, cache->digest)) {
        if (!cache->told_none)
            mr_log(MR_LOG_WARNING, "%s: is not a cache of these vectors; they are made anew", cache->path);
        cache->told_none = true;
        if (bytes)
            munmap(mapped, bytes);
        return MR_OK;
    }
    cache->mapped = mapped;
    cache->mapped_bytes = bytes;
    cache->width = head->width;
    cache->slots = head->slots;
    cache->vectors = (const float *)(const void *)(head + 1);
    cache->records =
        (const mr_cache_record *)(const void *)((const char *)mapped + records_at(head->width, head->slots));
    return index_slots(cache);
}

static int open_file(mr_cache *cache) {
    int fd = open(cache->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MR_OK : mr_file_fail("read", cache->path);
    int status = map(cache, fd);
    close(fd);
    return status;
}

int mr_cache_open(mr_cache *cache, const char *folder, const char *digest) {
    *cache = (mr_cache){.digest = digest};
    snprintf(cache->folder, sizeof cache->folder, "%s", folder);
    int length = snprintf(cache->path, sizeof cache->path, "%s/%s.vectors", folder, digest);
    if (length >= (int)sizeof cache->path)
        return mr_fail(MR_ERROR_IO, "the name of the cache's folder is too long");
    int status = open_file(cache);
    if (status)
        mr_cache_close(cache);
    return status;
}

void mr_cache_close(mr_cache *cache) {
    if (cache->mapped)
        munmap(cache->mapped, cache->mapped_bytes);
    free(cache->bucket);
    free(cache->looked);
    cache->mapped = NULL;
    cache->bucket = NULL;
    cache->looked = NULL;
    cache->vectors = NULL;
    cache->records = NULL;
    cache->slots = cache->width = 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int write_at(const mr_cache_writer *writer, const void *data, size_t bytes, size_t at) {
    return mr_file_write_at(writer->part, writer->fd, data, bytes, (int64_t)at);
}

/* Whether that is still the file's name: the program that had the lock may have given it another one, or removed it. */
static bool is_at(const char *path, int fd) {
    struct stat named, opened;
    return !stat(path, &named) && !fstat(fd, &opened) && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

/* MR_ERROR_AGAIN: another program has it. */
static int try_lock(mr_cache_writer *writer) {
    writer->fd = open(writer->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (writer->fd < 0)
        return mr_file_fail("write to", writer->part);
    if ((!flock(writer->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && is_at(writer->part, writer->fd))
        return mr_file_empty(writer->part, writer->fd);
    close(writer->fd);
    writer->fd = -1;
    return MR_ERROR_AGAIN;
}

int mr_cache_lock(mr_cache_writer *writer, mr_cache *cache, bool (*stopped)(void)) {
    static const struct timespec pause = {.tv_nsec = 50000000};
    *writer = (mr_cache_writer){.cache = cache, .fd = -1};
    snprintf(writer->part, sizeof writer->part, "%s.part", cache->path);
    int status;
    for (bool told = false; (status = try_lock(writer)) == MR_ERROR_AGAIN; told = true) {
        if (!told)
            mr_log(MR_LOG_WARNING, "%s: another program makes vectors for the same cache: waiting until it has them",
                   cache->path);
        if (stopped())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        nanosleep(&pause, NULL);
    }
    if (!status) {
        mr_cache_close(cache);
        status = open_file(cache);
    }
    if (status)
        mr_cache_abandon(writer);
    return status;
}

int mr_cache_begin(mr_cache_writer *writer, size_t more) {
    const mr_cache *cache = writer->cache;
    writer->more = more;
    writer->room = more + 1;
    writer->width = cache->width;
    writer->records = calloc(more + 1, sizeof *writer->records);
    int status = writer->records ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    if (!status && cache->slots)
        status = write_at(writer, cache->vectors, cache->slots * cache->width * sizeof(float), sizeof(header));
    if (status)
        mr_cache_abandon(writer);
    return status;
}

static int add_slot(mr_cache_writer *writer, size_t *slot) {
    if (writer->more == writer->room) {
        mr_cache_record *grown = realloc(writer->records, 2 * writer->room * sizeof *grown);
        if (!grown)
            return mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
        writer->records = grown;
        writer->room *= 2;
    }
    *slot = writer->more++;
    writer->records[*slot] = (mr_cache_record){.made = 0};
    return MR_OK;
}

int mr_cache_put(mr_cache_writer *writer, size_t slot, const mr_cache_record *record, const float *vector,
                 size_t length) {
    if (!writer->width)
        writer->width = length;
    if (length != writer->width)
        return mr_fail(MR_ERROR_DATA, "a vector has %zu numbers, and those before it have %zu", length, writer->width);
    size_t bytes = length * sizeof *vector;
    int status = slot == MR_CACHE_NEXT ? add_slot(writer, &slot) : MR_OK;
    if (!status)
        status = write_at(writer, vector, bytes, sizeof(header) + (writer->cache->slots + slot) * bytes);
    if (!status) {
        writer->records[slot] = *record;
        writer->records[slot].sum = sum_of(record, vector, length);
    }
    return status;
}

static int write_rest(const mr_cache_writer *writer) {
    const mr_cache *old = writer->cache;
    header head = {.width = writer->width, .slots = old->slots + writer->more};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.digest, old->digest, strnlen(old->digest, sizeof head.digest));
    size_t at = records_at(head.width, head.slots), kept = old->slots * sizeof *old->records;
    int status = old->slots ? write_at(writer, old->records, kept, at) : MR_OK;
    if (!status)
        status = write_at(writer, writer->records, writer->more * sizeof *writer->records, at + kept);
    if (!status)
        status = write_at(writer, &head, sizeof head, 0);
    if (!status && (fsync(writer->fd) || rename(writer->part, old->path)))
        status = mr_file_fail("write", old->path);
    return status;
}

int mr_cache_finish(mr_cache_writer *writer) {
    mr_cache *cache = writer->cache;
    if (!writer->width) /* nothing came */
        return MR_OK;
    int status = write_rest(writer);
    if (status)
        return status;
    close(writer->fd);
    writer->fd = -1;
    free(writer->records);
    writer->records = NULL;
    mr_cache_close(cache);
    return open_file(cache);
}

void mr_cache_abandon(mr_cache_writer *writer) {
    if (writer->fd >= 0) {
        unlink(writer->part);
        close(writer->fd);
    }
    writer->fd = -1;
    free(writer->records);
    writer->records = NULL;
}

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
#include "tools/millrace/train/mapped.h"

typedef struct header {
    char magic[8];
    uint64_t width, slots;
    char digest[40];
} header;

/* A vector that was written to the part; a list of these has the old file's slots in the header. */
typedef struct listed {
    mr_cache_record record;
    uint64_t slot;
} listed;

static const char magic[8] = "MRVECT03", list_magic[8] = "MRMADE01";

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Creates the folder and parents. */
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

/* Records follow the vectors, at a multiple of 8. */
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

/* A damaged slot may be followed by a newer one for the same content. */
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
    if (bytes)
        mr_mapped_watch(mapped, bytes, *cache->path ? cache->path : "a part of the cache");
    const header *head = mapped;
    if (!bytes || !is_whole(head, bytes, cache->digest)) {
        if (!cache->told_none)
            mr_log(MR_LOG_WARNING, "%s: is not a cache of these vectors; they are made anew", cache->path);
        cache->told_none = true;
        if (bytes) {
            mr_mapped_forget(mapped);
            munmap(mapped, bytes);
        }
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
    mr_mapped_forget(cache->mapped);
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

/* Whether the file still has that name: the program that held the lock may have renamed or removed it. */
static bool is_at(const char *path, int fd) {
    struct stat named, opened;
    return !stat(path, &named) && !fstat(fd, &opened) && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static void forget_records(mr_cache_writer *writer) {
    if (writer->list_fd >= 0)
        close(writer->list_fd);
    writer->list_fd = -1;
    free(writer->records);
    writer->records = NULL;
    writer->more = writer->room = writer->width = 0;
}

/* Closes the part and leaves it unchanged. */
static void let_go(mr_cache_writer *writer) {
    forget_records(writer);
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}

static int copy_old(const mr_cache_writer *writer) {
    const mr_cache *old = writer->cache;
    return old->slots ? write_at(writer, old->vectors, old->slots * old->width * sizeof(float), sizeof(header)) : MR_OK;
}

/* Removes the list once the part is on disk: a complete part needs none. It must be removed before the part is renamed,
 * since the name then belongs to the next program. */
static int put_in_place(const mr_cache_writer *writer) {
    if (fsync(writer->fd))
        return mr_file_fail("write", writer->part);
    unlink(writer->list);
    return rename(writer->part, writer->cache->path) ? mr_file_fail("write", writer->cache->path) : MR_OK;
}

static header header_of(const char *type, size_t width, size_t slots, const char *digest) {
    header head = {.width = width, .slots = slots};
    memcpy(head.magic, type, sizeof head.magic);
    memcpy(head.digest, digest, strnlen(digest, sizeof head.digest));
    return head;
}

/* Vectors after the records do not count and are cut off. */
static int write_rest(const mr_cache_writer *writer) {
    const mr_cache *old = writer->cache;
    const header head = header_of(magic, writer->width, old->slots + writer->more, old->digest);
    size_t at = records_at(head.width, head.slots), kept = old->slots * sizeof *old->records,
           added = writer->more * sizeof *writer->records;
    int status = old->slots ? write_at(writer, old->records, kept, at) : MR_OK;
    if (!status)
        status = write_at(writer, writer->records, added, at + kept);
    if (!status && ftruncate(writer->fd, (off_t)(at + kept + added)))
        status = mr_file_fail("write to", writer->part);
    if (!status)
        status = write_at(writer, &head, sizeof head, 0);
    return status ? status : put_in_place(writer);
}

/* ---- a part that a killed process has left ----------------------------------------------------------------------- */

/* False if the file ends too early. */
static bool read_at(int fd, void *data, size_t bytes, size_t at) {
    char *to = data;
    while (bytes > 0) {
        const ssize_t got = pread(fd, to, bytes, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        at += (size_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

/* Whether a slot in the part is as written, or at least no worse than the old file's slot. */
static bool is_kept(mr_cache *part, mr_cache *old, size_t slot) {
    const bool made = part->records[slot].made != 0, good = made && is_good(part, slot);
    if (slot >= old->slots)
        return good || !made;
    return good || !old->records[slot].made || !is_good(old, slot);
}

/* Whether the part only needs the final name; *count: the new vectors. All videos' vectors are then complete. */
static bool is_finished(const mr_cache_writer *writer, size_t *count) {
    mr_cache *old = writer->cache, part = {.digest = old->digest, .told_none = true};
    bool finished = !map(&part, writer->fd) && part.slots && part.slots >= old->slots;
    *count = 0;
    for (size_t i = 0; i < part.slots && finished; i++) {
        finished = is_kept(&part, old, i);
        *count += i >= old->slots && part.records[i].made;
    }
    mr_cache_close(&part);
    return finished;
}

/* For an incomplete part: makes room for the slots' records, which begin where the cache's end. The old file may be
 * gone, but cannot have become another one. *first: the slot that the list calls 0. */
static int open_left(mr_cache_writer *left, size_t *first) {
    const mr_cache *old = left->cache;
    header head;
    struct stat part;
    left->list_fd = open(left->list, O_RDONLY | O_CLOEXEC);
    if (left->list_fd < 0 || !read_at(left->list_fd, &head, sizeof head, 0) || fstat(left->fd, &part))
        return MR_OK;
    if (memcmp(head.magic, list_magic, sizeof list_magic) != 0 || !head.width || head.width > MR_CACHE_MOST_WIDTH ||
        strncmp(head.digest, old->digest, sizeof head.digest) != 0)
        return MR_OK;
    const size_t slots = ((size_t)part.st_size - sizeof head) / (head.width * sizeof(float));
    if ((size_t)part.st_size < sizeof head || slots < head.slots || head.slots < old->slots ||
        (old->slots && old->width != head.width))
        return MR_OK;
    *first = head.slots - old->slots;
    left->width = head.width;
    left->room = slots - old->slots;
    left->records = calloc(left->room + 1, sizeof *left->records);
    return left->records ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
}

/* Takes a listed vector if its slot is as written. The checksum includes the content's key, so it cannot be right for
 * anything else, whatever a power cut did to either file. */
static bool take_listed(mr_cache_writer *left, const listed *one, size_t first, float *vector) {
    const size_t bytes = left->width * sizeof *vector;
    if (!one->record.made || one->slot >= left->room - first)
        return false;
    const size_t slot = first + one->slot;
    if (!read_at(left->fd, vector, bytes, sizeof(header) + (left->cache->slots + slot) * bytes) ||
        one->record.sum != sum_of(&one->record, vector, left->width))
        return false;
    left->records[slot] = one->record;
    left->more = slot < left->more ? left->more : slot + 1;
    return true;
}

/* *lost: listed vectors that were lost. */
static int take_left(mr_cache_writer *left, size_t *taken, size_t *lost) {
    size_t first = 0;
    int status = open_left(left, &first);
    float *vector = left->width && !status ? calloc(left->width, sizeof *vector) : NULL;
    *taken = *lost = 0;
    if (!status && left->width && !vector)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    listed one;
    for (size_t at = sizeof(header); vector && read_at(left->list_fd, &one, sizeof one, at); at += sizeof one)
        ++*(take_listed(left, &one, first, vector) ? taken : lost);
    free(vector);
    return status;
}

static void tell_left(const mr_cache *cache, size_t taken, size_t lost) {
    char rest[80] = "";
    if (lost)
        snprintf(rest, sizeof rest, "; not written whole, and made anew: %zu", lost);
    mr_log(MR_LOG_WARNING, "%s: a run was killed while it made vectors; kept of it: %zu%s", cache->path, taken, rest);
}

/* Completes a part that was left, and moves it into place: *placed, and no part remains. Otherwise the part is empty.
 * After a failure it is unchanged. */
static int keep_left(mr_cache_writer *writer, bool *placed) {
    size_t taken = 0, lost = 0;
    int status = MR_OK;
    const bool finished = writer->locked && !writer->elsewhere && is_finished(writer, &taken);
    if (writer->locked && !finished)
        status = take_left(writer, &taken, &lost);
    *placed = !status && taken;
    if (*placed && !finished) {
        status = copy_old(writer);
        if (!status)
            status = write_rest(writer);
    } else if (*placed) {
        status = put_in_place(writer);
    } else if (!status) {
        unlink(writer->list);
        status = mr_file_empty(writer->part, writer->fd);
    }
    forget_records(writer);
    if (*placed && !status)
        tell_left(writer->cache, taken, lost);
    return status;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* MR_ERROR_AGAIN: another program has it. On a file system without locks nobody can know. */
static int try_lock(mr_cache_writer *writer) {
    writer->fd = open(writer->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (writer->fd < 0)
        return mr_file_fail("write to", writer->part);
    writer->locked = !flock(writer->fd, LOCK_EX | LOCK_NB);
    if ((writer->locked || errno != EWOULDBLOCK) && is_at(writer->part, writer->fd))
        return MR_OK;
    let_go(writer);
    return MR_ERROR_AGAIN;
}

static int await_lock(mr_cache_writer *writer, bool (*stopped)(void)) {
    static const struct timespec pause = {.tv_nsec = 50000000};
    int status;
    for (bool told = false; (status = try_lock(writer)) == MR_ERROR_AGAIN; told = true) {
        if (!told)
            mr_log(MR_LOG_WARNING, "%s: another program makes vectors for the same cache: waiting until it has them",
                   writer->cache->path);
        if (stopped())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        nanosleep(&pause, NULL);
    }
    return status;
}

int mr_cache_lock(mr_cache_writer *writer, mr_cache *cache, bool elsewhere, bool (*stopped)(void)) {
    *writer = (mr_cache_writer){.cache = cache, .fd = -1, .list_fd = -1, .elsewhere = elsewhere};
    snprintf(writer->part, sizeof writer->part, "%s.part", cache->path);
    snprintf(writer->list, sizeof writer->list, "%s.made", writer->part);
    bool placed;
    int status;
    do {
        placed = false;
        status = await_lock(writer, stopped);
        if (!status) {
            mr_cache_close(cache);
            status = open_file(cache);
        }
        if (!status)
            status = keep_left(writer, &placed);
        if (status || placed)
            let_go(writer);
    } while (!status && placed);
    return status;
}

/* ---- vectors that come ------------------------------------------------------------------------------------------- */

int mr_cache_begin(mr_cache_writer *writer, size_t more) {
    const mr_cache *cache = writer->cache;
    writer->more = more;
    writer->room = more + 1;
    writer->width = cache->width;
    writer->records = calloc(more + 1, sizeof *writer->records);
    int status = writer->records ? copy_old(writer) : mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
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

static int begin_list(mr_cache_writer *writer) {
    const header head = header_of(list_magic, writer->width, writer->cache->slots, writer->cache->digest);
    writer->list_fd = open(writer->list, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    writer->list_bytes = sizeof head;
    return writer->list_fd < 0 ? mr_file_fail("write to", writer->list)
                               : mr_file_write_at(writer->list, writer->list_fd, &head, sizeof head, 0);
}

static int list_slot(mr_cache_writer *writer, size_t slot) {
    const listed one = {.record = writer->records[slot], .slot = slot};
    int status = writer->list_fd < 0 ? begin_list(writer) : MR_OK;
    if (!status)
        status = mr_file_write_at(writer->list, writer->list_fd, &one, sizeof one, (int64_t)writer->list_bytes);
    writer->list_bytes += sizeof one;
    return status;
}

int mr_cache_put(mr_cache_writer *writer, size_t slot, const mr_cache_record *record, const float *vector,
                 size_t length) {
    if (!writer->width)
        writer->width = length;
    if (length != writer->width)
        return mr_fail(MR_ERROR_DATA, "a vector has %zu numbers, and those before it have %zu", length, writer->width);
    const size_t bytes = length * sizeof *vector;
    const bool alone = slot != MR_CACHE_NEXT;
    int status = alone ? MR_OK : add_slot(writer, &slot);
    if (!status)
        status = write_at(writer, vector, bytes, sizeof(header) + (writer->cache->slots + slot) * bytes);
    if (status)
        return status;
    writer->records[slot] = *record;
    writer->records[slot].sum = sum_of(record, vector, length);
    return alone && !writer->elsewhere ? list_slot(writer, slot) : MR_OK;
}

int mr_cache_finish(mr_cache_writer *writer) {
    mr_cache *cache = writer->cache;
    if (!writer->width) /* nothing came */
        return MR_OK;
    int status = write_rest(writer);
    if (status)
        return status;
    let_go(writer);
    mr_cache_close(cache);
    return open_file(cache);
}

/* The list must be removed first, while the part's lock keeps others away. */
void mr_cache_abandon(mr_cache_writer *writer) {
    if (writer->fd >= 0) {
        unlink(writer->list);
        unlink(writer->part);
    }
    let_go(writer);
}

#include "tools/millrace/train/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
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
    uint64_t width;
    char digest[40], zero[8];
} header;

static const char magic[8] = "MRMADE02";

enum { UNKNOWN, GOOD, DAMAGED }; /* mr_cache.looked */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void unmap(mr_cache_file *file) {
    mr_mapped_forget(file->data);
    if (file->data)
        munmap(file->data, file->bytes);
    file->data = NULL;
    file->bytes = 0;
}

static int map(mr_cache_file *file) {
    struct stat found;
    unmap(file);
    if (file->fd < 0)
        return MR_OK;
    if (fstat(file->fd, &found))
        return mr_file_fail("look at", file->path);
    if (!S_ISREG(found.st_mode))
        return mr_fail(MR_ERROR_IO, "%s is not a file: remove it, or name another folder with --cache", file->path);
    if (!found.st_size)
        return MR_OK;
    void *data = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (data == MAP_FAILED)
        return mr_file_fail("map", file->path);
    file->data = data;
    file->bytes = (size_t)found.st_size;
    mr_mapped_watch(data, file->bytes, file->path);
    return MR_OK;
}

static const mr_cache_record *records_of(const mr_cache *cache) {
    return (const mr_cache_record *)(const void *)((const header *)cache->made.data + 1);
}

static int compare(const mr_cache_record *a, const mr_cache_record *b) {
    if (a->key.high != b->key.high)
        return a->key.high < b->key.high ? -1 : 1;
    if (a->key.low != b->key.low)
        return a->key.low < b->key.low ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return a->sub < b->sub ? -1 : a->sub > b->sub;
}

static int compare_slots(const void *a, const void *b) {
    const mr_cache_record *x = *(const mr_cache_record *const *)a, *y = *(const mr_cache_record *const *)b;
    const int order = compare(x, y);
    return order ? order : x < y ? -1 : x > y;
}

/* A picture has several slots if the earlier ones are damaged. */
static int sort_slots(mr_cache *cache) {
    const mr_cache_record *records = records_of(cache);
    size_t count = 0, kept = 0;
    cache->sorted = calloc(cache->slots + 1, sizeof *cache->sorted);
    cache->looked = calloc(cache->slots + 1, sizeof *cache->looked);
    if (!cache->sorted || !cache->looked)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    for (size_t i = 0; i < cache->slots; i++)
        if (records[i].sum)
            cache->sorted[count++] = &records[i];
    qsort(cache->sorted, count, sizeof *cache->sorted, compare_slots);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || compare(cache->sorted[i], cache->sorted[i + 1]) != 0)
            cache->sorted[kept++] = cache->sorted[i];
    cache->sorted_count = kept;
    return MR_OK;
}

static bool is_own(const mr_cache *cache) {
    const header *head = cache->made.data;
    return cache->made.bytes >= sizeof *head && memcmp(head->magic, magic, sizeof magic) == 0 && head->width &&
           head->width <= MR_CACHE_MOST_WIDTH && strncmp(head->digest, cache->digest, sizeof head->digest) == 0;
}

static void forget(mr_cache *cache) {
    unmap(&cache->vectors);
    unmap(&cache->made);
    free(cache->sorted);
    free(cache->looked);
    cache->sorted = NULL;
    cache->looked = NULL;
    cache->sorted_count = cache->slots = cache->width = 0;
}

/* Reads the open files; a slot is in both. */
static int load(mr_cache *cache) {
    forget(cache);
    int status = map(&cache->vectors);
    if (!status)
        status = map(&cache->made);
    if (status || !cache->made.bytes)
        return status;
    if (is_own(cache)) {
        cache->width = ((const header *)cache->made.data)->width;
        const size_t made = (cache->made.bytes - sizeof(header)) / sizeof(mr_cache_record);
        const size_t vectors = cache->vectors.bytes / (cache->width * sizeof(float));
        cache->slots = made < vectors ? made : vectors;
        return sort_slots(cache);
    }
    if (!cache->told_other)
        mr_log(MR_LOG_WARNING, "%s: is not a cache of these vectors; they are made anew", cache->made.path);
    cache->told_other = true;
    return MR_OK;
}

static int open_one(mr_cache_file *file, int how) {
    file->fd = open(file->path, how | O_CLOEXEC | O_NOFOLLOW, 0666);
    return file->fd >= 0 || errno == ENOENT ? MR_OK : mr_file_fail("open", file->path);
}

static void close_one(mr_cache_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

void mr_cache_unlock(mr_cache *cache) {
    close_one(&cache->made);
    close_one(&cache->vectors);
}

static int open_files(mr_cache *cache, int how) {
    mr_cache_unlock(cache);
    int status = open_one(&cache->vectors, how);
    return status ? status : open_one(&cache->made, how);
}

int mr_cache_open(mr_cache *cache, const char *folder, const char *digest) {
    *cache = (mr_cache){.digest = digest, .vectors = {.fd = -1}, .made = {.fd = -1}};
    snprintf(cache->folder, sizeof cache->folder, "%s", folder);
    int length = snprintf(cache->vectors.path, sizeof cache->vectors.path, "%s/%s.vectors", folder, digest);
    if (length >= (int)sizeof cache->vectors.path)
        return mr_fail(MR_ERROR_IO, "the name of the cache's folder is too long");
    snprintf(cache->made.path, sizeof cache->made.path, "%s/%s.made", folder, digest);
    int status = open_files(cache, O_RDONLY);
    if (!status)
        status = load(cache);
    mr_cache_unlock(cache);
    if (status)
        forget(cache);
    return status;
}

void mr_cache_close(mr_cache *cache) {
    if (!cache->digest)
        return;
    mr_cache_unlock(cache);
    forget(cache);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

const float *mr_cache_vector(const mr_cache *cache, const mr_cache_record *record) {
    return (const float *)cache->vectors.data + (size_t)(record - records_of(cache)) * cache->width;
}

static uint64_t sum_of(const mr_cache_record *record, const float *vector, size_t width) {
    const mr_content_key sum = mr_content_key_join(&record->key, vector, width * sizeof *vector);
    return mr_content_key_join(&sum, &record->at_ns, offsetof(mr_cache_record, sum) - sizeof record->key).low;
}

static bool is_good(const mr_cache *cache, const mr_cache_record *record) {
    uint8_t *looked = &cache->looked[record - records_of(cache)];
    if (*looked == UNKNOWN)
        *looked = record->sum == sum_of(record, mr_cache_vector(cache, record), cache->width) ? GOOD : DAMAGED;
    return *looked == GOOD;
}

/* The first sorted record that does not come before this one. */
static size_t first_from(const mr_cache *cache, const mr_cache_record *wanted) {
    size_t low = 0, high = cache->sorted_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(cache->sorted[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const mr_cache_record *record, const mr_content_key *key) {
    return record->key.low == key->low && record->key.high == key->high;
}

size_t mr_cache_find(mr_cache *cache, const mr_content_key *key, const mr_cache_record *const **records) {
    const size_t first = first_from(cache, &(mr_cache_record){.key = *key});
    size_t end = first;
    bool good = true;
    for (; end < cache->sorted_count && is_of(cache->sorted[end], key); end++)
        good = good && is_good(cache, cache->sorted[end]);
    if (!good && !cache->told_damaged)
        mr_log(MR_LOG_WARNING, "%s: the file was damaged; what is not as it was written is made anew",
               cache->vectors.path);
    cache->damaged = cache->damaged || !good;
    cache->told_damaged = cache->told_damaged || !good;
    *records = cache->sorted + first;
    return good ? end - first : 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int await_lock(const mr_cache *cache, bool (*stopped)(void)) {
    static const struct timespec pause = {.tv_nsec = 50000000};
    for (bool told = false; flock(cache->vectors.fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; told = true) {
        if (!told)
            mr_log(MR_LOG_WARNING, "%s: another program makes vectors for the same cache: waiting until it has them",
                   cache->vectors.path);
        if (stopped())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        nanosleep(&pause, NULL);
    }
    return MR_OK; /* without file locks, this cannot be known */
}

int mr_cache_lock(mr_cache *cache, bool (*stopped)(void)) {
    int status = open_files(cache, O_RDWR | O_CREAT);
    if (!status)
        status = await_lock(cache, stopped);
    return status ? status : load(cache);
}

static int cut(const mr_cache_file *file, size_t bytes) {
    return file->bytes > bytes && ftruncate(file->fd, (off_t)bytes) ? mr_file_fail("write to", file->path) : MR_OK;
}

/* Cuts both files after the last slot that is in both. */
int mr_cache_begin(mr_cache *cache, size_t reserved) {
    int status = MR_OK;
    if (cache->vectors.fd < 0) {
        status = open_files(cache, O_RDWR | O_CREAT);
        status = status ? status : load(cache);
    }
    if (!status)
        status = cut(&cache->vectors, cache->slots * cache->width * sizeof(float));
    if (!status)
        status = cut(&cache->made, cache->slots ? sizeof(header) + cache->slots * sizeof(mr_cache_record) : 0);
    cache->put_width = cache->slots ? cache->width : 0;
    cache->first = cache->slots;
    cache->end = cache->slots + reserved;
    return status;
}

static int put_header(mr_cache *cache, size_t width) {
    header head = {.width = width};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.digest, cache->digest, strnlen(cache->digest, sizeof head.digest));
    int status = mr_file_write_at(cache->made.path, cache->made.fd, &head, sizeof head, 0);
    if (!status && fdatasync(cache->made.fd))
        status = mr_file_fail("write", cache->made.path);
    cache->put_width = status ? 0 : width;
    return status;
}

static bool has(const mr_cache *cache, const mr_cache_record *record) {
    const size_t at = first_from(cache, record);
    return at < cache->sorted_count && compare(cache->sorted[at], record) == 0 && is_good(cache, cache->sorted[at]);
}

int mr_cache_put(mr_cache *cache, size_t slot, const mr_cache_record *record, const float *vector, size_t length) {
    mr_cache_record made = *record;
    int status = cache->put_width ? MR_OK : put_header(cache, length);
    if (status || has(cache, record))
        return status;
    if (length != cache->put_width)
        return mr_fail(MR_ERROR_DATA, "a vector has %zu numbers, and those before it have %zu", length,
                       cache->put_width);
    made.sum = sum_of(&made, vector, length);
    const size_t at = slot == MR_CACHE_NEXT ? cache->end++ : cache->first + slot, bytes = length * sizeof *vector;
    status = mr_file_write_at(cache->vectors.path, cache->vectors.fd, vector, bytes, (int64_t)(at * bytes));
    return status ? status
                  : mr_file_write_at(cache->made.path, cache->made.fd, &made, sizeof made,
                                     (int64_t)(sizeof(header) + at * sizeof made));
}

int mr_cache_update(mr_cache *cache) {
    if (fdatasync(cache->vectors.fd))
        return mr_file_fail("write", cache->vectors.path);
    if (fdatasync(cache->made.fd))
        return mr_file_fail("write", cache->made.path);
    return load(cache);
}

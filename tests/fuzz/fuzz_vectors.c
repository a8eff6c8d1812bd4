/* Any bytes as vectors that `train` keeps: a cache, what a killed program left beside one, and a spool. Nothing may
 * crash, leak, or be read beyond a file's end; what is refused is refused with a reason, and a vector is given only
 * with a right sum. Sums are not made right here: the seeds have right ones. The first byte chooses the file.
 *
 *     tests/fuzz/run 60 fuzz_vectors */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/train/cache.h"
#include "tools/millrace/train/spool.h"

enum { FILES = 3 };

static bool not_stopped(void) {
    return false;
}

static void find_all(mr_cache *cache) {
    volatile float sum = 0;
    for (size_t i = 0; i < cache->slots; i++) {
        const size_t slot = mr_cache_find(cache, &cache->records[i].key);
        fault_if(slot != SIZE_MAX && slot >= cache->slots);
        for (size_t k = 0; slot != SIZE_MAX && k < cache->width; k++)
            sum = sum + cache->vectors[slot * cache->width + k];
    }
}

/* The input is a whole file; if the first byte is odd, a part and the list that belongs to it. */
static void read_cache(const uint8_t *data, size_t bytes) {
    mr_cache cache;
    mr_cache_writer writer;
    const size_t first = bytes ? (size_t)data[0] * 8 : 0, head = bytes ? 1 : 0;
    const size_t part = first < bytes - head ? first : bytes - head;
    const bool killed = bytes && data[0] % 2;
    if (killed) {
        fuzz_file("k.vectors.part", data + head, part);
        fuzz_file("k.vectors.part.made", data + head + part, bytes - head - part);
    } else {
        fuzz_file("k.vectors", data + head, bytes - head);
    }
    int status = mr_cache_open(&cache, fuzz_folder(), "k");
    fuzz_expect_reason(status);
    if (status)
        return;
    find_all(&cache);
    status = mr_cache_lock(&writer, &cache, false, not_stopped);
    fuzz_expect_reason(status);
    if (status == MR_OK) {
        find_all(&cache);
        mr_cache_abandon(&writer);
    }
    mr_cache_close(&cache);
    static const char *const left[] = {"k.vectors", "k.vectors.part", "k.vectors.part.made"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        unlink(fuzz_path(left[i]));
}

static int take_vector(void *user, const mr_taken *from, const float *vector, size_t length) {
    volatile float *sum = user;
    for (size_t i = 0; i < length; i++)
        *sum = *sum + vector[i];
    fault_if(from->file >= FILES);
    return MR_OK;
}

static void read_spool(const uint8_t *data, size_t bytes) {
    mr_spool spool;
    float sum = 0;
    fuzz_file("vectors", data, bytes);
    int status = mr_spool_open(&spool, fuzz_folder(), FILES);
    fuzz_expect_reason(status);
    if (status)
        return;
    fuzz_expect_reason(mr_spool_read(&spool, take_vector, &sum));
    mr_spool_close(&spool);
}

FUZZ(data, bytes) {
    mr_log_set_level(MR_LOG_ERROR);
    if (bytes && data[0] % 2)
        read_spool(data + 1, bytes - 1);
    else if (bytes)
        read_cache(data + 1, bytes - 1);
}

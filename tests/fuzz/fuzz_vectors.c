/* Any bytes as a cache of vectors that `train` keeps. Nothing may crash, leak, or be read beyond a file's end; what is
 * refused is refused with a reason, and a vector is given only with a right sum. Sums are not made right here: the seeds
 * have right ones. The first byte says where the input is cut into the two files.
 *
 *     tests/fuzz/run 60 fuzz_vectors */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/fuzz/folder.h"
#include "tools/millrace/train/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void expect_reason(int status) {
    if (status != MR_OK && !*mr_message())
        abort();
}

static bool not_stopped(void) {
    return false;
}

static void find_all(mr_cache *cache) {
    volatile float sum = 0;
    for (size_t i = 0; i < cache->sorted_count; i++) {
        const mr_cache_record *const *records;
        const size_t count = mr_cache_find(cache, &cache->sorted[i]->key, &records);
        for (size_t k = 0; k < count; k++)
            for (size_t n = 0; n < cache->width; n++)
                sum = sum + mr_cache_vector(cache, records[k])[n];
    }
}

static void read_cache(void) {
    mr_cache cache;
    int status = mr_cache_open(&cache, fuzz_folder(), "k");
    expect_reason(status);
    if (status)
        return;
    find_all(&cache);
    status = mr_cache_lock(&cache, not_stopped);
    if (!status)
        status = mr_cache_begin(&cache, 1);
    if (!status)
        status = mr_cache_put(&cache, 0, &(mr_cache_record){.seq = 1}, (float[]){1, 2}, 2);
    if (!status)
        status = mr_cache_update(&cache);
    expect_reason(status);
    find_all(&cache);
    mr_cache_close(&cache);
}

/* libFuzzer's own name for what it calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"k.made", "k.vectors"};
    mr_log_set_level(MR_LOG_ERROR);
    if (!bytes)
        return 0;
    const size_t rest = bytes - 1, first = (size_t)data[0] * 8 < rest ? (size_t)data[0] * 8 : rest;
    fuzz_file(names[0], data + 1, first);
    fuzz_file(names[1], data + 1 + first, rest - first);
    read_cache();
    for (size_t i = 0; i < 2; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), names[i]);
        unlink(path);
    }
    return 0;
}

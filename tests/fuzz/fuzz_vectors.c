/* Any bytes as a cache of vectors that `train` keeps. Nothing may crash, leak, or be read beyond a file's end; what is
 * refused is refused with a reason, and a vector is given only with a right sum. Sums are not made right here. The
 * first byte says where the input is cut into the two files.
 *
 *     tests/fuzz/run 60 fuzz_vectors */
#include <stdio.h>
#include <unistd.h>

#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/train/cache.h"

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

FUZZ(data, bytes) {
    mr_cache cache;
    mr_log_set_level(MR_LOG_ERROR);
    if (!bytes)
        return;
    const size_t rest = bytes - 1, first = (size_t)data[0] * 8 < rest ? (size_t)data[0] * 8 : rest;
    fuzz_file("k.made", data + 1, first);
    fuzz_file("k.vectors", data + 1 + first, rest - first);
    int status = mr_cache_open(&cache, fuzz_folder(), "k");
    fuzz_expect_reason(status);
    find_all(&cache);
    if (!status)
        status = mr_cache_lock(&cache, not_stopped);
    if (!status)
        status = mr_cache_begin(&cache, 1);
    if (!status)
        status = mr_cache_put(&cache, 0, &(mr_cache_record){.seq = 1}, (float[]){1, 2}, 2);
    if (!status)
        status = mr_cache_update(&cache);
    fuzz_expect_reason(status);
    find_all(&cache);
    mr_cache_close(&cache);
    unlink(fuzz_path("k.made"));
    unlink(fuzz_path("k.vectors"));
}

#include "engine/base/memory.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The largest M_MMAP_THRESHOLD that the GNU C library accepts (half an arena heap), and twice that. The library could
 * reach these values itself after large blocks are freed, but stops adapting once they are set. */
enum { LARGEST_KEPT = 32 << 20, LEAST_KEPT = 2 * LARGEST_KEPT };

static _Atomic uint64_t allocations;

static void count_one(void) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *mr_alloc(size_t bytes) {
    count_one();
    return malloc(bytes);
}

void *mr_calloc(size_t count, size_t bytes) {
    count_one();
    return calloc(count, bytes);
}

void *mr_realloc(void *block, size_t bytes) {
    count_one();
    return realloc(block, bytes);
}

void *mr_alloc_aligned(size_t alignment, size_t bytes) {
    void *block = NULL;
    count_one();
    return posix_memalign(&block, alignment, bytes) ? NULL : block;
}

char *mr_strdup(const char *text) {
    count_one();
    return strdup(text);
}

void mr_free(void *block) {
    free(block);
}

void mr_memory_keep(uint64_t bytes) {
#ifdef __GLIBC__
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int kept;
    int most = bytes < INT_MAX ? (int)bytes : INT_MAX;
    most = most > LEAST_KEPT ? most : LEAST_KEPT;
    pthread_mutex_lock(&lock);
    if (most > kept && mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) && mallopt(M_TRIM_THRESHOLD, most))
        kept = most;
    pthread_mutex_unlock(&lock);
#else
#endif
}

uint64_t mr_allocation_count(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

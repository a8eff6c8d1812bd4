#include "engine/base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

uint64_t mr_allocation_count(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

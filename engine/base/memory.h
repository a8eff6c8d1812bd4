/* Allocation, counted: tests use the number of allocated blocks to find allocations per frame. Otherwise these
 * functions are malloc and its relatives; NULL if there is no memory. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void *mr_alloc(size_t bytes);
void *mr_calloc(size_t count, size_t bytes);
void *mr_realloc(void *block, size_t bytes);
/* `alignment` must be a power of two, at least sizeof(void *). */
void *mr_alloc_aligned(size_t alignment, size_t bytes);
char *mr_strdup(const char *text);
/* Frees a block from any function here; accepts NULL. */
void mr_free(void *block);

/* Rounds up to a multiple of 64 bytes, where the next part of a block can begin. The largest such multiple if the sum
 * overflows. */
static inline size_t mr_aligned_bytes(size_t bytes) {
    return (bytes > SIZE_MAX - 63 ? SIZE_MAX - 63 : bytes + 63) / 64 * 64;
}

/* From now on the C library keeps freed memory for later allocations: at least `bytes` in each arena, in blocks up to
 * 32 MiB. Only the GNU C library can do that. Otherwise it returns large blocks to the system again and again, and each
 * new one costs a page fault and a cleared page for every 4 KiB. Holds for the whole process; the largest value from
 * several calls counts. */
void mr_memory_keep(uint64_t bytes);

/* Blocks allocated (or grown) since the process began. */
uint64_t mr_allocation_count(void);

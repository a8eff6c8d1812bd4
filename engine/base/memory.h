/* Memory of millrace's own, counted: how many blocks were allocated tells whether anything is allocated per frame.
 * The functions are malloc and its kin otherwise; NULL where there is no memory. Any thread. */
#ifndef MILLRACE_BASE_MEMORY_H
#define MILLRACE_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *mr_alloc(size_t bytes);
void *mr_calloc(size_t count, size_t bytes);
void *mr_realloc(void *block, size_t bytes);
/* `alignment`: a power of two, at least sizeof(void *). */
void *mr_alloc_aligned(size_t alignment, size_t bytes);
char *mr_strdup(const char *text);
/* Frees what any of these gave; NULL is allowed. */
void mr_free(void *block);

/* What a part of a block takes where the next begins at a multiple of 64 bytes. Of more than can be counted: the
 * largest such multiple. */
static inline size_t mr_aligned_bytes(size_t bytes) {
    return (bytes > SIZE_MAX - 63 ? SIZE_MAX - 63 : bytes + 63) / 64 * 64;
}

/* From here on the C library keeps what is freed for what is allocated next, `bytes` or more in each of its arenas,
 * in blocks of up to 32 MiB, as far as it can be told to: the GNU C library can. Else it gives large blocks back to
 * the system again and again, and each that follows costs a page fault and a cleared page for every 4 KiB. That holds
 * for the whole process until its end; of several wishes the largest does. */
void mr_memory_keep(uint64_t bytes);

/* Blocks allocated (or grown) since the process began. */
uint64_t mr_allocation_count(void);

#endif

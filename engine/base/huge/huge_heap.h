/* A heap in huge pages: for a library that reads and writes the same large buffers again and again, and lets its caller
 * allocate. With pages of 2 MiB the processor looks up far fewer addresses.
 *
 * The heap is made of regions, each a multiple of 2 MiB, that are split into blocks. A freed block joins its free
 * neighbours and is kept for later allocations, so that a steady sequence of allocations asks the system for nothing.
 * Before the heap grows, it returns empty regions to the system until it is no larger than the most bytes that were in
 * use at once. Memory that was never used is only reserved. All functions: any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct mr_huge_block;

/* Begins as MR_HUGE_HEAP, and is empty after a trim once all blocks are freed. */
typedef struct mr_huge_heap {
    pthread_mutex_t lock;
    struct mr_huge_block *vacant;   /* free blocks, in no order */
    size_t in_use, most, mapped;    /* bytes, with headers; `most`: in_use at its highest */
    size_t region;                  /* the smallest region, a multiple of MR_HUGE_PAGE; 0: one page. Blocks are packed
                                       in a region, so large ones waste less of large regions */
} mr_huge_heap;

#define MR_HUGE_HEAP {.lock = PTHREAD_MUTEX_INITIALIZER}

enum { MR_HUGE_PAGE = 2 << 20 };

/* Whether the system gives huge pages when asked. False in builds with sanitizers, which watch malloc's blocks. */
bool mr_huge_pages_given(void);
/* The same for given answers of the kernel: the modes of transparent huge pages, and their size ("": none). ARM64
 * systems with pages of 16 or 64 KiB have huge pages of 32 or 512 MiB, which a region never fills. */
bool mr_huge_pages_fit(const char *modes, const char *bytes);
/* Aligned to 64 bytes, not cleared. NULL if there is no memory. */
void *mr_huge_alloc(mr_huge_heap *heap, size_t bytes);
/* Accepts NULL. */
void mr_huge_free(mr_huge_heap *heap, void *memory);
/* Returns all empty regions to the system, and, in other regions, the pages of free blocks. A page stays in memory if
 * it holds part of a block in use, or the start of a free block. */
void mr_huge_trim(mr_huge_heap *heap);

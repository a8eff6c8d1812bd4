/* An array that grows without moving items. Any thread may create or read items at any time, without a lock. Items
 * start as zero; the caller must make their contents atomic. */
#pragma once

#include <stddef.h>

enum { MR_GROWING_CHUNKS = 16, MR_GROWING_FIRST = 64, MR_GROWING_MOST = MR_GROWING_FIRST << (MR_GROWING_CHUNKS - 1) };

/* Zero: empty. */
typedef struct mr_growing {
    _Atomic(void *) chunk[MR_GROWING_CHUNKS]; /* 64 items, then 64, 128, 256 and so on */
} mr_growing;

/* Returns the item, and creates it if needed. NULL: no memory, or the index is MR_GROWING_MOST or more. */
void *mr_growing_make(mr_growing *array, size_t item_bytes, size_t index);
/* Returns the item; NULL: it was not created. */
void *mr_growing_at(const mr_growing *array, size_t item_bytes, size_t index);
/* The first index, from `index` on, that may hold an item; MR_GROWING_MOST: there is none. */
size_t mr_growing_next(const mr_growing *array, size_t index);
/* Empties the array. No other thread may be using it. */
void mr_growing_fini(mr_growing *array);

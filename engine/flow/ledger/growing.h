/* An array that grows without moving its items: any thread may make and read items at a time, without a lock. Items are
 * zero at first; what is in them is the caller's to make atomic. */
#ifndef MILLRACE_FLOW_LEDGER_GROWING_H
#define MILLRACE_FLOW_LEDGER_GROWING_H

#include <stddef.h>

enum { MR_GROWING_CHUNKS = 16, MR_GROWING_FIRST = 64, MR_GROWING_MOST = MR_GROWING_FIRST << (MR_GROWING_CHUNKS - 1) };

/* Zero: empty. */
typedef struct mr_growing {
    _Atomic(void *) chunk[MR_GROWING_CHUNKS]; /* 64 items, then 64, 128, 256 and so on */
} mr_growing;

/* The item of an index, which is made if it is not there; NULL: no memory, or an index of MR_GROWING_MOST or more. */
void *mr_growing_make(mr_growing *array, size_t item_bytes, size_t index);
/* The item of an index; NULL: it was not made. */
void *mr_growing_at(const mr_growing *array, size_t item_bytes, size_t index);
/* The first index from `index` on whose item may have been made; MR_GROWING_MOST: there is none. */
size_t mr_growing_next(const mr_growing *array, size_t index);
/* No other thread uses it. It is empty then. */
void mr_growing_fini(mr_growing *array);

#endif

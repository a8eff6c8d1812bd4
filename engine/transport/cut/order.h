/* Puts what several processes give back into the order of each source: replicas of a node share its work, and are done
 * with it in any order.
 *
 * Frames of a source follow each other by epoch and number, and those that were dropped or filtered leave a mark, so
 * that what comes next is known, mostly. What comes early is held. Since each process gives what it has in order, one
 * that is missing will not come any more once all of them have given later ones; where some have nothing to give, what
 * is held waits no longer than `patience`. What comes too late for its place passes at once. After a process went or
 * came, which is when frames are sent again to others, only patience counts for as long. Where a live cut comes before,
 * not after it came for the first time, since the first frames of all may have been lost for want of a taker.
 *
 * It holds as many frames as windows let come. One thread. */
#ifndef MILLRACE_TRANSPORT_ORDER_H
#define MILLRACE_TRANSPORT_ORDER_H

#include "engine/flow/link.h"

typedef struct mr_order mr_order;

/* What is put in order, with what its owner wants to know of it then. */
typedef struct mr_ordered {
    mr_item item;    /* a frame or MR_ITEM_GONE */
    uint64_t ticket;
    bool counted;
} mr_ordered;

/* `live`: there is a live cut before. MR_ERROR_MEMORY. */
int mr_order_create(mr_order **order, size_t sources, size_t producers, int64_t patience_ns, bool live);
/* All must have come out. Sets *order to NULL; NULL is allowed. */
void mr_order_destroy(mr_order **order);

/* Takes what has come from that process. MR_ERROR_MEMORY: it was not taken. */
int mr_order_put(mr_order *order, size_t producer, const mr_ordered *thing, int64_t now_ns);
/* The next of a source whose turn it is; false: none. */
bool mr_order_next(mr_order *order, uint32_t source, int64_t now_ns, mr_ordered *thing);
/* Nothing more comes of a source: all that is held may go. */
void mr_order_end(mr_order *order, uint32_t source);
/* That process has come or gone. */
void mr_order_disturb(mr_order *order, size_t producer, int64_t now_ns);
/* When mr_order_next is to be asked again for all sources, if nothing comes before; INT64_MAX: nothing is held. */
int64_t mr_order_wake_ns(const mr_order *order);

#endif

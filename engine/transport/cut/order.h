/* Restores the order of each source behind several processes: replicas of a node share its work, and finish it in any
 * order. Frames of a source follow each other by epoch and number, and a dropped or filtered frame leaves a mark, so
 * that the next place is mostly known. Early frames are held. Each process sends its frames in order, so a missing
 * frame will not come any more once all of them have sent later ones; if some have nothing to send, frames are held no
 * longer than `patience`. Late frames pass at once. After a process connected or disconnected, which is when frames are
 * sent again to others, only patience counts for as long. Behind a live cut a first connection does not count, since
 * the very first frames may have been lost because no consumer was connected. A process is not waited for once it has
 * been away for longer than `patience`, or has not connected for so long after the first frame: its frames were sent to
 * others, or are lost. If all cuts are live, they are lost at once, and no other process has them: then a process is
 * waited for only a third of that time, which is enough to start it again, and positions prove as much as before.
 *
 * It holds as many frames as windows admit. One thread. */
#pragma once

#include "engine/flow/link/link.h"

typedef struct mr_order mr_order;

/* An item to be ordered, with its owner's context. */
typedef struct mr_ordered {
    mr_item item;    /* a frame or MR_ITEM_GAP */
    uint64_t ticket;
    bool counted;
} mr_ordered;

/* Which cuts of the pipeline are live. */
typedef enum mr_order_cuts { MR_ORDER_NONE_LIVE, MR_ORDER_SOME_LIVE, MR_ORDER_ALL_LIVE } mr_order_cuts;

/* MR_ERROR_MEMORY. */
int mr_order_create(mr_order **order, size_t sources, size_t producers, int64_t patience_ns, mr_order_cuts cuts);
/* All must have come out. Sets *order to NULL; NULL is allowed. */
void mr_order_destroy(mr_order **order);

/* Adds an item from that process. MR_ERROR_MEMORY: not added. */
int mr_order_put(mr_order *order, size_t producer, const mr_ordered *thing, int64_t now_ns);
/* The next item of a source whose turn has come; false: none. */
bool mr_order_next(mr_order *order, uint32_t source, int64_t now_ns, mr_ordered *thing);
/* Nothing more comes of a source: all that is held may go. */
void mr_order_end(mr_order *order, uint32_t source);
/* That process connected, or disconnected, or was given up before it ever connected. */
void mr_order_disturb(mr_order *order, size_t producer, bool connected, int64_t now_ns);
/* When mr_order_next is to be asked again for all sources, if nothing comes before; INT64_MAX: nothing is held. */
int64_t mr_order_wake_ns(const mr_order *order, int64_t now_ns);

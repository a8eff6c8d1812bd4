/* The reach of a source: the frame up to which all its frames are settled.
 *
 * Frames are opened in the source's order, and closed in any; the reach is the last frame such that it and all before
 * it are closed. Memory is needed for the frames between the oldest open one and the newest. One thread at a time. All
 * zero is empty. */
#ifndef MILLRACE_FLOW_LEDGER_REACH_H
#define MILLRACE_FLOW_LEDGER_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "millrace/frame.h"

typedef struct mr_reach_frame {
    uint32_t epoch;
    bool closed;
    uint64_t seq;
} mr_reach_frame;

typedef struct mr_reach {
    mr_reach_frame *ring;
    size_t room;          /* a power of two */
    uint64_t first, next; /* numbers of the oldest frame in the ring and of the next one */
    bool any;             /* `last` is valid */
    mr_reach_frame last;  /* the reach */
} mr_reach;

/* The number to close the frame by. MR_ERROR_MEMORY. */
int mr_reach_open(mr_reach *reach, const mr_identity *frame, uint64_t *number);
void mr_reach_close(mr_reach *reach, uint64_t number);
void mr_reach_fini(mr_reach *reach);

#endif

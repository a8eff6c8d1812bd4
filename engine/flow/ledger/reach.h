/* A source's reach: the frame up to which all are settled.
 *
 * A source opens frames in order; they can close in any order. The reach is the last frame for which it and all earlier
 * ones are closed. Memory is needed for frames from the oldest open one to the newest. One thread at a time. All zero
 * is empty. */
#pragma once

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
    uint64_t first, next; /* numbers: the ring's oldest frame, and the next frame */
    bool any;             /* `last` is valid */
    mr_reach_frame last;  /* the reach */
} mr_reach;

/* Returns the number with which the frame must be closed. MR_ERROR_MEMORY. */
int mr_reach_open(mr_reach *reach, const mr_identity *frame, uint64_t *number);
void mr_reach_close(mr_reach *reach, uint64_t number);
void mr_reach_fini(mr_reach *reach);

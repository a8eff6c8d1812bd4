/* A set of frame identities, for example all frames settled or written.
 *
 * A source's numbers are nearly dense and arrive nearly in order, so the set stores intervals: a few bytes for each
 * source, plus 16 bytes for each gap. Objects of frames have a lane for each number (sub). A frame with fewer objects
 * leaves a gap in the lanes above, unless mr_identity_set_fill closes it. Extending an interval and looking up the last
 * added number take constant time; everything else needs a binary search.
 *
 * One thread. All zero is empty. MR_ERROR_MEMORY leaves the set unchanged; it also means more than
 * MR_IDENTITY_INTERVALS intervals: frames with gaps between millions of them, or a hostile peer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/frame.h"

enum { MR_IDENTITY_INTERVALS = 1 << 22 };

typedef struct mr_identity_set {
    size_t lane_count, lane_room, last; /* last: the lane found last */
    struct mr_identity_lane *lanes;     /* sorted by source, epoch and sub */
    size_t interval_count;              /* in all lanes */
} mr_identity_set;

/* Returns MR_OK also if the set already has the frame. */
int mr_identity_set_add(mr_identity_set *set, const mr_identity *frame);
/* Adds the frame's number to the present lanes of its source and epoch with a higher sub, since it has no such objects
 * and will never have. On MR_ERROR_MEMORY some have it. */
int mr_identity_set_fill(mr_identity_set *set, const mr_identity *frame);
/* As mr_identity_set_add, for frames and objects that are added in order: when a frame's first object is added, the
 * frame before it is filled, since it will have no more. So frames with different numbers of objects leave no gaps. */
int mr_identity_set_append(mr_identity_set *set, const mr_identity *frame);
bool mr_identity_set_has(mr_identity_set *set, const mr_identity *frame);
/* Empties the set. */
void mr_identity_set_fini(mr_identity_set *set);

/* A set of frame identities: the frames that have been settled, or written.
 *
 * The numbers of a source are nearly dense and arrive nearly in order, so they are kept as intervals: a source of any
 * length takes a few bytes, plus 16 bytes for each gap. Adding at the end of an interval and asking for the last added
 * number take constant time, all else a binary search.
 *
 * One thread. All zero is empty. Errors: MR_ERROR_MEMORY, also if there are more than MR_IDENTITY_INTERVALS intervals,
 * which only a hostile peer causes; the set is then unchanged. */
#ifndef MILLRACE_DATA_IDENTITY_SET_H
#define MILLRACE_DATA_IDENTITY_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "millrace/frame.h"

enum { MR_IDENTITY_INTERVALS = 1 << 22 };

typedef struct mr_identity_set {
    size_t lane_count, lane_room, last; /* last: the lane that was asked for last */
    struct mr_identity_lane *lanes;     /* by source, epoch and sub, in that order */
    size_t interval_count;              /* of all lanes */
} mr_identity_set;

/* MR_OK also if the frame is in the set already. */
int mr_identity_set_add(mr_identity_set *set, const mr_identity *frame);
bool mr_identity_set_has(mr_identity_set *set, const mr_identity *frame);
/* Makes it empty. */
void mr_identity_set_fini(mr_identity_set *set);

#endif

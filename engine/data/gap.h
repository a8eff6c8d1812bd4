/* Identities of gap marks that report more than one missing frame.
 *
 * A live cut may lose frames unseen: while a connection is broken, or with the process that sent them. So that joins
 * downstream need not wait for those frames, two marks report frames that are not known one by one:
 *
 * - **lost**, once a connection is back: no frame of the source up to this number that has not arrived is still on its
 * way. The mark follows all frames that are. The number of missing frames is not known, so a batch that counts missing
 * frames (mr_instance_gather) leaves when it sees the mark.
 * - **away**, while there is no connection: no frame arrives until there is one. A join passes over its other frames of
 * the source until anything follows this mark and replaces it (mr_link_put): so the mark is always the last of its
 * lane.
 *
 * A frame that arrives after all, when others have gone on without it, finds no partner any more: it is absorbed as
 * "unmatched", like every frame that a join passes over. */
#ifndef MILLRACE_DATA_GAP_H
#define MILLRACE_DATA_GAP_H

#include <stdbool.h>

#include "millrace/frame.h"

/* As `sub`: no frame with a later number will come in its epoch. */
#define MR_SUB_REST UINT32_MAX
/* As `sub`: lost (see above), after everything that was derived from the frame of that number. */
#define MR_SUB_LOST (UINT32_MAX - 1)

/* The mark `lost` for a frame and all before it. */
static inline mr_identity mr_identity_lost(mr_identity frame) {
    frame.sub = MR_SUB_LOST;
    return frame;
}

static inline mr_identity mr_identity_away(uint32_t source) {
    return (mr_identity){.source = source, .epoch = UINT32_MAX, .seq = UINT64_MAX, .sub = MR_SUB_LOST};
}

/* Of a gone mark: whether it is `lost` or `away`; whether it is `away`. */
static inline bool mr_identity_is_lost(const mr_identity *gone) {
    return gone->sub == MR_SUB_LOST;
}

static inline bool mr_identity_is_away(const mr_identity *gone) {
    return gone->sub == MR_SUB_LOST && gone->epoch == UINT32_MAX && gone->seq == UINT64_MAX;
}

#endif

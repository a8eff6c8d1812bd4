/* Identities of gone marks that say more than that one frame will not come.
 *
 * What comes over a live cut may be lost where nobody sees it: while a connection is broken, or with the process that
 * was giving it. So that joins behind need not wait for it, two marks tell of what is not known one by one:
 *
 * - **lost**, once a connection is there again: nothing of the source up to this number, which has not come, is on its
 *   way any more. It stands behind all that is. Nobody knows how many frames are missing, so a batch that counts those
 *   that are gone (mr_instance_gather) leaves with it.
 * - **away**, while there is none: nothing comes until there is one again. A join passes over whatever else it has of
 *   the source, until anything follows this mark, which takes its place (mr_link_put): so it is always the last of
 *   its lane.
 *
 * Frames that come after all, when others have gone on without them, find no partner any more: they are absorbed as
 * "unmatched", as every frame is that a join passes over. */
#ifndef MILLRACE_DATA_GAP_H
#define MILLRACE_DATA_GAP_H

#include <stdbool.h>

#include "millrace/frame.h"

/* As `sub`: no frame with a later number will come in its epoch. */
#define MR_SUB_REST UINT32_MAX
/* As `sub`: lost, as above, behind whatever was derived from the frame of that number. */
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

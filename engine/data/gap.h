/* Gap marks that report more than one missing frame.
 *
 * A live cut can lose frames unnoticed: while a connection is broken, or when the process that sent them dies. Joins
 * downstream must not wait for such frames. Two marks report them, although their numbers are not known:
 *
 * - **lost**, when a connection is back: frames from the source up to this number that have not arrived will not come.
 *   It must follow all frames still in flight. Nobody knows how many are missing, so a batch that counts missing frames
 *   (mr_instance_gather) must leave when it sees the mark.
 * - **away**, while there is no connection: no frame can arrive. A join passes over the source's frames on other ports
 *   until another item replaces the mark (mr_link_put), which is therefore always the last in a lane.
 * - **renewed**, in a process that sends a node's frames back to it, when another process of that node has taken over:
 *   everything from the former one came before. The new one makes those frames again, and must not get the former ones
 *   (sender.h).
 *
 * A frame may still arrive after others have continued without it. It has no partner, and is absorbed as "unmatched",
 * like every frame that a join passes over. */
#pragma once

#include <stdbool.h>

#include "millrace/frame.h"

/* As `sub`: no later number will come in this epoch. */
#define MR_SUB_REST UINT32_MAX
/* As `sub`, plus the number of objects: the frames of all of a frame's objects came before (mr_io_end_objects). Sorts
 * after them. */
#define MR_SUB_OBJECTS UINT32_C(0x80000000)
/* As `sub`: lost (see above). Sorts after everything derived from the frame with this number. */
#define MR_SUB_LOST (UINT32_MAX - 1)

/* A `lost` mark for a frame and all earlier ones. */
static inline mr_identity mr_identity_lost(mr_identity frame) {
    frame.sub = MR_SUB_LOST;
    return frame;
}

static inline mr_identity mr_identity_away(uint32_t source) {
    return (mr_identity){.source = source, .epoch = UINT32_MAX, .seq = UINT64_MAX, .sub = MR_SUB_LOST};
}

/* Whether a gap mark ends the frames of a frame's objects; their number. */
static inline bool mr_identity_ends_objects(const mr_identity *gone) {
    return gone->sub >= MR_SUB_OBJECTS && gone->sub < MR_SUB_LOST;
}
static inline uint32_t mr_identity_objects(const mr_identity *gone) {
    return gone->sub - MR_SUB_OBJECTS;
}

/* Whether a gap mark is `lost` or `away`; whether it is `away`. */
static inline bool mr_identity_is_lost(const mr_identity *gone) {
    return gone->sub == MR_SUB_LOST;
}

/* A `renewed` mark; `by`: the incarnation of the process that has taken over, less than UINT64_MAX. */
static inline mr_identity mr_identity_renewed(uint32_t source, uint64_t by) {
    return (mr_identity){.source = source, .epoch = UINT32_MAX, .seq = by, .sub = MR_SUB_LOST};
}

static inline bool mr_identity_is_renewed(const mr_identity *gone) {
    return gone->sub == MR_SUB_LOST && gone->epoch == UINT32_MAX && gone->seq != UINT64_MAX;
}

static inline bool mr_identity_is_away(const mr_identity *gone) {
    return gone->sub == MR_SUB_LOST && gone->epoch == UINT32_MAX && gone->seq == UINT64_MAX;
}

/* One source's queue in a link: a ring of items that grows for marks, and who waits for room in it. Not locked: the
 * link does that. */
#ifndef MILLRACE_FLOW_LANE_H
#define MILLRACE_FLOW_LANE_H

#include "engine/flow/link.h"

typedef struct mr_lane {
    mr_item *ring;
    uint32_t room;           /* of the ring; a power of two */
    uint32_t first, count;   /* items */
    uint32_t frames;         /* of them, frames */
    uint32_t most_frames;    /* that there ever were */
    uint32_t told;           /* frames, when the trace was last told of them */
    uint32_t ends_expected;  /* producers that have not sent their end mark */
    bool cut_short;          /* as one of the ends that have come says */
    bool waits_for_key;      /* packets are dropped until the next key frame */
    bool listed;             /* among the link's lanes that have items */
    struct mr_lane *next;
    mr_task **waiter;        /* producers that found it full, the first first */
    uint32_t waiter_count, waiter_room;
} mr_lane;

/* Makes the ring twice as large, or, without memory for that, discards the gone marks in it. */
void mr_lane_make_room(mr_lane *lane);

static inline mr_item *mr_lane_at(const mr_lane *lane, uint32_t index) {
    return &lane->ring[(lane->first + index) & (lane->room - 1)];
}

/* Adds an item at the end. The ring has room for all the frames of a full lane and its end; it grows for gone marks,
 * which are only hints: where there is no memory for that, those queued are discarded, and nothing else is lost. */
static inline void mr_lane_append(mr_lane *lane, const mr_item *item) {
    if (lane->count == lane->room)
        mr_lane_make_room(lane);
    lane->frames += item->kind == MR_ITEM_FRAME;
    lane->most_frames = lane->frames > lane->most_frames ? lane->frames : lane->most_frames;
    *mr_lane_at(lane, lane->count++) = *item;
}

static inline void mr_lane_take(mr_lane *lane, mr_item *item) {
    *item = *mr_lane_at(lane, 0);
    lane->first = (lane->first + 1) & (lane->room - 1);
    lane->count--;
    lane->frames -= item->kind == MR_ITEM_FRAME;
}

/* Makes room by the policy's rules in the name of `stage`. True: the new item may be appended (drop-oldest made
 * room); false: the new item itself was turned into a gone mark, which is to be appended instead. */
bool mr_lane_shed(mr_lane *lane, mr_policy policy, const char *stage, mr_item *incoming);
/* A packet that comes while the lane waits for a key frame: true where it must be dropped. */
bool mr_lane_skips(mr_lane *lane, const char *stage, mr_item *incoming);

#endif

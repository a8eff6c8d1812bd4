#include "engine/data/identity_set.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

typedef struct interval {
    uint64_t first, last;
} interval;

typedef struct mr_identity_lane {
    uint32_t source, epoch, sub;
    size_t count, room;
    interval *intervals; /* sorted; at least one number is missing between neighbours */
} mr_identity_lane;

/* ---- lanes ----------------------------------------------------------------------------------------------------- */

static int compare(const mr_identity_lane *lane, const mr_identity *frame) {
    if (lane->source != frame->source)
        return lane->source < frame->source ? -1 : 1;
    if (lane->epoch != frame->epoch)
        return lane->epoch < frame->epoch ? -1 : 1;
    return lane->sub == frame->sub ? 0 : lane->sub < frame->sub ? -1 : 1;
}

/* The index where the frame's lane is, or must be inserted. */
static size_t place_of(const mr_identity_set *set, const mr_identity *frame) {
    size_t low = 0, high = set->lane_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&set->lanes[middle], frame) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mr_identity_lane *find_lane(mr_identity_set *set, const mr_identity *frame) {
    if (set->last < set->lane_count && compare(&set->lanes[set->last], frame) == 0)
        return &set->lanes[set->last];
    size_t place = place_of(set, frame);
    if (place == set->lane_count || compare(&set->lanes[place], frame) != 0)
        return NULL;
    set->last = place;
    return &set->lanes[place];
}

static mr_identity_lane *add_lane(mr_identity_set *set, const mr_identity *frame) {
    size_t place = place_of(set, frame);
    if (!mr_grow((void **)&set->lanes, set->lane_count, &set->lane_room, sizeof *set->lanes))
        return NULL;
    memmove(set->lanes + place + 1, set->lanes + place, (set->lane_count - place) * sizeof *set->lanes);
    set->lanes[place] = (mr_identity_lane){.source = frame->source, .epoch = frame->epoch, .sub = frame->sub};
    set->lane_count++;
    set->last = place;
    return &set->lanes[place];
}

/* ---- intervals ------------------------------------------------------------------------------------------------- */

/* The first interval that ends at `seq` or later. */
static size_t reach(const mr_identity_lane *lane, uint64_t seq) {
    size_t low = 0, high = lane->count;
    if (high > 0 && lane->intervals[high - 1].last < seq)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->intervals[middle].last < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool covers(const mr_identity_lane *lane, size_t at, uint64_t seq) {
    return at < lane->count && lane->intervals[at].first <= seq;
}

static int insert(mr_identity_set *set, mr_identity_lane *lane, size_t at, uint64_t seq) {
    if (set->interval_count == MR_IDENTITY_INTERVALS)
        return mr_fail(MR_ERROR_MEMORY, "more gaps between frames than can be remembered");
    if (!mr_grow((void **)&lane->intervals, lane->count, &lane->room, sizeof *lane->intervals))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a set of frames");
    memmove(lane->intervals + at + 1, lane->intervals + at, (lane->count - at) * sizeof *lane->intervals);
    lane->intervals[at] = (interval){seq, seq};
    lane->count++;
    set->interval_count++;
    return MR_OK;
}

/* Merges the interval at `at` into the one before it; they have met. */
static void join(mr_identity_set *set, mr_identity_lane *lane, size_t at) {
    lane->intervals[at - 1].last = lane->intervals[at].last;
    lane->count--;
    set->interval_count--;
    memmove(lane->intervals + at, lane->intervals + at + 1, (lane->count - at) * sizeof *lane->intervals);
}

static int add_to_lane(mr_identity_set *set, mr_identity_lane *lane, uint64_t seq) {
    size_t at = reach(lane, seq);
    if (covers(lane, at, seq))
        return MR_OK;
    bool after = at > 0 && lane->intervals[at - 1].last + 1 == seq;
    bool before = at < lane->count && seq + 1 == lane->intervals[at].first;
    if (!after && !before)
        return insert(set, lane, at, seq);
    if (after)
        lane->intervals[at - 1].last = seq;
    if (before)
        lane->intervals[at].first = seq;
    if (after && before)
        join(set, lane, at);
    return MR_OK;
}

/* ---- the set --------------------------------------------------------------------------------------------------- */

int mr_identity_set_add(mr_identity_set *set, const mr_identity *frame) {
    mr_identity_lane *lane = find_lane(set, frame);
    if (!lane && !(lane = add_lane(set, frame)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a set of frames");
    return add_to_lane(set, lane, frame->seq);
}

int mr_identity_set_fill(mr_identity_set *set, const mr_identity *frame) {
    int status = MR_OK;
    for (size_t i = place_of(set, frame); i < set->lane_count && !status; i++) {
        mr_identity_lane *lane = &set->lanes[i];
        if (lane->source != frame->source || lane->epoch != frame->epoch)
            break;
        if (lane->sub > frame->sub)
            status = add_to_lane(set, lane, frame->seq);
    }
    return status;
}

int mr_identity_set_append(mr_identity_set *set, const mr_identity *frame) {
    const mr_identity_lane *lane = frame->sub == 1 ? find_lane(set, frame) : NULL;
    mr_identity before = *frame;
    int status = MR_OK;
    if (lane) {
        before.seq = lane->intervals[lane->count - 1].last;
        status = before.seq < frame->seq ? mr_identity_set_fill(set, &before) : MR_OK;
    }
    return status ? status : mr_identity_set_add(set, frame);
}

bool mr_identity_set_has(mr_identity_set *set, const mr_identity *frame) {
    const mr_identity_lane *lane = find_lane(set, frame);
    return lane && covers(lane, reach(lane, frame->seq), frame->seq);
}

void mr_identity_set_fini(mr_identity_set *set) {
    for (size_t i = 0; i < set->lane_count; i++)
        mr_free(set->lanes[i].intervals);
    mr_free(set->lanes);
    *set = (mr_identity_set){0};
}

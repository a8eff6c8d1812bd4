#include "stages/draw/tails.h"

#include <math.h>
#include <string.h>

static mr_tail_place *newest(mr_tail *tail, size_t back) {
    return &tail->place[(tail->next + MR_TAIL_PLACES - 1 - back) % MR_TAIL_PLACES];
}

static size_t oldest(mr_tails *tails) {
    size_t found = 0;
    for (size_t i = 1; i < MR_TAILS; i++)
        if (newest(&tails->tail[i], 0)->time_ns < newest(&tails->tail[found], 0)->time_ns)
            found = i;
    return found;
}

/* The track's tail; a free one or the oldest begins anew. */
static mr_tail *find(mr_tails *tails, int64_t track) {
    size_t at = 0, free = MR_TAILS;
    for (; at < MR_TAILS && tails->track[at] != track; at++)
        free = free == MR_TAILS && !tails->track[at] ? at : free;
    if (at < MR_TAILS)
        return &tails->tail[at];
    at = free < MR_TAILS ? free : oldest(tails);
    tails->track[at] = track;
    tails->tail[at].count = tails->tail[at].next = 0;
    return &tails->tail[at];
}

const mr_tail *mr_tails_add(mr_tails *tails, int64_t track, const mr_tail_place *place) {
    mr_tail *tail = find(tails, track);
    /* Small steps share one place, so that a tail reaches far with few places. */
    if (tail->count > 1) {
        const mr_tail_place *last = newest(tail, 0), *before = newest(tail, 1);
        if (hypotf(last->x - before->x, last->y - before->y) < tails->step) {
            tail->next = (tail->next + MR_TAIL_PLACES - 1) % MR_TAIL_PLACES;
            tail->count--;
        }
    }
    tail->place[tail->next] = *place;
    tail->next = (tail->next + 1) % MR_TAIL_PLACES;
    tail->count += tail->count < MR_TAIL_PLACES;
    return tail;
}

bool mr_tail_place_at(const mr_tails *tails, const mr_tail *tail, size_t back, int64_t now_ns, mr_tail_place *place) {
    if (back >= tail->count)
        return false;
    *place = tail->place[(tail->next + MR_TAIL_PLACES - 1 - back) % MR_TAIL_PLACES];
    int64_t age_ns;
    return !__builtin_sub_overflow(now_ns, place->time_ns, &age_ns) && age_ns >= 0 && age_ns <= tails->length_ns;
}

void mr_tails_clear(mr_tails *tails) {
    memset(tails->track, 0, sizeof tails->track);
}

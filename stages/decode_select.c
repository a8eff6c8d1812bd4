#include "stages/decode_select.h"

#include <math.h>

/* Times are rounded to nanoseconds, so that a picture may seem to come just before its slot. */
static const double ROUNDING_NS = 2;

void mr_selection_begin(mr_selection *selection) {
    *selection = (mr_selection){.last_slot = INT64_MIN, .last_ns = MR_NO_TIME, .least_ns = INT64_MAX};
}

bool mr_selection_follows(mr_selection *selection, int64_t time_ns) {
    const bool timed = time_ns != MR_NO_TIME && selection->last_ns != MR_NO_TIME && time_ns > selection->last_ns;
    const int64_t since_ns = timed ? time_ns - selection->last_ns : INT64_MAX;
    const bool follows = timed && since_ns / 2 < selection->least_ns && selection->least_ns != INT64_MAX;
    selection->last_ns = time_ns;
    selection->least_ns = since_ns < selection->least_ns ? since_ns : selection->least_ns;
    return follows;
}

bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns) {
    bool timed = time_ns != MR_NO_TIME;
    if (timed && (time_ns < media->start_ns || (media->end_ns > 0 && time_ns >= media->end_ns)))
        return false;
    if (media->every > 1 && selection->in_range++ % (uint64_t)media->every != 0)
        return false;
    if (media->fps <= 0 || !timed)
        return true;
    int64_t slot = (int64_t)floor(((double)(time_ns - media->start_ns) + ROUNDING_NS) * media->fps / 1e9);
    if (slot <= selection->last_slot)
        return false;
    selection->last_slot = slot;
    return true;
}

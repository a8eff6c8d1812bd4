#include "stages/decode_select.h"

#include <math.h>

/* Times are rounded to nanoseconds, so that a picture may seem to come just before its slot. */
static const double ROUNDING_NS = 2;

void mr_selection_begin(mr_selection *selection) {
    *selection = (mr_selection){.last_slot = INT64_MIN};
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

bool mr_selection_can_count(const mr_frame *packet, int64_t last_dts_ns) {
    return packet->pts_ns != MR_NO_TIME && last_dts_ns != MR_NO_TIME && packet->pts_ns <= last_dts_ns;
}

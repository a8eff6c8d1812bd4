#include "stages/decode/selection.h"

#include <math.h>

void mr_selection_begin(mr_selection *selection) {
    *selection = (mr_selection){.last_ns = MR_NO_TIME};
}

/* How much too early a picture may come. With fewer than two pictures per slot, refusing an early one would lose it:
 * half the distance between pictures is allowed. Otherwise the next picture follows soon, and only clock rounding must
 * be allowed for: a millisecond in the coarsest containers (Matroska, FLV). */
static double tolerance_of(const mr_selection *selection, double slot_ns) {
    static const double most_rounding_ns = 500000;
    const double half_ns = selection->distance_ns / 2, most_ns = slot_ns / 2;
    if (selection->distance_ns > most_ns)
        return half_ns < most_ns ? half_ns : most_ns;
    return half_ns < most_rounding_ns ? half_ns : most_rounding_ns;
}

/* Each accepted picture uses one slot of 1/fps seconds. If one is late, the next can make up for it, by at most half a
 * slot. */
static bool is_due(mr_selection *selection, double fps, int64_t time_ns) {
    enum { SMOOTH = 8 };
    const double slot_ns = 1e9 / fps, came_ns = (double)time_ns - (double)selection->last_ns;
    const bool first = selection->last_ns == MR_NO_TIME;
    if (!first)
        selection->distance_ns +=
            selection->distance_ns > 0 ? (came_ns - selection->distance_ns) / SMOOTH : came_ns;
    selection->last_ns = time_ns;
    if (!first && (double)time_ns < selection->due_ns - tolerance_of(selection, slot_ns))
        return false;
    const double earliest_ns = (double)time_ns - slot_ns / 2;
    selection->due_ns = (first ? (double)time_ns : fmax(selection->due_ns, earliest_ns)) + slot_ns;
    return true;
}

bool mr_selection_has_begun(const mr_media *media, int64_t time_ns) {
    return time_ns == MR_NO_TIME || time_ns >= media->start_ns;
}

bool mr_selection_wants(mr_selection *selection, const mr_media *media, int64_t time_ns) {
    bool timed = time_ns != MR_NO_TIME;
    if (!mr_selection_has_begun(media, time_ns) || (timed && media->end_ns > 0 && time_ns >= media->end_ns))
        return false;
    if (media->every > 1 && selection->in_range++ % (uint64_t)media->every != 0)
        return false;
    return media->fps <= 0 || !timed || is_due(selection, media->fps, time_ns);
}

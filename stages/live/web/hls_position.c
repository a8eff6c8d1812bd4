#include "stages/live/web/hls_position.h"

#include <string.h>

/* Hashes (FNV-1a) the address's last part, the range, and the number of discontinuities before it if the server counts
 * them. */
static uint64_t name_of(const mr_playlist *list, size_t index) {
    const mr_segment *segment = &list->segments[index];
    const char *end = segment->uri + strcspn(segment->uri, "?#"), *from = end;
    int64_t numbers[] = {segment->first, list->discontinuities};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    while (from > segment->uri && from[-1] != '/')
        from--;
    for (size_t i = 0; list->discontinuities >= 0 && i <= index; i++)
        numbers[1] += list->segments[i].discontinuity;
    for (; from < end; from++)
        hash = (hash ^ (uint8_t)*from) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < sizeof numbers; i++)
        hash = (hash ^ ((const uint8_t *)numbers)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Whether the segment was given, if it is still remembered. */
static bool is_known(const mr_hls_position *place, const mr_playlist *list, size_t index) {
    const int64_t number = list->sequence + (int64_t)index;
    return number <= place->number && number > place->number - MR_HLS_RECENT &&
           place->names[number % MR_HLS_RECENT] == name_of(list, index);
}

/* Whether the playlist (not empty) has renumbered its segments. It must not be confused with an older version, which
 * some servers send occasionally. */
static bool is_renumbered(const mr_hls_position *place, const mr_playlist *list) {
    const int64_t last = list->sequence + (int64_t)list->count - 1;
    if (last < place->number)
        return !is_known(place, list, list->count - 1);
    const bool has_it = list->sequence <= place->number;
    return has_it && list->sequence < place->first && !is_known(place, list, (size_t)(place->number - list->sequence));
}

/* Finds the newest segment with this name among the last ones; -1: none. */
static int64_t index_of(const mr_playlist *list, uint64_t name) {
    const size_t end = list->count > MR_HLS_LOOKED ? list->count - MR_HLS_LOOKED : 0;
    for (size_t i = list->count; i > end; i--)
        if (name_of(list, i - 1) == name)
            return (int64_t)i - 1;
    return -1;
}

void mr_hls_position_number(const mr_hls_position *place, mr_playlist *list) {
    const int64_t last = place->number, oldest = last < MR_HLS_RECENT ? 0 : last - MR_HLS_RECENT + 1;
    const bool has_last = last < (int64_t)list->count;
    list->unnumbered = list->sequence == 0;
    if (!list->unnumbered || !place->unnumbered || !list->count || (has_last && is_known(place, list, (size_t)last)))
        return;
    for (int64_t number = last; number >= oldest; number--) {
        const int64_t index = index_of(list, place->names[number % MR_HLS_RECENT]);
        if (index >= 0) {
            list->sequence = index < number ? number - index : 0;
            return;
        }
    }
    list->sequence = has_last ? last + 2 : 0;
}

static size_t live_start(const mr_playlist *list) {
    return list->count > MR_HLS_LIVE ? list->count - MR_HLS_LIVE : 0;
}

mr_hls_step mr_hls_position_next(const mr_hls_position *place, const mr_playlist *list, bool resumes, size_t *index) {
    const int64_t next = place->number + 1 - list->sequence;
    if (!list->count)
        return list->ended ? MR_HLS_OVER : MR_HLS_WAIT;
    if (!place->begun || is_renumbered(place, list)) {
        *index = list->ended && !place->begun ? 0 : live_start(list);
        return MR_HLS_ANEW;
    }
    if (next >= (int64_t)list->count)
        return list->ended ? MR_HLS_OVER : MR_HLS_WAIT;
    /* After a pause, a live stream skips ahead if it is too far back. */
    const bool far = resumes && !list->ended && (int64_t)list->count - next > 2 * MR_HLS_LIVE;
    const bool skips = next < 0 || far;
    *index = next < 0 && list->ended ? 0 : skips ? live_start(list) : (size_t)next;
    bool anew = false;
    for (size_t i = next > 0 ? (size_t)next : 0; i <= *index; i++)
        anew |= list->segments[i].discontinuity;
    return anew ? MR_HLS_ANEW : skips ? MR_HLS_SKIP : MR_HLS_NEXT;
}

void mr_hls_position_take(mr_hls_position *place, const mr_playlist *list, size_t index) {
    place->begun = true;
    place->unnumbered = list->unnumbered;
    place->first = list->sequence;
    place->number = list->sequence + (int64_t)index;
    place->names[place->number % MR_HLS_RECENT] = name_of(list, index);
}

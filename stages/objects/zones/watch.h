/* Watches one source's tracks in areas and on lines, and reports events.
 *
 * A track is inside an area if the area covers its point, and has a side of each line. Both change only if the track
 * was elsewhere in all frames for `hold_ns`; the event's time is the first such frame. In addition a track must be
 * clear of a line to have crossed it, and clear of an area to have left it: further away than `margin` times the height
 * of its box. So a track that stands on a line, or trembles there, crosses nothing. One that begins on a line has no
 * side until it is clear of it, and gets that side without an event.
 *
 * A track that is not seen for `lost_ns` leaves all areas, at the time when it was last seen. If it was clear beyond a
 * line by then, it has crossed it.
 *
 * Speed and distance need `ground`. The velocity is the mean of v = (this place - the last one) / dt with weights that
 * decay with a time constant of MR_WATCH_SMOOTHING_NS. The distance adds straight pieces, each longer than `margin`
 * times the height, so that a box which trembles stays where it is.
 *
 * Coordinates are pixels. Memory: bounded by `most`; if there are more tracks, the one that was not seen for longest is
 * treated as lost. One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include "kernels/plane/plane.h"
#include "millrace/events.h"
#include "millrace/option.h"

#define MR_WATCH_SMOOTHING_NS INT64_C(500000000)

typedef struct mr_watch_params {
    int64_t hold_ns, lost_ns;
    int64_t dwell_ns;      /* stays that last as long are reported; 0: none */
    int64_t crowd;         /* so is a number of tracks in one area; 0: none */
    double margin;
    const char *const *area_names, *const *line_names;
    size_t areas, lines;
    size_t most;           /* tracks */
} mr_watch_params;

typedef struct mr_watch mr_watch;

/* One object in a frame. */
typedef struct mr_watched {
    int64_t track;         /* above 0 */
    int32_t index;
    const char *label;
    double at[2], height;  /* its point, and the height of its box */
} mr_watched;

int mr_watch_create(mr_watch **watch, const mr_watch_params *params);
void mr_watch_destroy(mr_watch **watch);
/* Sets the shapes: areas with at least three corners, lines with two. They are borrowed. Keeps all tracks. `ground`
 * maps pixels to metres, and may be NULL. */
void mr_watch_set_shapes(mr_watch *watch, const mr_points *areas, const mr_points *lines, const mr_plane_map *ground);

/* Begins a frame. Times must not decrease. */
void mr_watch_begin(mr_watch *watch, int64_t now_ns);
/* Ends all tracks, as lost. For a new epoch: call it in its first frame, before mr_watch_begin. */
int mr_watch_end_epoch(mr_watch *watch);
/* Call once for each track in the frame. */
int mr_watch_see(mr_watch *watch, const mr_watched *object);
/* Ends the frame. Returns its events, which are valid until the next frame begins. */
int mr_watch_finish(mr_watch *watch, const mr_zone_event **events, size_t *count);

/* Describes a track that was seen in this frame, and the areas in which it is. `dwell_ns` has room for one number
 * per area: -1 if it is not inside. Metres a second and metres; 0 without ground. */
void mr_watch_describe(const mr_watch *watch, int64_t track, int64_t *dwell_ns, float *speed, float *distance);
size_t mr_watch_count(const mr_watch *watch);

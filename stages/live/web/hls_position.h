/* Where the reading of a playlist of HLS is, across its versions, connections and restarts of the encoder: which
 * segment comes next. Pure functions.
 *
 * A place is carried from one connection to the next of the same source, so that segments that were given are not given
 * again: neither after a stall, nor if a web server still has the last playlist of an encoder that has died. Segments
 * are known by their number and by the last part of their address, without its query, which may change from one version
 * of a playlist to the next. A restarted encoder is recognised by numbers that run back: if the newest segment is not
 * one of those given lately, reading begins anew. */
#ifndef MILLRACE_STAGES_LIVE_WEB_HLS_POSITION_H
#define MILLRACE_STAGES_LIVE_WEB_HLS_POSITION_H

#include "stages/live/web/playlist.h"

enum {
    MR_HLS_LIVE = 3,     /* a live stream begins this many segments before its end */
    MR_HLS_RECENT = 4,   /* segments that are remembered; more than so many before the last, none is looked for */
    MR_HLS_LOOKED = 30,  /* segments of a playlist among which a remembered one is looked for by its name */
};

/* A zeroed place: nothing was given. */
typedef struct mr_hls_position {
    bool begun, unnumbered; /* unnumbered: as the last playlist */
    int64_t first;  /* number of the first segment of the last playlist */
    int64_t number; /* of the segment that was given last */
    uint64_t names[MR_HLS_RECENT]; /* of that number and those before, by number */
} mr_hls_position;

typedef enum mr_hls_step {
    MR_HLS_NEXT,   /* the segment follows the one before */
    MR_HLS_SKIP,   /* segments between the two are missing */
    MR_HLS_ANEW,   /* its times have nothing to do with those before: another numbering, or EXT-X-DISCONTINUITY */
    MR_HLS_WAIT,   /* there is none yet */
    MR_HLS_OVER,   /* nor will there be one */
} mr_hls_step;

/* Some servers leave out EXT-X-MEDIA-SEQUENCE, or leave it at 0, though the first segments of their playlist go: a
 * version that follows such a one is numbered by the names of segments that were given. If it has other segments at
 * their numbers, it is numbered as one that follows after a gap. To be called for each version. */
void mr_hls_position_number(const mr_hls_position *place, mr_playlist *list);
/* The next step, and its index if it is a segment. `resumes`: for the first time in this connection. */
mr_hls_step mr_hls_position_next(const mr_hls_position *place, const mr_playlist *list, bool resumes, size_t *index);
/* Notes that the segment is being given. */
void mr_hls_position_take(mr_hls_position *place, const mr_playlist *list, size_t index);

#endif

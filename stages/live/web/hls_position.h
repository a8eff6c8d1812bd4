/* Decides which HLS segment comes next, across playlist versions, connections and encoder restarts. Pure functions.
 *
 * The position passes from one connection to the next for the same source, so that no segment is given twice: neither
 * after a stall, nor if a web server keeps a dead encoder's last playlist. A segment is recognised by its number and by
 * its address's last part, without the query, which may change between versions. Numbers that run back mean an encoder
 * restart: if the newest segment was not given lately, reading starts again. */
#pragma once

#include "stages/live/web/playlist.h"

enum {
    MR_HLS_LIVE = 3,     /* a live stream starts this many segments before the end */
    MR_HLS_RECENT = 4,   /* how many segments are remembered, and how far back they are searched */
    MR_HLS_LOOKED = 30,  /* how many segments in a playlist are searched by name */
};

/* All zero: nothing was given. */
typedef struct mr_hls_position {
    bool begun, unnumbered; /* unnumbered: as the last playlist */
    int64_t first;  /* first segment number in the last playlist */
    int64_t number; /* last given segment's number */
    uint64_t names[MR_HLS_RECENT]; /* names for that number and those before, by number */
} mr_hls_position;

typedef enum mr_hls_step {
    MR_HLS_NEXT,   /* the segment follows the previous one */
    MR_HLS_SKIP,   /* segments in between are missing */
    MR_HLS_ANEW,   /* the times are unrelated to earlier ones: renumbered, or EXT-X-DISCONTINUITY */
    MR_HLS_WAIT,   /* there is none yet */
    MR_HLS_OVER,   /* nor will there be one */
} mr_hls_step;

/* Some servers omit EXT-X-MEDIA-SEQUENCE, or keep it at 0, although old segments leave the playlist. Such versions are
 * numbered by comparing segment names with those already given. If the segments at known numbers differ, numbering
 * continues after a gap. Call for each version. */
void mr_hls_position_number(const mr_hls_position *place, mr_playlist *list);
/* Returns the next step, and the index if it is a segment. `resumes`: first call in this connection. */
mr_hls_step mr_hls_position_next(const mr_hls_position *place, const mr_playlist *list, bool resumes, size_t *index);
/* Records that the segment is being given. */
void mr_hls_position_take(mr_hls_position *place, const mr_playlist *list, size_t index);

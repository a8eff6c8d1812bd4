/* A stream of HLS (RFC 8216) as bytes: reads playlists (playlist.h), follows a live one, and gives the segments,
 * joined, to a demuxer. libavformat's own reader of playlists is not used (stages/live/README.md says why).
 *
 * Segments that belong together are a run: one demuxer reads them. A run ends where segments are missing, where another
 * header (EXT-X-MAP) is to be read, at EXT-X-DISCONTINUITY, and where a restarted encoder numbers its segments anew.
 * With a header one also ends after some hundred segments, of which a demuxer would keep an index.
 *
 * Calls block until `web` is interrupted. They return 0 or an AVERROR, maybe with a refusal of `web`. One thread. */
#ifndef MILLRACE_STAGES_LIVE_WEB_HLS_H
#define MILLRACE_STAGES_LIVE_WEB_HLS_H

#include "stages/live/web/hls_position.h"
#include "stages/live/web/web.h"

typedef struct mr_hls mr_hls;

typedef struct mr_hls_params {
    mr_web *web;        /* outlives the mr_hls */
    int64_t max_pixels; /* of a variant */
    int stream;         /* number of the variant; -1: the best */
    mr_hls_position place; /* of the last connection of this source */
} mr_hls_params;

/* Reads the playlist that `io` has opened, which stays the caller's, and the media playlist that it leads to. `*hls` is
 * NULL on failure. It fails if there is no segment that was not given already. */
int mr_hls_open(mr_hls **hls, const mr_hls_params *params, AVIOContext *io);
/* The bytes of the first run, or of the next one after those of the last have ended, whose `io` is gone then.
 * AVERROR_EOF: there is none. */
int mr_hls_begin(mr_hls *hls, AVIOContext **io);
/* Whether the times of the run have nothing to do with those before, once bytes of it were read. */
bool mr_hls_is_anew(const mr_hls *hls);
/* Whether nothing is missing between the run and the one before it, likewise. */
bool mr_hls_continues(const mr_hls *hls);
/* It has an end, and is read from its beginning. */
bool mr_hls_is_recorded(const mr_hls *hls);
/* A variant of a master playlist is read. */
bool mr_hls_is_variant(const mr_hls *hls);
/* How long it may be until the next segment comes. */
int64_t mr_hls_pause_ns(const mr_hls *hls);
/* How many bytes of segments were read. */
int64_t mr_hls_bytes(const mr_hls *hls);
const mr_hls_position *mr_hls_where(const mr_hls *hls);
/* Says that a picture was found in the bytes. A stream is given up after many segments without one. */
void mr_hls_note_picture(mr_hls *hls);
/* Closes it, with the bytes of its run; NULL is allowed. */
void mr_hls_close(mr_hls **hls);

#endif

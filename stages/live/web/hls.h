/* Reads an HLS stream (RFC 8216) as bytes: loads playlists (playlist.h), follows a live one and joins the segments for
 * a demuxer. stages/live/README.md explains why libavformat's playlist reader is not used.
 *
 * A run is a sequence of segments that one demuxer can read. It ends when segments are missing, another header
 * (EXT-X-MAP) must be read, EXT-X-DISCONTINUITY comes, or a restarted encoder renumbers its segments. A run with a
 * header also ends after a few hundred segments, since the demuxer would keep an index of all.
 *
 * Calls block until `web` is interrupted. They return 0 or an AVERROR, possibly with a refusal in `web`. One thread. */
#pragma once

#include "stages/live/web/hls_position.h"
#include "stages/live/web/web.h"

typedef struct mr_hls mr_hls;

typedef struct mr_hls_params {
    mr_web *web;        /* must stay valid */
    int64_t max_pixels; /* limit for a variant */
    int stream;         /* variant number; -1: the best */
    mr_hls_position place; /* how far this source's last connection read */
} mr_hls_params;

/* Reads the playlist that `io` has opened (the caller keeps `io`) and the media playlist it leads to. `*hls` is NULL on
 * failure. Fails if all segments were given before. */
int mr_hls_open(mr_hls **hls, const mr_hls_params *params, AVIOContext *io);
/* Starts the first run, or the next one after the last run's bytes have ended; the last `io` is then freed.
 * AVERROR_EOF: no run follows. */
int mr_hls_begin(mr_hls *hls, AVIOContext **io);
/* Whether the run's times are unrelated to earlier ones. Valid once it has given bytes. */
bool mr_hls_is_anew(const mr_hls *hls);
/* Whether nothing is missing between this run and the previous one. Valid as above. */
bool mr_hls_continues(const mr_hls *hls);
/* Whether the stream is a recording, read from its beginning. */
bool mr_hls_is_recorded(const mr_hls *hls);
/* Whether it reads a variant from a master playlist. */
bool mr_hls_is_variant(const mr_hls *hls);
/* How long it may be until the next segment comes. */
int64_t mr_hls_pause_ns(const mr_hls *hls);
/* Segment bytes read so far. */
int64_t mr_hls_bytes(const mr_hls *hls);
const mr_hls_position *mr_hls_where(const mr_hls *hls);
/* Call when the bytes contained a picture. A stream is given up after many segments without one. */
void mr_hls_note_picture(mr_hls *hls);
/* Closes it and the run's bytes; NULL is allowed. */
void mr_hls_close(mr_hls **hls);

/* Live sources: cameras and network streams, which can come, go and fail.
 *
 * A live reader (media_reader.h) opens connections (connection.h) one after another and gives their packets as one
 * stream; each connection is an epoch. Reading waits as long as it must; mr_live_wake ends the wait. The reader reports
 * the stream's state to the engine (mr_stage_report):
 *
 *     connecting -> live -> stalled -> connecting
 *                        -> away    -> connecting     (broken off, ended by the server, or no answer)
 *                                   -> failed         (away for longer than give_up)
 *                        -> ended                     (a recording has ended; on_away: end)
 *
 * With MR_AWAY_PICTURE, the reader gives packets with a still picture while the stream is stalled or away, until the
 * next connection's first packet. They are flagged MR_FRAME_AWAY and form a separate epoch. Another thread then opens
 * connections.
 *
 * MR_FRAME_SEAM marks a packet after a gap, MR_FRAME_CORRUPT one with a missing part. From these marks `decode` must
 * find which pictures depend on missing ones. One thread, except for mr_live_wake. */
#pragma once

#include "stages/live/connection/connection.h"
#include "stages/live/live_times.h"

typedef enum mr_live_away { MR_AWAY_WAIT, MR_AWAY_END, MR_AWAY_PICTURE } mr_live_away;

typedef struct mr_live_params {
    mr_connection_params connection; /* the reader sets `wake`; strings must stay valid */
    int64_t stall_ns;          /* a connection without packets for this long is closed; 0: never */
    int64_t first_ns, most_ns; /* wait between tries: doubles from first to most, minus a random part up to half */
    int64_t give_up_ns;        /* if away this long, the source fails; 0: never */
    bool from_key;             /* omits packets before the first one where decoding can begin */
    mr_live_clock clock;
    mr_live_away on_away;
    mr_size size;              /* largest size for MR_AWAY_PICTURE's pictures (placeholder.h) */
} mr_live_params;

/* True if a uri is a stream to connect to rather than a file: a URL, a session description (*.sdp), or a camera. */
bool mr_live_is_stream(const char *uri);
/* True for a local camera: /dev/video0. */
bool mr_live_is_camera(const char *uri);
/* True for http:// and https://, and for rtsp:// and rtsps://. */
bool mr_live_is_web(const char *uri);
bool mr_live_is_rtsp(const char *uri);
/* Checks only the URL's text. MR_ERROR_NO_INPUT: unknown scheme. MR_ERROR_CONFIG: no host, a host that allow_hosts
 * excludes, or characters that a URL cannot have. */
int mr_live_check(const mr_connection_params *params);

/* Does not connect yet, unless params->connection.media.probe is set: it then tries once and fails with that status. */
int mr_reader_open_live(mr_reader **reader, const mr_live_params *params);
/* Any thread: from now on, reading returns MR_ERROR_CANCELLED at once. */
void mr_live_wake(mr_reader *reader);
/* Whether the stream is a recording with an end. Known once a packet was read or the stream was surveyed. */
bool mr_live_is_recorded(const mr_reader *reader);

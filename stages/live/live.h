/* Live sources: cameras and streams of the network that come, go and fail.
 *
 * A live reader (media_reader.h) opens connections (connection.h) one after the other, and gives their packets as one
 * stream, each connection as an epoch of it. Reading waits as long as it takes; mr_live_wake ends that. What the stream
 * does is reported to the engine (mr_stage_report):
 *
 *     connecting -> live -> stalled -> connecting
 *                        -> away    -> connecting     (broken off, ended by the server, or nobody there)
 *                                   -> failed         (away for longer than give_up)
 *                        -> ended                     (a recording is over; on_away: end)
 *
 * With MR_AWAY_PICTURE packets of a still picture, which are MR_FRAME_AWAY, are given while it is stalled or away and
 * until the next connection's first packet: an epoch of their own. Connections are opened by another thread then.
 *
 * A packet behind a gap is MR_FRAME_SEAM, and one that lacks a part MR_FRAME_CORRUPT: `decode` finds the pictures that
 * depend on the missing ones. One thread, but for mr_live_wake. */
#ifndef MILLRACE_STAGES_LIVE_LIVE_H
#define MILLRACE_STAGES_LIVE_LIVE_H

#include "stages/live/connection/connection.h"
#include "stages/live/live_times.h"

typedef enum mr_live_away { MR_AWAY_WAIT, MR_AWAY_END, MR_AWAY_PICTURE } mr_live_away;

typedef struct mr_live_params {
    mr_connection_params connection; /* `wake` is set by the reader; strings outlive it */
    int64_t stall_ns;          /* without a packet for so long a connection is given up; 0: never */
    int64_t first_ns, most_ns; /* between two tries: doubled from first to most, less a random part of up to half */
    int64_t give_up_ns;        /* away for so long: the source fails; 0: never */
    bool from_key;             /* leaves out packets before the first packet at which a decoder can begin */
    mr_live_clock clock;
    mr_live_away on_away;
    mr_size size;              /* of the pictures of MR_AWAY_PICTURE, at most (placeholder.h) */
} mr_live_params;

/* True if a uri is a stream that is connected to, and not a file: a URL, a session description (*.sdp), or a camera. */
bool mr_live_is_stream(const char *uri);
/* True for a camera of this machine: /dev/video0. */
bool mr_live_is_camera(const char *uri);
/* True for http:// and https://, and for rtsp:// and rtsps://. */
bool mr_live_is_web(const char *uri);
bool mr_live_is_rtsp(const char *uri);
/* Checks a URL by its text alone: MR_ERROR_NO_INPUT (a scheme that is not read), MR_ERROR_CONFIG (no host, or one that
 * allow_hosts excludes; signs that a URL cannot have). */
int mr_live_check(const mr_connection_params *params);

/* Does not connect yet, unless params->connection.media.probe, where it makes one try and fails with its status. */
int mr_reader_open_live(mr_reader **reader, const mr_live_params *params);
/* Any thread: reading gives up at once with MR_ERROR_CANCELLED, from now on. */
void mr_live_wake(mr_reader *reader);
/* Whether the stream has an end of its own, once a packet was read, or it was surveyed. */
bool mr_live_is_recorded(const mr_reader *reader);

#endif

/* Plays a stream of an RTMP server (Adobe's RTMP 1.0), whose bytes then are those of an FLV file, for libavformat's
 * demuxer. libavformat's own client keeps messages that a server begins and does not end without a limit; this one has
 * the bounds of chunks.h, and counts all bytes that come.
 *
 * The address is rtmp[s]://HOST[:PORT]/APP/STREAM. APP is one part of the path, or two if the path has three or more;
 * STREAM is the rest with its query. User and password answer a server that asks for them as Adobe's do
 * ("authmod=adobe").
 *
 * One thread. Errors are libavformat's (AVERROR), maybe with a refusal. */
#ifndef MILLRACE_STAGES_LIVE_RTMP_RTMP_H
#define MILLRACE_STAGES_LIVE_RTMP_RTMP_H

#include <libavformat/avio.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_rtmp mr_rtmp;

typedef struct mr_rtmp_params {
    const char *url;             /* without user and password; for messages, too */
    const char *user, *password; /* NULL: none */
    size_t most_bytes;           /* of a message */
    int *refusal;                /* set to a status; mr_message has the text */
    /* Connects to the server with tcp: or tls:, for reading and writing: 0 or an AVERROR. */
    int (*connect)(void *context, AVIOContext **socket);
    void *context;
} mr_rtmp_params;

/* Connects and asks for the stream. *rtmp is there from the first call of `connect` on, on failure too, and is to be
 * closed. `params` and the texts in it stay the caller's. */
int mr_rtmp_open(mr_rtmp **rtmp, const mr_rtmp_params *params);
void mr_rtmp_close(mr_rtmp **rtmp);
/* The FLV bytes, for a demuxer; it belongs to `rtmp`. */
AVIOContext *mr_rtmp_flv(mr_rtmp *rtmp);
/* The bytes that have come from the server since it was opened. */
int64_t mr_rtmp_bytes(const mr_rtmp *rtmp);

#endif

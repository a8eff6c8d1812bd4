/* Plays a stream from an RTMP server (Adobe RTMP 1.0), or publishes one. The bytes are an FLV file: they go to
 * libavformat's demuxer or come from its muxer.
 *
 * libavformat's client keeps unfinished messages without a limit. This one has the limits in chunks.h, and counts all
 * received bytes.
 *
 * The address is rtmp[s]://HOST[:PORT]/APP/STREAM. APP is one path component, or two if the path has three or more.
 * STREAM is the rest, with the query. User and password can answer Adobe's login ("authmod=adobe").
 *
 * One thread. Errors are libavformat's (AVERROR), possibly with a refusal. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/live/connection/tcp.h"

typedef struct mr_rtmp mr_rtmp;

typedef struct mr_rtmp_params {
    const char *url;             /* without user and password */
    const char *name;            /* for messages */
    const char *user, *password; /* NULL: none */
    size_t most_bytes;           /* message limit */
    const char *ca_file;         /* certificates that rtmps trusts; NULL: the system's */
    bool publishes;
    int *refusal;                /* set to a status; mr_message has the text */
    AVIOInterruptCB interrupt;   /* asked whether calls must stop; rarely during connecting */
    int64_t until_ns;            /* but ends then (CLOCK_MONOTONIC) */
    int (*connect)(mr_tcp *socket); /* tests only, else NULL: connects to the server: 0 or an AVERROR */
} mr_rtmp_params;

/* Connects and requests the stream, or permission to publish. *rtmp is set before `interrupt` is first called, and must
 * be closed even after failure. The caller keeps `params` and its texts. */
int mr_rtmp_open(mr_rtmp **rtmp, const mr_rtmp_params *params);
void mr_rtmp_close(mr_rtmp **rtmp);
/* FLV bytes for a demuxer or from a muxer; `rtmp` owns the context. */
AVIOContext *mr_rtmp_flv(mr_rtmp *rtmp);
/* Bytes received from the server since opening. */
int64_t mr_rtmp_bytes(const mr_rtmp *rtmp);

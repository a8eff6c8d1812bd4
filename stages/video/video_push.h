/* Sends one source's packets to a receiver: RTSP (over TCP), RTMP, SRT or UDP.
 *
 * Without a connection, packets are dropped as "no receiver", and connecting is tried again at growing intervals.
 * Connecting and sending cannot exceed the timeout; a receiver that takes nothing for that long is given up. One
 * thread. All zero is closed. */
#pragma once

#include "stages/live/rtmp/rtmp.h"
#include "stages/video/video_options.h"

typedef struct mr_video_push {
    const mr_video_options *given;
    const mr_stage *self;
    mr_container container;
    char shown[128];        /* scheme and host: messages show nothing more */
    AVFormatContext *format; /* NULL: no connection */
    mr_rtmp *rtmp;          /* where `format` writes; NULL: not RTMP */
    int refusal;            /* an error from `rtmp`: mr_message has the text */
    AVPacket *packet;
    mr_muxer_times times;
    mr_media *media;        /* the connection's media */
    uint32_t epoch;
    int64_t deadline_ns;    /* the waiting call's deadline */
    int64_t try_ns;         /* next, on the monotonic clock */
    int64_t pause_ns;       /* before the one after that */
    uint64_t tries;         /* since the last connection */
    bool sent;              /* this connection has sent a packet */
    bool refused;           /* the receiver's protocol cannot hold the stream; reported */
} mr_video_push;

/* The container that an address's scheme needs. MR_ERROR_CONFIG: unknown scheme. */
int mr_video_push_container(const char *url, mr_container *container);

int mr_video_push_open(mr_video_push *push, mr_stage *self);
/* As process. */
int mr_video_push_take(mr_video_push *push, mr_io *io);
void mr_video_push_close(mr_video_push *push);

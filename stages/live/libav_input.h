/* A network stream that libavformat reads. It sets which protocols may be used, TLS, how much may be probed, and what
 * errors mean. Calls block until their deadline, or until `cancelled`; one thread. For HTTP, libavformat opens nothing:
 * it gets bytes from web/web.h, or a playlist's segments (web/hls.h). JPEGs over HTTP have a separate reader
 * (mjpeg/mjpeg.h), which only takes bytes from here. An RTMP client (rtmp/rtmp.h) provides FLV.
 *
 * Bytes without a picture are limited: beyond params->most_bytes plus MR_LIBAV_MORE the connection is closed, even
 * while opening. libavformat would keep such bytes in memory without a limit. */
#pragma once

#include <libavformat/avformat.h>
#include <stdatomic.h>

#include "stages/live/connection/connection.h"
#include "stages/live/mjpeg/mjpeg.h"
#include "stages/live/rtmp/rtmp.h"
#include "stages/live/web/hls.h"
#include "stages/live/web/hls_times.h"
#include "stages/media/media_index.h"
#include "stages/media/media_input.h"
#include "stages/media/media_seams.h"
#include "stages/media/ts/ts_mark.h"

enum { MR_LIBAV_MORE = 64 << 20 };

typedef struct mr_libav_input {
    const mr_connection_params *params; /* borrowed */
    const atomic_bool *cancelled;       /* borrowed; any thread may set it */
    int64_t deadline_ns;                /* CLOCK_MONOTONIC; 0: none */
    bool ran_out;                       /* a call hit the deadline */
    mr_input file;                      /* a session description; fd -1: none */
    AVIOContext *io;                    /* NULL: RTP, or `mjpeg`, `hls` or `rtmp` reads it */
    int64_t read_before, seen;          /* bytes at the last packet, and at the last interrupt call */
    int64_t called_ns;                  /* last interrupt call, */
    uint64_t calls, most_calls;         /* and how many came without a pause; 0: not counted */
    AVFormatContext *format;            /* NULL: `mjpeg` reads it */
    AVStream *stream;
    AVPacket *packet;
    mr_media *media;
    mr_mjpeg mjpeg;
    mr_packet jpeg;                     /* read, but not given yet */
    bool has_jpeg;
    bool bare;                          /* `mjpeg` has no parts */
    uint64_t broken;                    /* broken pictures from `mjpeg` already counted in `gaps` */
    int width, height;                  /* for `mjpeg` */
    mr_survey survey;                   /* for `mjpeg` */
    bool begun;                         /* has given a packet */
    int refusal;                        /* not MR_OK: a host or an answer was refused; mr_message has the reason */
    mr_web web;
    mr_hls *hls;                        /* NULL: it is no playlist */
    mr_rtmp *rtmp;                      /* NULL: it is not RTMP */
    mr_hls_times times;
    bool seam;                          /* data is missing before the next packet */
    bool recorded;                      /* it has an end */
    int64_t end_us;                     /* last packet's end in presentation order, by the stream's clock */
    bool timeless;                      /* packets have no times */
    AVIOContext *tap;                   /* in front of `io` for a transport stream; else NULL */
    mr_index_bound index;               /* the same for other formats */
    bool replaced;                      /* the demuxer starts where another video replaced the previous one */
    mr_ts_marks marks;
    mr_seams seams;                     /* for a recording */
    uint64_t gaps, noted;               /* packets that libavformat missed; how many of them before the last packet */
} mr_libav_input;

/* Opens within params->open_timeout_ns. Must be closed even after failure. MR_ERROR_IO, _PERMISSION, _NO_INPUT, _DATA,
 * _CONFIG (a host that is not allowed), _MEMORY, _CANCELLED. */
int mr_libav_input_open(mr_libav_input *input, const mr_connection_params *params, const atomic_bool *cancelled);
/* What is known about the stream before decoding. */
void mr_libav_input_survey(mr_libav_input *input, mr_survey *survey);
/* Reads the picture stream's next packet. MR_END, or an error as above. */
int mr_libav_input_read(mr_libav_input *input, mr_packet *packet);
void mr_libav_input_close(mr_libav_input *input);

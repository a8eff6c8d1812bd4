/* Pictures from an HTTP address: one connection with many JPEGs (joined.h), or one request per picture if `poll` is
 * set. Bytes come through libavformat's AVIO, and errors are AVERROR. One thread at a time. */
#pragma once

#include <errno.h>
#include <libavformat/avio.h>
#include <libavutil/error.h>

#include "stages/live/mjpeg/joined.h"

enum { MR_MJPEG_TOO_MUCH = AVERROR(EFBIG) };

typedef struct mr_mjpeg_params {
    /* Opens the address: 0 or an AVERROR. */
    int (*open)(void *context, AVIOContext **io);
    /* Whether bytes that were read may be used: 0 or an AVERROR. */
    int (*check)(void *context, AVIOContext *io);
    bool (*is_cancelled)(void *context);
    void *context;
    int64_t poll_ns;   /* from one request to the next; 0: one connection for all pictures */
    size_t most_bytes; /* limit for a picture, and for bytes before one is complete */
} mr_mjpeg_params;

typedef struct mr_mjpeg {
    mr_mjpeg_params params;
    AVIOContext *io;   /* NULL between two requests */
    mr_joined *joined; /* NULL: closed */
    int64_t asked_ns;  /* when the last request began, CLOCK_MONOTONIC */
    uint64_t pictures, broken;
} mr_mjpeg;

/* Takes `io`, an answer with all bytes unread; on failure the caller keeps it. AVERROR(ENOMEM). */
int mr_mjpeg_begin(mr_mjpeg *mjpeg, const mr_mjpeg_params *params, AVIOContext *io);
/* Waits for the next picture, valid until the next call. 0, AVERROR_EOF (the server ended the stream),
 * AVERROR_INVALIDDATA (with `poll`: an answer without a JPEG), AVERROR_EXIT (cancelled), MR_MJPEG_TOO_MUCH, or a
 * connection error. */
int mr_mjpeg_read(mr_mjpeg *mjpeg, mr_joined_picture *picture);
/* Accepts one that is all zero. */
void mr_mjpeg_end(mr_mjpeg *mjpeg);

/* Whether an answer has parts. Its type may say so ("multipart/..."; NULL: none), or `text`, its first bytes as a
 * string, begins with a boundary. Some servers send parts under another type. */
bool mr_mjpeg_has_parts(const char *type, const char *text);
/* Whether an answer begins with a JPEG. */
bool mr_mjpeg_is_picture(const char *text, size_t bytes);

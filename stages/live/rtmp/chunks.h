/* Reads RTMP messages from chunks, and writes them as chunks (Adobe RTMP 1.0, chapters 5.2 to 5.4).
 *
 * A server can begin a message on each of 65,598 chunk streams and end none. Memory is therefore limited by declared
 * lengths: one unfinished message may have `most_bytes`, all together MR_RTMP_MORE more, on at most MR_RTMP_STREAMS
 * chunk streams. A server that exceeds this is refused and must not be read any more.
 *
 * Calls wait for the socket. They ask `interrupt` before each read and at least every tenth of a second. Errors are
 * libavformat's (AVERROR). One thread at a time. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/live/connection/tcp.h"

enum { MR_RTMP_MORE = 1 << 20, MR_RTMP_STREAMS = 64, MR_RTMP_BUFFER = 16384, MR_RTMP_CHUNK = 128 };

/* Message types. */
enum { MR_RTMP_SIZE = 1, MR_RTMP_CONTROL = 4, MR_RTMP_WINDOW, MR_RTMP_BANDWIDTH, MR_RTMP_AUDIO = 8, MR_RTMP_VIDEO,
       MR_RTMP_COMMAND3 = 17, MR_RTMP_DATA, MR_RTMP_COMMAND = 20, MR_RTMP_AGGREGATE = 22 };

typedef struct mr_rtmp_message {
    uint8_t type;
    uint32_t time_ms, stream;
    uint8_t *data; /* mr_free */
    size_t bytes;
} mr_rtmp_message;

typedef struct mr_chunk_stream {
    uint32_t id, step; /* `step`: the last timestamp field */
    bool extended;     /* timestamps have 32 bits */
    size_t filled;     /* how much has arrived */
    mr_rtmp_message message;
} mr_chunk_stream;

typedef struct mr_rtmp_chunks {
    mr_tcp socket;
    AVIOInterruptCB interrupt; /* asked whether calls must stop */
    const char *url;           /* for messages */
    int *refusal;              /* set to a status; mr_message has the text */
    size_t most_bytes;
    uint64_t read, reported;   /* bytes received, and how many were acknowledged */
    uint32_t window;           /* bytes to acknowledge after; 0: never */
    uint32_t chunk_bytes, own_chunk_bytes; /* the server's, and ours */
    size_t declared;           /* by unfinished messages */
    int count;
    mr_chunk_stream streams[MR_RTMP_STREAMS];
    size_t at, end;            /* unread part of `buffer` */
    uint8_t buffer[MR_RTMP_BUFFER];
} mr_rtmp_chunks;

static inline void mr_put24(uint8_t to[3], size_t value) {
    for (int i = 0; i < 3; i++)
        to[i] = (uint8_t)(value >> (16 - 8 * i));
}

/* Performs the handshake. The caller must set socket, interrupt, url, refusal and most_bytes, and zero everything
 * else. */
int mr_rtmp_chunks_begin(mr_rtmp_chunks *chunks);
/* Waits for the next message; the caller must free it. Chunk sizes, aborts and acknowledgements are handled here. */
int mr_rtmp_chunks_read(mr_rtmp_chunks *chunks, mr_rtmp_message *message);
/* Whether unread data has arrived. */
bool mr_rtmp_chunks_wait(const mr_rtmp_chunks *chunks);
/* Sends a message. The caller keeps the data. */
int mr_rtmp_chunks_write(mr_rtmp_chunks *chunks, const mr_rtmp_message *message);
/* Sends a message with a number. MR_RTMP_SIZE also sets our chunk size for later messages. */
int mr_rtmp_chunks_number(mr_rtmp_chunks *chunks, uint8_t type, uint32_t number);
/* Closes the socket. */
void mr_rtmp_chunks_end(mr_rtmp_chunks *chunks);

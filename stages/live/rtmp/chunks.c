#include "stages/live/rtmp/chunks.h"

#include <errno.h>
#include <libavutil/error.h>
#include <libavutil/intreadwrite.h>
#include <poll.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/stage.h"
#include "millrace/status.h"

enum { VERSION = 3, SHAKE = 1536, ABORT = 2, ACKNOWLEDGE, ABSOLUTE = 0xffffff, SLICE_MS = 100 };

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static int interrupted(const mr_rtmp_chunks *chunks) {
    return chunks->interrupt.callback && chunks->interrupt.callback(chunks->interrupt.opaque) ? AVERROR_EXIT : 0;
}

/* Waits if a call must be repeated; 0: repeat it. */
static int await(const mr_rtmp_chunks *chunks, int status, short events) {
    struct pollfd ready = {.fd = chunks->socket.fd, .events = events};
    if (status == MR_ERROR_AGAIN)
        poll(&ready, 1, SLICE_MS);
    return status == MR_ERROR_AGAIN ? interrupted(chunks) : status == MR_END ? AVERROR_EOF : AVERROR(EIO);
}

static int fill(mr_rtmp_chunks *chunks) {
    int status, error = interrupted(chunks);
    while (!error) {
        status = mr_tcp_read(&chunks->socket, chunks->buffer, sizeof chunks->buffer, &chunks->end);
        if (!status)
            break;
        error = await(chunks, status, POLLIN);
    }
    chunks->at = 0;
    chunks->end = error ? 0 : chunks->end;
    chunks->read += chunks->end;
    return error;
}

static int take(mr_rtmp_chunks *chunks, uint8_t *to, size_t bytes) {
    while (bytes) {
        const int error = chunks->at == chunks->end ? fill(chunks) : 0;
        if (error)
            return error;
        const size_t there = chunks->end - chunks->at, part = there < bytes ? there : bytes;
        memcpy(to, chunks->buffer + chunks->at, part);
        chunks->at += part;
        to += part;
        bytes -= part;
    }
    return 0;
}

static int give(mr_rtmp_chunks *chunks, const uint8_t *data, size_t bytes) {
    int error = 0;
    while (bytes && !error) {
        size_t written;
        const int status = mr_tcp_write(&chunks->socket, data, bytes, &written);
        data += written;
        bytes -= written;
        error = status ? await(chunks, status, POLLOUT) : 0;
    }
    return error;
}

static int refuse(mr_rtmp_chunks *chunks, int status) {
    *chunks->refusal = status;
    return AVERROR(EPROTO);
}

int mr_rtmp_chunks_begin(mr_rtmp_chunks *chunks) {
    uint8_t ours[1 + SHAKE] = {VERSION}, theirs[1 + SHAKE];
    chunks->chunk_bytes = chunks->own_chunk_bytes = MR_RTMP_CHUNK;
    int error = give(chunks, ours, sizeof ours);
    if (!error)
        error = take(chunks, theirs, 1);
    if (!error && theirs[0] != VERSION)
        return refuse(chunks, mr_fail(MR_ERROR_DATA, "%s: the server does not answer as one of RTMP", chunks->url));
    if (!error)
        error = take(chunks, theirs + 1, SHAKE);
    if (!error)
        error = give(chunks, theirs + 1, SHAKE);
    return error ? error : take(chunks, ours, SHAKE);
}

bool mr_rtmp_chunks_wait(const mr_rtmp_chunks *chunks) {
    struct pollfd ready = {.fd = chunks->socket.fd, .events = POLLIN};
    return chunks->at < chunks->end || mr_tcp_pending(&chunks->socket) || poll(&ready, 1, 0) > 0;
}

/* ---- messages that go -------------------------------------------------------------------------------------------- */

/* The chunk stream that a message type uses. */
static uint8_t stream_for(uint8_t type) {
    return type < MR_RTMP_AUDIO      ? 2
           : type == MR_RTMP_COMMAND ? 3
           : type == MR_RTMP_AUDIO   ? 4
           : type == MR_RTMP_DATA    ? 5
                                     : 6;
}

/* Writes a 32-bit time, which follows each header in a message. */
static size_t put_wide(uint8_t *to, uint32_t time_ms) {
    if (time_ms >= ABSOLUTE)
        AV_WB32(to, time_ms);
    return time_ms >= ABSOLUTE ? 4 : 0;
}

int mr_rtmp_chunks_write(mr_rtmp_chunks *chunks, const mr_rtmp_message *message) {
    enum { HEADER = 12, WIDE = 4 };
    const uint8_t id = stream_for(message->type);
    const size_t most = chunks->own_chunk_bytes, count = message->bytes / most + 1;
    uint8_t *whole = mr_calloc(1, HEADER + message->bytes + count * (1 + WIDE));
    if (!whole)
        return AVERROR(ENOMEM);
    whole[0] = id;
    mr_put24(whole + 1, message->time_ms < ABSOLUTE ? message->time_ms : ABSOLUTE);
    mr_put24(whole + 4, message->bytes);
    whole[7] = message->type;
    AV_WL32(whole + 8, message->stream);
    size_t end = HEADER + put_wide(whole + HEADER, message->time_ms);
    for (size_t at = 0; at < message->bytes; at += most) {
        const size_t left = message->bytes - at, part = left < most ? left : most;
        if (at) {
            whole[end++] = 0xc0 | id;
            end += put_wide(whole + end, message->time_ms);
        }
        memcpy(whole + end, message->data + at, part);
        end += part;
    }
    const int error = give(chunks, whole, end);
    mr_free(whole);
    return error;
}

int mr_rtmp_chunks_number(mr_rtmp_chunks *chunks, uint8_t type, uint32_t number) {
    uint8_t bytes[4];
    AV_WB32(bytes, number);
    const int error = mr_rtmp_chunks_write(chunks, &(mr_rtmp_message){.type = type, .data = bytes,
                                                                      .bytes = sizeof bytes});
    chunks->own_chunk_bytes = type == MR_RTMP_SIZE ? number : chunks->own_chunk_bytes;
    return error;
}

/* ---- messages that come ------------------------------------------------------------------------------------------ */

static int find_stream(mr_rtmp_chunks *chunks, uint32_t id, mr_chunk_stream **stream) {
    for (int i = 0; i < chunks->count; i++)
        if (chunks->streams[i].id == id) {
            *stream = &chunks->streams[i];
            return 0;
        }
    if (chunks->count == MR_RTMP_STREAMS)
        return refuse(chunks, mr_fail(MR_ERROR_DATA, "%s: the server uses more than %d chunk streams", chunks->url,
                                      MR_RTMP_STREAMS));
    *stream = &chunks->streams[chunks->count++];
    (*stream)->id = id;
    return 0;
}

/* Drops an incomplete message. */
static void drop(mr_rtmp_chunks *chunks, mr_chunk_stream *stream) {
    if (stream->message.data)
        chunks->declared -= stream->message.bytes;
    mr_free(stream->message.data);
    stream->message.data = NULL;
    stream->filled = 0;
}

/* Reads the next chunk's stream and header form: 0 has all fields, 3 has none. */
static int read_basic(mr_rtmp_chunks *chunks, mr_chunk_stream **stream, int *form) {
    uint8_t first, more[2] = {0};
    int error = take(chunks, &first, 1);
    uint32_t id = first & 63;
    if (!error && id < 2) {
        error = take(chunks, more, id + 1);
        id = 64u + more[0] + 256u * more[1];
    }
    *form = first >> 6;
    return error ? error : find_stream(chunks, id, stream);
}

/* If a header repeats the length, it continues the message: some servers write only such headers. */
static int read_header(mr_rtmp_chunks *chunks, mr_chunk_stream *stream, int form) {
    static const size_t lengths[] = {11, 7, 3, 0};
    uint8_t head[11], wide[4];
    mr_rtmp_message *message = &stream->message;
    int error = take(chunks, head, lengths[form]);
    if (error)
        return error;
    if (form < 2 && (uint32_t)AV_RB24(head + 3) != message->bytes)
        drop(chunks, stream);
    if (form < 3) {
        stream->step = (uint32_t)AV_RB24(head);
        stream->extended = stream->step == ABSOLUTE;
    }
    if (form < 2) {
        message->bytes = (uint32_t)AV_RB24(head + 3);
        message->type = head[6];
    }
    if (form == 0)
        message->stream = AV_RL32(head + 7);
    if (stream->extended && (error = take(chunks, wide, sizeof wide)))
        return error;
    stream->step = stream->extended ? AV_RB32(wide) : stream->step;
    if (!message->data)
        message->time_ms = stream->step + (form ? message->time_ms : 0);
    return 0;
}

static int begin_message(mr_rtmp_chunks *chunks, mr_chunk_stream *stream) {
    mr_rtmp_message *message = &stream->message;
    const size_t most = chunks->most_bytes;
    if (message->bytes > most || chunks->declared + message->bytes > most + MR_RTMP_MORE)
        return refuse(chunks, mr_fail(MR_ERROR_DATA, "%s: the server has begun messages of %zu bytes without ending "
                                      "them; the most for max_pixels are %zu MiB", chunks->url,
                                      chunks->declared + message->bytes, most >> 20));
    message->data = mr_alloc(message->bytes + 1);
    if (!message->data)
        return AVERROR(ENOMEM);
    chunks->declared += message->bytes;
    return 0;
}

/* Reads a chunk. `whole`: the stream whose message it completes, or NULL. */
static int read_chunk(mr_rtmp_chunks *chunks, mr_chunk_stream **whole) {
    mr_chunk_stream *stream = NULL;
    int form, error = read_basic(chunks, &stream, &form);
    *whole = NULL;
    if (!error)
        error = read_header(chunks, stream, form);
    if (!error && !stream->message.data)
        error = begin_message(chunks, stream);
    if (error)
        return error;
    const size_t left = stream->message.bytes - stream->filled;
    const size_t part = left < chunks->chunk_bytes ? left : chunks->chunk_bytes;
    error = take(chunks, stream->message.data + stream->filled, part);
    stream->filled += part;
    if (!error && part == left)
        *whole = stream;
    return error;
}

static void control(mr_rtmp_chunks *chunks, const mr_rtmp_message *message) {
    const uint32_t value = message->bytes >= 4 ? AV_RB32(message->data) : 0, most = INT32_MAX;
    if (message->type == MR_RTMP_SIZE && value & most)
        chunks->chunk_bytes = value & most;
    if (message->type == MR_RTMP_WINDOW)
        chunks->window = value;
    for (int i = 0; message->type == ABORT && i < chunks->count; i++)
        if (chunks->streams[i].id == value)
            drop(chunks, &chunks->streams[i]);
}

static int acknowledge(mr_rtmp_chunks *chunks) {
    if (!chunks->window || chunks->read - chunks->reported < chunks->window)
        return 0;
    chunks->reported = chunks->read;
    return mr_rtmp_chunks_number(chunks, ACKNOWLEDGE, (uint32_t)chunks->read);
}

int mr_rtmp_chunks_read(mr_rtmp_chunks *chunks, mr_rtmp_message *message) {
    mr_chunk_stream *stream = NULL;
    int error = 0;
    while (!error && !stream) {
        error = read_chunk(chunks, &stream);
        if (!error)
            error = acknowledge(chunks);
    }
    if (error)
        return error;
    *message = stream->message;
    stream->message.data = NULL;
    stream->filled = 0;
    chunks->declared -= message->bytes;
    control(chunks, message);
    return 0;
}

void mr_rtmp_chunks_end(mr_rtmp_chunks *chunks) {
    for (int i = 0; i < chunks->count; i++)
        mr_free(chunks->streams[i].message.data);
    chunks->count = 0;
    mr_tcp_close(&chunks->socket);
}

#include "engine/serve/http_parts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define BOUNDARY "millrace-part"

const char *mr_http_parts_type(mr_http_stream_kind kind) {
    return kind == MR_HTTP_EVENTS ? "text/event-stream" : "multipart/x-mixed-replace; boundary=" BOUNDARY;
}

static void start(mr_http_parts *parts, const mr_http_content *part, int head_bytes, const char *end) {
    assert(!parts->busy && head_bytes > 0 && head_bytes < MR_HTTP_HEAD_BYTES);
    parts->part = *part;
    parts->head_bytes = (size_t)head_bytes;
    parts->end = end;
    parts->sent = 0;
    parts->busy = parts->begun = true;
}

/* Browsers show a picture once they have seen the boundary after it, which is therefore sent with it. */
void mr_http_parts_begin(mr_http_parts *parts, const mr_http_content *part) {
    if (parts->kind == MR_HTTP_EVENTS) {
        assert(!memchr(part->data, '\n', part->bytes) && !memchr(part->data, '\r', part->bytes));
        start(parts, part, snprintf(parts->head, sizeof parts->head, "event: %s\ndata: ", part->type), "\n\n");
        return;
    }
    int bytes = snprintf(parts->head, sizeof parts->head, "%sContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                         parts->begun ? "" : "--" BOUNDARY "\r\n", part->type, part->bytes);
    start(parts, part, bytes, "\r\n--" BOUNDARY "\r\n");
}

void mr_http_parts_comment(mr_http_parts *parts) {
    if (!parts->busy)
        start(parts, &(mr_http_content){.data = ""}, snprintf(parts->head, sizeof parts->head, ":\n\n"), "");
}

/* Copies from `from`, which begins at `begin` of the part, all that was not sent yet and fits. */
static size_t copy_piece(mr_http_parts *parts, size_t begin, const void *from, size_t bytes, char *to, size_t room) {
    if (parts->sent < begin || parts->sent >= begin + bytes)
        return 0;
    size_t offset = parts->sent - begin, count = bytes - offset < room ? bytes - offset : room;
    memcpy(to, (const char *)from + offset, count);
    parts->sent += count;
    return count;
}

size_t mr_http_parts_copy(mr_http_parts *parts, char *to, size_t room) {
    const size_t data_end = parts->head_bytes + parts->part.bytes, end_bytes = strlen(parts->end);
    size_t done = copy_piece(parts, 0, parts->head, parts->head_bytes, to, room);
    done += copy_piece(parts, parts->head_bytes, parts->part.data, parts->part.bytes, to + done, room - done);
    done += copy_piece(parts, data_end, parts->end, end_bytes, to + done, room - done);
    if (parts->sent == data_end + end_bytes)
        mr_http_parts_end(parts);
    return done;
}

void mr_http_parts_end(mr_http_parts *parts) {
    if (parts->busy && parts->part.release)
        parts->part.release(parts->part.owner);
    parts->busy = false;
}

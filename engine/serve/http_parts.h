/* Streams as bytes: parts of multipart/x-mixed-replace (RFC 2046), or server-sent events (WHATWG HTML). A part is
 * copied out in as many pieces as the reader needs, and is then released. One thread at a time. */
#pragma once

#include "engine/serve/http_server.h"

enum { MR_HTTP_HEAD_BYTES = 160 };

typedef struct mr_http_parts {
    mr_http_stream_kind kind;
    bool busy;               /* `part` is not copied out yet */
    bool begun;              /* there was a part before */
    mr_http_content part;
    char head[MR_HTTP_HEAD_BYTES];
    const char *end;
    size_t head_bytes, sent; /* sent: counts head, data and end */
} mr_http_parts;

/* The whole stream's media type. */
const char *mr_http_parts_type(mr_http_stream_kind kind);

/* Begins with a part, which belongs to `parts` from then on; none is busy. */
void mr_http_parts_begin(mr_http_parts *parts, const mr_http_content *part);

/* For event streams: begins with a comment, which clients ignore, unless a part is busy. */
void mr_http_parts_comment(mr_http_parts *parts);

/* Copies the busy part's next bytes, at most `room`. Releases the part after the last byte. */
size_t mr_http_parts_copy(mr_http_parts *parts, char *to, size_t room);

/* Releases the busy part, if there is one. */
void mr_http_parts_end(mr_http_parts *parts);

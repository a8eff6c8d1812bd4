/* Pictures over HTTP, by libmicrohttpd.
 *
 *     GET /              a page that shows all sources
 *     GET /.json         the sources that have pictures
 *     GET /ID.jpg        the newest picture of a source
 *     GET /ID.mjpeg      all pictures, each a part of multipart/x-mixed-replace
 *     GET /ID.json       the record of the newest picture, as jsonl writes it
 *
 * One thread serves all connections, without ever waiting for one. Their number is bounded: more wait in the system's
 * queue until one ends. A connection serves one request and is then closed. If it is not a stream it may last for
 * `timeout`, from its first byte to the last of the answer; a stream whose viewer takes nothing for so long is closed.
 *
 * If there is a token, a request must have it ("Authorization: Bearer TOKEN", or "?token=TOKEN"). If not, its Host
 * header must name this machine: a page from elsewhere in a browser on this machine can then not read pictures (DNS
 * rebinding), and headers of the answers keep it from showing them. Nothing of requests is logged. */
#ifndef MILLRACE_STAGES_PREVIEW_SERVER_H
#define MILLRACE_STAGES_PREVIEW_SERVER_H

#include <stdint.h>

#include "stages/preview/gallery.h"

typedef struct mr_preview_server mr_preview_server;

typedef struct mr_preview_server_params {
    const char *title; /* of the page */
    const char *token; /* NULL: none */
    int fd;            /* a listening socket, which belongs to the server from then on, also on failure */
    int most_viewers;
    int64_t timeout_ns;
    mr_gallery *gallery;
} mr_preview_server_params;

/* Connections beside those of viewers. */
enum { MR_PREVIEW_OTHERS = 64 };

/* Starts the thread. Texts are copied. MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_preview_server_create(mr_preview_server **server, const mr_preview_server_params *params);
/* Closes all connections and the gallery, for which no looker is left then. Sets it to NULL; NULL is allowed. */
void mr_preview_server_destroy(mr_preview_server **server);

#endif
